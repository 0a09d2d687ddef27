"""How tests run side by side in the workers of pytest-xdist: what stays together, in which order, and who has the machine to himself.

Without workers (``-n 0``) nothing of this does anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, TypeVar

FOLDER: Final = "AML_TRAIN_TESTS_LOCKS"
"""The variable that tells a worker the folder of the locks that all workers of a run share."""

T = TypeVar("T")

#: Modules whose tests share nothing but what every worker has of its own: each test may go to any worker.
APART: Final = frozenset[str]()
#: What takes longest, and so begins first; everything else follows in the order of the folders below.
LONG: Final[Sequence[str]] = ()
_FOLDERS: Final = ("tests/e2e/", "tests/integration/", "tests/unit/")


def group_of(test: str) -> str:
    """Return the name of the tests that one worker runs one after the other, given one's node id: those of a module, mostly."""
    module, _, name = test.partition("::")
    return f"{module}::{name.partition('[')[0]}" if module in APART else module


def place_of(test: str) -> tuple[int, int]:
    """Return a test's place in the order of a run side by side, as a key to sort by: what takes long begins first."""
    module = test.partition("::")[0]
    long = LONG.index(module) if module in LONG else len(LONG)
    folder = next((at for at, folder in enumerate(_FOLDERS) if module.startswith(folder)), len(_FOLDERS))
    return long, folder


@contextlib.contextmanager
def _held(path: Path, how: int) -> Iterator[None]:
    """Hold the lock that the file at *path* is; a process that dies lets go of it."""
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(file, how)
        yield
    finally:
        os.close(file)


@contextlib.contextmanager
def machine(*, alone: bool, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Have the machine together with others, or *alone*: then no test of another worker runs meanwhile.

    Whoever comes waits in one queue, so that a test that must be alone is not kept out by ever more others.
    """
    if FOLDER not in environ:
        yield
        return
    folder = Path(environ[FOLDER])
    with contextlib.ExitStack() as inside:
        with _held(folder / "queue", fcntl.LOCK_EX):
            inside.enter_context(_held(folder / "machine", fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield


@contextlib.contextmanager
def one_at_a_time(what: str, *, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Do *what* in one worker at a time, such as an image that all of them use: the first makes it, the others find it."""
    with (
        _held(Path(environ[FOLDER]) / f"of-{what}", fcntl.LOCK_EX) if FOLDER in environ else contextlib.nullcontext()
    ):
        yield
