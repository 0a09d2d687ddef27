"""Temporary folders whose names say who made them, so that a later run removes what a killed one left.

A folder may hold the build context, the code of a job, and credentials that live as long as a build.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from aml_train.core.events import Listener, Notice
from aml_train.core.machine import machine_errors
from aml_train.image import Owner, life, start_of, this_machine

_NAME: Final = re.compile(r"aml-train-(?P<kind>[a-z]+)-(?P<owner>[0-9a-f]{12}\.\d+\.\d+\.host)-[^/]+")
_KINDS: Final = {"build": "build context", "check": "build context", "code": "copy of code"}
LEASE: Final = 26 * 3600.0
"""Seconds after which the folder of an owner that cannot be looked up (of an earlier boot, or of another PID namespace) is left over:
longer than any build may take."""


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
def _started() -> int:
    return max(start_of(os.getpid()) or 0, 0)


def _this_process() -> Owner:
    return Owner(machine=this_machine(), pid=os.getpid(), start=_started(), container=None)


def sweep_folders(
    listener: Listener,
    *,
    place: Path | None = None,
    machine: str | None = None,
    started: Callable[[int], int | None] = start_of,
    now: float | None = None,
) -> list[Path]:
    """Remove the temporary folders of this user whose owner is dead, or unknown and older than :data:`LEASE`.

    What cannot be removed is reported as a warning, and left to the next sweep.

    Args:
        listener: is passed what was removed.
        place: the folder for temporary files; the process's by default.
        machine, started: see :func:`aml_train.image.leftovers.life`; those of this machine by default.
        now: the time, in seconds since 1970; that of the clock by default.

    Returns:
        what was removed.
    """
    removed: list[Path] = []
    kinds: set[str] = set()
    try:
        with os.scandir(place or tempfile.gettempdir()) as found:
            items = sorted(found, key=lambda item: item.name)
    except (
        OSError
    ):  # no folder for temporary files can be used: there is nothing in it, and the one who needs it reports that
        return removed
    for item in items:
        match = _NAME.fullmatch(item.name)
        if match is None or not _left_over(
            item, match["owner"], machine or this_machine(), started, now or time.time()
        ):
            continue
        try:
            shutil.rmtree(item.path)
        except FileNotFoundError:  # another run's sweep was quicker
            continue
        except OSError as error:
            text = f"A killed run left {item.path}, which cannot be removed: {error.strerror}"
            listener(Notice(text=text, level="warning"))
            continue
        removed.append(Path(item.path))
        kinds.add(_KINDS.get(match["kind"], "temporary folder"))
    if removed:
        count = f"{len(removed)} temporary folder{'s' * (len(removed) != 1)} ({', '.join(sorted(kinds))})"
        listener(Notice(text=f"Removed what a killed run had left: {count}"))
    return removed


def _left_over(
    item: os.DirEntry[str], name: str, machine: str, started: Callable[[int], int | None], now: float
) -> bool:
    """Tell whether no process uses the folder any more. Only folders of this user count: all users may make names in ``/tmp``."""
    owner = Owner.parse(name)
    try:
        status = item.stat(follow_symlinks=False)
    except OSError:
        return False
    if owner is None or not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    found = life(owner, machine=machine, running=(), start_of=started)
    return found == "dead" or (found == "unknown" and status.st_mtime + LEASE < now)
