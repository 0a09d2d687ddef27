"""What runs together, in which order, and alone."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import pytest

from tests import side_by_side
from tests.side_by_side import APART, FOLDER, LONG, group_of, machine, one_at_a_time, place_of

ROOT = Path(__file__).parents[2]


def test_the_modules_that_are_named_are_there() -> None:
    assert [module for module in (*APART, *LONG) if not (ROOT / module).is_file()] == []


def test_a_module_is_one_group_unless_its_tests_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "APART", frozenset({"tests/e2e/test_b.py"}))
    assert group_of("tests/e2e/test_a.py::test_one[x::y]") == "tests/e2e/test_a.py"
    assert group_of("tests/e2e/test_b.py::test_one[x::y]") == "tests/e2e/test_b.py::test_one"


def test_what_takes_long_comes_first_and_the_quick_ones_last(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(side_by_side, "LONG", ("tests/integration/test_b.py", "tests/e2e/test_b.py"))
    tests = [
        f"tests/{folder}/test_{name}.py::test_one" for folder in ("unit", "integration", "e2e") for name in ("a", "b")
    ]
    assert sorted(tests, key=place_of) == [
        "tests/integration/test_b.py::test_one",
        "tests/e2e/test_b.py::test_one",
        "tests/e2e/test_a.py::test_one",
        "tests/integration/test_a.py::test_one",
        "tests/unit/test_a.py::test_one",
        "tests/unit/test_b.py::test_one",
    ]


def free(path: Path, how: int) -> bool:
    """Tell whether somebody else could have the lock at *path* now."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


def test_alone_is_alone_and_the_others_are_together(tmp_path: Path) -> None:
    environ = {FOLDER: str(tmp_path)}
    with machine(alone=False, environ=environ), machine(alone=False, environ=environ):
        assert free(tmp_path / "machine", fcntl.LOCK_SH)
        assert not free(tmp_path / "machine", fcntl.LOCK_EX)
        assert free(tmp_path / "queue", fcntl.LOCK_EX)
    with machine(alone=True, environ=environ):
        assert not free(tmp_path / "machine", fcntl.LOCK_SH)
    assert free(tmp_path / "machine", fcntl.LOCK_EX)


def test_one_at_a_time(tmp_path: Path) -> None:
    with one_at_a_time("image", environ={FOLDER: str(tmp_path)}):
        assert not free(tmp_path / "of-image", fcntl.LOCK_EX)
    assert free(tmp_path / "of-image", fcntl.LOCK_EX)


def test_nobody_overtakes_whoever_waits_to_be_alone(tmp_path: Path) -> None:
    environ, done = {FOLDER: str(tmp_path)}, list[str]()

    def alone() -> None:
        with machine(alone=True, environ=environ):
            done.append("alone")

    def together() -> None:
        with machine(alone=False, environ=environ):
            done.append("together")

    with machine(alone=False, environ=environ):
        first = threading.Thread(target=alone)
        first.start()
        while free(tmp_path / "queue", fcntl.LOCK_EX):  # until it waits
            pass
        second = threading.Thread(target=together)
        second.start()
        assert done == []
    for thread in (first, second):
        thread.join()
    assert done == ["alone", "together"]


def test_without_workers_nobody_waits(tmp_path: Path) -> None:
    with machine(alone=True, environ={}), machine(alone=True, environ={}), one_at_a_time("image", environ={}):
        assert list(tmp_path.iterdir()) == []
