"""Temporary things carry their owner, so that a later run removes leftovers.

An owner is a process. A folder carries it in its name; containers and candidate images carry it on the engine
(:mod:`aml_train.image.leftovers`). A folder may hold the build context, the code of a job, and credentials that live as
long as a build. Facts on ``/proc``: proc(5).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import re
import tempfile
import uuid
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal, Self

from aml_train.core.machine import machine_errors

OWNER_PATTERN: Final = re.compile(
    r"(?P<machine>[0-9a-f]{12})\.(?P<pid>\d{1,18})\.(?P<start>\d{1,18})\.(?P<container>[0-9a-f]{12}|host)"
)
_LOG = logging.getLogger(__name__)
LEASE: Final = 26 * 3600.0
"""Seconds after which the folder of an owner that cannot be looked up (of an earlier boot, or of another PID namespace) is left over:
longer than any build may take."""


Life = Literal["alive", "dead", "unknown"]


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A process that makes temporary things.

    Attributes:
        machine: stands for the boot of the machine and the process's PID namespace: twelve hexadecimal digits.
        pid: the process, as its own namespace counts.
        start: when it started, in clock ticks since the boot.
        container: the first twelve digits of the id of its container on that engine, or None outside of one.
    """

    machine: str
    pid: int
    start: int
    container: str | None

    def __str__(self) -> str:
        return f"{self.machine}.{self.pid}.{self.start}.{self.container or 'host'}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what :meth:`__str__` wrote, or None for anything else."""
        match = OWNER_PATTERN.fullmatch(text)
        if match is None:
            return None
        container = match["container"]
        return cls(
            machine=match["machine"],
            pid=int(match["pid"]),
            start=int(match["start"]),
            container=None if container == "host" else container,
        )


def life_of(owner: Owner, running: Collection[str]) -> Life:
    """Return whether *owner* is alive.

    A process of this machine and PID namespace is looked up. One in a container is dead when that does not run; while it
    does, the process is certainly alive only if it is the container's first.

    Args:
        running: the ids of the containers that run on the engine.
    """
    if owner.machine == this_machine():
        found = process_start(owner.pid)
        if found == -1:
            return "unknown"
        return "alive" if found == owner.start else "dead"
    if owner.container is None:
        return "unknown"
    if not any(identity.startswith(owner.container) for identity in running):
        return "dead"
    return "alive" if owner.pid == 1 else "unknown"


@functools.cache
def this_machine() -> str:
    """Return :attr:`Owner.machine` of this process; a random one without ``/proc``."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        seed = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        seed = uuid.uuid4().hex
    return hashlib.sha256(seed.encode()).hexdigest()[:12]


def process_start(pid: int) -> int | None:
    """Return when a process of this namespace started, in clock ticks since the boot.

    None if there is none, or only its remains (a zombie); -1 if it is unknown, as on macOS.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        _LOG.debug("The process %d is another user's", pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    # The second field is the command in parentheses, whatever it holds; the state is the third, the start the 22nd.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@contextlib.contextmanager
def temporary_folder(kind: str) -> Iterator[Path]:
    """Make a temporary folder, and remove it at the end of the block.

    Args:
        kind: what it is for: ``build``, ``check`` or ``code``.

    Raises:
        DiskError: there is no room for it, or for what the block writes.
    """
    with machine_errors(), tempfile.TemporaryDirectory(prefix=f"aml-train-{kind}-{_this_process()}-") as name:
        yield Path(name)


@functools.cache
def _this_process() -> Owner:
    return Owner(
        machine=this_machine(), pid=os.getpid(), start=max(process_start(os.getpid()) or 0, 0), container=None
    )
