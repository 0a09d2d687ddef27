"""How tests run side by side in the workers of pytest-xdist: what stays together, in which order, and who has the machine to himself.

Without workers (``-n 0``) nothing of this does anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Container, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

FOLDER: Final = "AML_TRAIN_TESTS_LOCKS"
"""The variable that tells a worker the folder of the locks that all workers of a run share."""

#: Modules whose tests share nothing but what every worker has of its own: each test may go to any worker.
APART: Final = frozenset(
    {"tests/e2e/test_act.py", "tests/e2e/test_cancelled.py", "tests/unit/pipeline/test_truth_table.py"}
)
#: Tests that are marked ``alone``. They are the first: later each would wait until the tests of the other workers have ended, which may
#: take a minute, and no test could start meanwhile.
ALONE: Final = (
    "tests/e2e/test_cancelled.py::test_a_cancel_at_any_moment",
    "tests/integration/image/test_leases.py",
)
#: Tests that one worker runs one after the other, by the name of the group. Those of ``example`` run examples/digits: the first builds
#: its image, which every worker has to build for itself; those of ``emulator`` and ``instant`` share one local AzureML. Those marked ``kills`` would wait for each other.
GROUPS: Final[Mapping[str, Sequence[str]]] = {
    "example": (
        *ALONE,
        "tests/e2e/test_action.py",
        "tests/e2e/test_endings.py",
        "tests/e2e/test_cancelled.py::test_a_job_that_is_detached_goes_on_and_is_gated_later",
    ),
    **{
        name: tuple(f"tests/integration/emulator/test_{module}.py" for module in modules)
        for name, modules in (("emulator", ("faults", "tunnels")), ("instant", ("graphs", "page", "people")))
    },
    "kills": (
        "tests/e2e/test_killed.py",
        "tests/e2e/test_cancelled.py::test_a_step_that_is_killed_leaves_its_job_to_the_post_action",
    ),
}
#: The longest modules and tests: they start before the other unit tests or, with containers, before the others of that kind, which follow
#: in the order of the folders below.
LONG: Final[Sequence[str]] = (
    "tests/unit/pipeline/test_truth_table.py",
    *GROUPS["example"],
    "tests/e2e/test_release.py",
    "tests/integration/models/test_promotion.py",
    *GROUPS["kills"],
    "tests/e2e/test_sdk_v1.py",
    "tests/integration/emulator/test_killed.py",
)
_SWEEPING: Final = "tests/integration/image/"
_FOLDERS: Final = ("tests/unit/", "tests/e2e/", "tests/integration/")


def group_of(test: str) -> str:
    """Return the name of the tests that one worker runs one after the other, given one's node id: those of a module, mostly."""
    for name, members in GROUPS.items():
        if test.startswith(tuple(members)):
            return name
    module, _, name = test.partition("::")
    return f"{module}::{name.partition('[')[0]}" if module in APART else module


def place_of(test: str) -> tuple[bool, int, int]:
    """Return a test's place in the order of a run side by side, as a key to sort by.

    Unit tests come first, in processes that have imported nothing else yet. Then comes what takes long, lest it be left at the end.
    """
    folder = next((at for at, folder in enumerate(_FOLDERS) if test.startswith(folder)), len(_FOLDERS))
    long = next((at for at, long in enumerate(LONG) if test.startswith(long)), len(LONG))
    return folder > 0, long, folder


def as_utf8(value: Any) -> Any:
    """Return a value of plain types with what UTF-8 cannot express, lone surrogates, written as escapes."""
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(value, dict):
        return {as_utf8(key): as_utf8(member) for key, member in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(as_utf8(member) for member in value)
    return value


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
def together(what: str, *, alone: bool, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Have *what* together with others, or *alone*: then no test of another worker has it meanwhile.

    Whoever comes waits in one queue, so that a test that must be alone is not kept out by ever more others.
    """
    if FOLDER not in environ:
        yield
        return
    folder = Path(environ[FOLDER])
    with contextlib.ExitStack() as inside:
        with _held(folder / f"{what}-queue", fcntl.LOCK_EX):
            inside.enter_context(_held(folder / what, fcntl.LOCK_EX if alone else fcntl.LOCK_SH))
        yield


@contextlib.contextmanager
def room_for(test: str, marks: Container[str], *, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Wait until nothing runs that *test*, a node id with these *marks*, would disturb or be disturbed by, and keep that away.

    ``alone``: any other test. ``kills``: those that look at what the stage of the image tells, for it sweeps what a killed run has left, and says so.
    """
    with contextlib.ExitStack() as room:
        room.enter_context(together("machine", alone="alone" in marks, environ=environ))
        if "kills" in marks or test.startswith(_SWEEPING):
            room.enter_context(together("remains", alone="kills" in marks, environ=environ))
        yield


@contextlib.contextmanager
def one_at_a_time(what: str, *, environ: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Do *what* in one worker at a time, such as an image that all of them use: the first makes it, the others find it."""
    with (
        _held(Path(environ[FOLDER]) / f"of-{what}", fcntl.LOCK_EX) if FOLDER in environ else contextlib.nullcontext()
    ):
        yield
