"""One input is read in bounded time and memory, and nothing outside is touched."""

from __future__ import annotations

import os
import resource
import signal
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final

SECONDS: Final = 3.0
"""Processor time that one input may take: it does not depend on what else the machine does."""
MEGABYTES: Final = 300
"""Memory by which the process may grow for one input."""

_STARTS: Final = frozenset(
    {
        *(
            "os.system",
            "os.exec",
            "os.fork",
            "os.forkpty",
            "os.posix_spawn",
            "os.spawn",
            "os.kill",
            "subprocess.Popen",
        ),
        *("socket.connect", "socket.bind", "socket.getaddrinfo", "socket.gethostbyname", "socket.sendto"),
    }
)
_CHANGES: Final = frozenset(
    {
        *(
            "os.remove",
            "os.rename",
            "os.rmdir",
            "os.mkdir",
            "os.truncate",
            "os.chmod",
            "os.chown",
            "os.link",
            "os.symlink",
        ),
        *("os.utime", "shutil.rmtree", "shutil.move", "os.putenv", "os.unsetenv", "os.chdir"),
    }
)
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


# Known before the hook is active: tempfile would ask for its own lock again.
_TEMPORARY: Final = tempfile.gettempdir()
_EVALUATING: Final = ("/typing.py", "/dataclasses.py", "/collections/__init__.py")


class TooSlowError(BaseException):
    """An input took more processor time than `SECONDS`."""


class TooLargeError(BaseException):
    """An input took more memory than `MEGABYTES`."""


class ForbiddenError(BaseException):
    """Reading started a process, used the network, evaluated text, or wrote files."""


class _Watch:
    """The audit hook's state: hooks cannot be removed."""

    installed = False
    active = False


def bounded(check: Callable[[Any], None], value: Any) -> None:
    """Read *value*; raise what it raises, or one of this module's errors."""
    if not _Watch.installed:
        _Watch.installed = True
        sys.addaudithook(_audit)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with _clock():
        _Watch.active = True
        try:
            check(value)
        finally:
            _Watch.active = False
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / (
        1024 * (1024 if sys.platform == "darwin" else 1)
    )
    if grown > MEGABYTES:
        raise TooLargeError(f"it took {grown:.0f} MiB")


@contextmanager
def _clock() -> Iterator[None]:
    def late(_number: int, _frame: FrameType | None) -> None:
        raise TooSlowError(f"it took more than {SECONDS:g} s of processor time")

    before = signal.signal(signal.SIGPROF, late)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


@contextmanager
def unwatched() -> Iterator[None]:
    """Let a target prepare what it needs, such as its folder."""
    before, _Watch.active = _Watch.active, False
    try:
        yield
    finally:
        _Watch.active = before


def _audit(event: str, args: tuple[Any, ...]) -> None:
    if not _Watch.active:
        return
    if event in _STARTS:
        raise ForbiddenError(f"{event} {args!r}"[:300])
    if event in _CHANGES and not _below_temporary(args[0] if args else ""):
        raise ForbiddenError(f"{event} {args!r}"[:300])
    if event == "open" and isinstance(args[2], int) and args[2] & _WRITES and not _below_temporary(args[0]):
        raise ForbiddenError(f"opened for writing: {args[0]!r}"[:300])
    if event == "exec" and getattr(args[0], "co_filename", "") in ("<string>", "<unknown>") and not _importing():
        raise ForbiddenError("text was evaluated")


def _below_temporary(path: object) -> bool:
    if isinstance(path, int):
        return True
    text = os.fsdecode(path) if isinstance(path, str | bytes | os.PathLike) else ""
    return text == os.devnull or Path(text).is_relative_to(_TEMPORARY)


def _importing() -> bool:
    """Return whether a class is being made: dataclasses are evaluated text."""
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        file = frame.f_code.co_filename
        if file.startswith("<frozen importlib") or file.endswith(_EVALUATING):
            return True
        frame = frame.f_back
    return False
