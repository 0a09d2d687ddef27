"""Samples of a process and its children, and of a folder's disk. Linux."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_TICKS: Final = os.sysconf("SC_CLK_TCK")
_ROLES: Final[Mapping[str, str]] = {"azurite": "storage", "registry": "registry"}
_BLOCK: Final = 512


@dataclass(frozen=True, kw_only=True)
class Process:
    """One process at one moment.

    Attributes:
        role: ``service``, ``storage`` or ``registry``.
        memory: anonymous resident memory, bytes: pages of files that the kernel may drop are not counted.
        resident: all resident memory, bytes.
        cpu: seconds of CPU time since its start.
    """

    role: str
    memory: int
    resident: int
    files: int
    threads: int
    cpu: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """All processes at one moment.

    *at* is in seconds since the beginning; *disk* is in bytes.
    """

    at: float
    processes: tuple[Process, ...]
    disk: int


def processes_of(pid: int) -> tuple[Process, ...]:
    """Return a process and its children, by role; one that ends meanwhile is left out."""
    found = [read_process(pid, "service")]
    for task in Path(f"/proc/{pid}/task").iterdir():
        for child in (task / "children").read_text(encoding="ascii").split():
            words = _command(int(child))
            role = next((role for word, role in _ROLES.items() if word in words), "other")
            found.append(read_process(int(child), role))
    return tuple(one for one in found if one is not None)


def read_process(pid: int, role: str) -> Process | None:
    """Return what /proc has of a process; None if it has ended."""
    place = Path(f"/proc/{pid}")
    try:
        lines = (place / "status").read_text(encoding="utf-8", errors="replace").splitlines()
        status = dict(line.split(":", 1) for line in lines if ":" in line)
        fields = (place / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        files = sum(1 for _ in (place / "fd").iterdir())
    except (FileNotFoundError, ProcessLookupError):
        return None
    if "RssAnon" not in status:
        return None  # it has ended, and no one has waited for it
    return Process(
        role=role,
        memory=_kilobytes(status["RssAnon"]),
        resident=_kilobytes(status["VmRSS"]),
        files=files,
        threads=int(status["Threads"]),
        cpu=(int(fields[11]) + int(fields[12])) / _TICKS,
    )


def disk_of(folder: Path) -> int:
    """Return the bytes that a folder takes on the disk, as ``du`` does.

    Files that vanish meanwhile count nothing.
    """
    total = 0
    for root, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(root) / name).lstat().st_blocks * _BLOCK
            except FileNotFoundError:
                continue
    return total


def read_heap(path: Path, *, since: float) -> tuple[tuple[float, int], ...]:
    """Return what ``live_heap.cjs`` wrote after a moment.

    Those are pairs of seconds since then and bytes.

    Args:
        since: seconds since the epoch.
    """
    if not path.exists():
        return ()
    lines = (line.split() for line in path.read_text(encoding="ascii").splitlines())
    return tuple((float(at) - since, int(size)) for at, size in lines if float(at) >= since)


class Sampler:
    """Takes samples in a thread, until it is stopped.

    Args:
        pid: returns the id of the service's process, which changes when it is started again; None while there is none.
        folder: of its data.
        every: seconds between two samples.
    """

    def __init__(self, pid: Callable[[], int | None], folder: Path, *, every: float) -> None:
        self._pid = pid
        self._folder = folder
        self._every = every
        self._stop = threading.Event()
        self._began = time.monotonic()
        self._thread = threading.Thread(target=self._repeat, daemon=True)
        self.samples: list[Sample] = []

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def stop(self) -> None:
        """End; the samples are complete."""
        self._stop.set()
        self._thread.join()

    def take(self) -> None:
        """Take one sample."""
        pid = self._pid()
        if pid is None:
            return
        try:
            processes = processes_of(pid)
        except FileNotFoundError:
            return  # it is being started again
        at = time.monotonic() - self._began
        self.samples.append(Sample(at=at, processes=processes, disk=disk_of(self._folder)))

    def _repeat(self) -> None:
        while not self._stop.is_set():
            self.take()
            self._stop.wait(self._every)


def _command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
    except (FileNotFoundError, ProcessLookupError):
        return ""


def _kilobytes(text: str) -> int:
    return int(text.split()[0]) * 1024
