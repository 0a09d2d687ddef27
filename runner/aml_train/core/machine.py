"""The limits of this machine, and the signals that end a process.

A full disk and the like are no faults of the program. SIGINT and SIGTERM both raise KeyboardInterrupt in the main thread.
"""

from __future__ import annotations

import contextlib
import errno
import os
import signal
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from aml_train.core.errors import AmlTrainError, DiskError, InvalidError

_FULL: Final = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EFBIG, errno.EMFILE, errno.ENFILE})
_NO_FOLDER: Final = "No usable temporary directory found"
"""How ``tempfile`` says that every folder for temporary files is full or read-only (CPython, ``tempfile.py``)."""


def expected(error: BaseException) -> AmlTrainError | None:
    """Return the error to show for one of the operating system.

    None for a fault of ours.
    """
    if not isinstance(error, OSError):
        return None
    if error.errno in _FULL:
        named = error.filename if isinstance(error.filename, str) else None
        return _disk(named or _temporary(), error.strerror or str(error))
    if isinstance(error, FileNotFoundError) and _NO_FOLDER in str(error):
        return _disk(os.environ.get("TMPDIR", "/tmp"), "there is no room for temporary files")  # noqa: S108
    if isinstance(error, FileNotFoundError) and _is_gone():
        return InvalidError("The working directory does not exist any more.", hint="Change into a folder that does.")
    return None


def _disk(place: str, why: str) -> DiskError:
    return DiskError(
        f"{place} cannot be written: {why}",
        hint="Free space there, or name another folder for temporary files in TMPDIR.",
    )


def _temporary() -> str:
    try:
        return tempfile.gettempdir()
    except OSError:
        return os.environ.get("TMPDIR", "/tmp")  # noqa: S108


def _is_gone() -> bool:
    try:
        Path.cwd()
    except OSError:
        return True
    return False


@contextlib.contextmanager
def machine_errors() -> Iterator[None]:
    """Turn errors of the operating system that are this machine's limits into ours.

    Raises:
        DiskError: the disk is full, or cannot be written to.
    """
    try:
        yield
    except OSError as error:
        ours = expected(error)
        if ours is None:
            raise
        raise ours from error


@contextlib.contextmanager
def interrupt_on(*numbers: signal.Signals) -> Iterator[Callable[[], None]]:
    """Raise KeyboardInterrupt for these signals during the block; give a function that ignores them."""
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}

    def ignore() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    try:
        yield ignore
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def in_place_of_interrupt(error: BaseException) -> bool:
    """Return whether *error* replaced a KeyboardInterrupt, as an error of a ``finally`` does that closes something twice."""
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__cause__ or cause.__context__
    return cause is not None
