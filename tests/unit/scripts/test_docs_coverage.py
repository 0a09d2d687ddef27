"""The page of operations shows results of comparisons, if there are any."""

from __future__ import annotations

from parity.accepted import judge
from parity.results import result_of
from scripts.docs.coverage import compared
from tests.unit.parity.test_accepted import difference
from tests.unit.parity.test_differences import line, recording


def test_without_a_result_there_is_no_section() -> None:
    assert compared([]) == []


def test_a_result_shows_its_recording_and_its_operations() -> None:
    made = recording(line(), line(step="job-again"))
    result = result_of("contributed-1", made, judge([difference()], [], []))
    section = "\n".join(compared([result]))
    assert "| `contributed-1` | None, script 1, None compute | 2 | 2 | 1 | |".replace(" | |", "") in section
    assert "| `GET {WS}/jobs/{name}` | 2 | 1 |" in section
    assert "parity.md" in section
