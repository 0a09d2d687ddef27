"""What runs together, in which order, and alone."""

from __future__ import annotations

import fcntl
import threading
from pathlib import Path

import execnet
import pytest

from tests.support import scheduling
from tests.support.scheduling import (
    ALONE,
    APART,
    FOLDER,
    GROUPS,
    LONG,
    as_utf8,
    group_of,
    one_at_a_time,
    place_of,
    room_for,
    together,
)

ROOT = Path(__file__).parents[3]


def test_the_modules_that_are_named_are_there() -> None:
    assert [module for module in (*APART, *LONG) if not (ROOT / module.partition("::")[0]).is_file()] == []


@pytest.mark.parametrize("named", [named for members in GROUPS.values() for named in members])
def test_what_one_worker_runs_is_there(named: str) -> None:
    module, _, function = named.partition("::")
    assert f"def {function or 'test_'}" in (ROOT / module).read_text()


@pytest.mark.parametrize(
    ("mark", "named"), [("alone", named) for named in ALONE] + [("kills", named) for named in GROUPS["kills"]]
)
def test_what_cannot_run_beside_others_is_marked(mark: str, named: str) -> None:
    module, _, function = named.partition("::")
    text = (ROOT / module).read_text()
    before, _, _ = text.partition(f"def {function}(")
    assert function or f"pytestmark = pytest.mark.{mark}" in text
    assert not function or f"@pytest.mark.{mark}" in before[before.rindex("\n\n\n") :]


def test_a_module_is_one_group_unless_its_tests_share_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "APART", frozenset({"tests/e2e/test_b.py"}))
    assert group_of("tests/e2e/test_a.py::test_one[x::y]") == "tests/e2e/test_a.py"
    assert group_of("tests/e2e/test_b.py::test_one[x::y]") == "tests/e2e/test_b.py::test_one"


def test_unit_tests_come_first_then_what_takes_long_in_the_order_of_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    one = ("tests/e2e/test_b.py::test_two", "tests/integration/test_c.py")
    monkeypatch.setattr(scheduling, "GROUPS", {"one": one})
    long = ("tests/unit/test_c.py", *one, "tests/integration/test_b.py", "tests/e2e/test_b.py")
    monkeypatch.setattr(scheduling, "LONG", long)
    tests = [
        f"tests/{folder}/test_{name}.py::test_one" for folder in ("unit", "integration", "e2e") for name in ("a", "b")
    ]
    tests += ["tests/unit/test_c.py::test_one", "tests/integration/test_c.py::test_one"]
    tests += ["tests/e2e/test_b.py::test_two[x]"]
    assert [group_of(test) for test in tests[-2:]] == ["one", "one"]
    assert sorted(tests, key=place_of) == [
        "tests/unit/test_c.py::test_one",
        "tests/unit/test_a.py::test_one",
        "tests/unit/test_b.py::test_one",
        "tests/e2e/test_b.py::test_two[x]",
        "tests/integration/test_c.py::test_one",
        "tests/integration/test_b.py::test_one",
        "tests/e2e/test_b.py::test_one",
        "tests/e2e/test_a.py::test_one",
        "tests/integration/test_a.py::test_one",
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
    with together("machine", alone=False, environ=environ), together("machine", alone=False, environ=environ):
        assert free(tmp_path / "machine", fcntl.LOCK_SH)
        assert not free(tmp_path / "machine", fcntl.LOCK_EX)
        assert free(tmp_path / "machine-queue", fcntl.LOCK_EX)
    with together("machine", alone=True, environ=environ):
        assert not free(tmp_path / "machine", fcntl.LOCK_SH)
    assert free(tmp_path / "machine", fcntl.LOCK_EX)


def test_one_at_a_time(tmp_path: Path) -> None:
    with one_at_a_time("image", environ={FOLDER: str(tmp_path)}):
        assert not free(tmp_path / "of-image", fcntl.LOCK_EX)
    assert free(tmp_path / "of-image", fcntl.LOCK_EX)


def test_nobody_overtakes_whoever_waits_to_be_alone(tmp_path: Path) -> None:
    environ, done = {FOLDER: str(tmp_path)}, list[str]()

    def alone() -> None:
        with together("machine", alone=True, environ=environ):
            done.append("alone")

    def with_others() -> None:
        with together("machine", alone=False, environ=environ):
            done.append("together")

    with together("machine", alone=False, environ=environ):
        first = threading.Thread(target=alone)
        first.start()
        while free(tmp_path / "machine-queue", fcntl.LOCK_EX):  # until it waits
            pass
        second = threading.Thread(target=with_others)
        second.start()
        assert done == []
    for thread in (first, second):
        thread.join()
    assert done == ["alone", "together"]


def test_without_workers_nobody_waits(tmp_path: Path) -> None:
    with (
        together("all", alone=True, environ={}),
        together("all", alone=True, environ={}),
        one_at_a_time("image", environ={}),
    ):
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("test", "marks", "machine", "remains"),
    [
        ("tests/e2e/test_act.py::test_a", {"timeout"}, "shared", "free"),
        ("tests/e2e/test_killed.py::test_a", {"kills"}, "shared", "alone"),
        ("tests/e2e/test_killed.py::test_a", {"kills", "alone"}, "alone", "alone"),
        ("tests/integration/image/test_a.py::test_a", set(), "shared", "shared"),
    ],
)
def test_the_marks_of_a_test_decide_who_may_run_beside_it(
    tmp_path: Path, test: str, marks: set[str], machine: str, remains: str
) -> None:
    with room_for(test, marks, environ={FOLDER: str(tmp_path)}):
        for what, expected in (("machine", machine), ("remains", remains)):
            others, all_of_it = (free(tmp_path / what, how) for how in (fcntl.LOCK_SH, fcntl.LOCK_EX))
            assert ("free" if all_of_it else "shared" if others else "alone") == expected


def test_a_report_is_sent_whatever_text_was_captured() -> None:
    report = {
        "sections": [("Captured log call", "a \ud800 b"), ("é", "")],
        "longrepr": None,
        "duration": 0.5,
        "\udfff": ("x",),
    }
    sent = as_utf8(report)
    assert sent == {
        "sections": [("Captured log call", "a \\ud800 b"), ("é", "")],
        "longrepr": None,
        "duration": 0.5,
        "\\udfff": ("x",),
    }
    execnet.dumps(sent)
    with pytest.raises(execnet.DumpError):
        execnet.dumps(report)
