"""What runs together, in which order, and alone."""

from __future__ import annotations

import fcntl
from pathlib import Path

import execnet
import pytest

from tests.support.scheduling import (
    ALONE,
    APART,
    FOLDER,
    GROUPS,
    LONG,
    as_utf8,
    room_for,
)

ROOT = Path(__file__).parents[3]


def test_the_modules_that_are_named_are_there() -> None:
    assert [module for module in (*APART, *LONG) if not (ROOT / module.partition("::")[0]).is_file()] == []


@pytest.mark.parametrize(
    ("mark", "named"), [("alone", named) for named in ALONE] + [("kills", named) for named in GROUPS["kills"]]
)
def test_what_cannot_run_beside_others_is_marked(mark: str, named: str) -> None:
    module, _, function = named.partition("::")
    text = (ROOT / module).read_text()
    before, _, _ = text.partition(f"def {function}(")
    assert function or f"pytestmark = pytest.mark.{mark}" in text
    assert not function or f"@pytest.mark.{mark}" in before[before.rindex("\n\n\n") :]


def free(path: Path, how: int) -> bool:
    """Tell whether somebody else could have the lock at *path* now."""
    with path.open("w") as file:
        try:
            fcntl.flock(file, how | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True


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
