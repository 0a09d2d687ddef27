"""What the closing lines of pytest and unittest say."""

from __future__ import annotations

import pytest

from aml_train.image.testing.junit import ClosingLines

RAN = "Ran 3 tests in 0.001s\n\n"


@pytest.mark.parametrize(
    ("output", "counts"),
    [
        ("===== 3 passed in 0.12s =====", (3, 0, 0, 3)),
        ("3 passed, 1 warning in 62.00s (0:01:02)", (3, 0, 0, 3)),
        ("\x1b[32m\x1b[1m1 passed\x1b[0m\x1b[32m in 0.01s\x1b[0m", (1, 0, 0, 1)),
        ("1 failed, 3 passed, 2 skipped, 1 xfailed, 1 xpassed, 2 errors in 0.12s", (4, 3, 3, 8)),
        ("1 passed, 3 subtests passed in 0.02s", (1, 0, 0, 1)),
        ("1 passed, 1 subtests failed in 0.02s", (1, 1, 0, 2)),
        ("2 skipped in 0.01s", (0, 0, 2, 0)),
        ("1 xfailed in 0.01s", (0, 0, 1, 1)),
        ("no tests ran in 0.01s", (0, 0, 0, 0)),
        ("======= 4 deselected in 0.01s =======", (0, 0, 0, 0)),
        (f"{RAN}OK", (3, 0, 0, 3)),
        (f"{RAN}OK (skipped=1, expected failures=1)", (2, 0, 1, 2)),
        (f"{RAN}FAILED (failures=1, errors=1, expected failures=1)", (1, 2, 0, 3)),
        ("Ran 0 tests in 0.000s\n\nOK", (0, 0, 0, 0)),
        ("Ran 0 tests in 0.000s\n\nNO TESTS RAN", (0, 0, 0, 0)),
        ("Ran 1 test in 0.000s\n\nNO TESTS RAN (skipped=1)", (0, 0, 1, 0)),
        ("3 epochs in 0.52s", None),
        ("a line: 3 passed in 0.12s", None),
        ("OK", None),
        ("FAILED (failures=1)", None),
        (f"{RAN}killed", None),
    ],
)
def test_closing_lines(output: str, counts: tuple[int, ...] | None) -> None:
    closing = ClosingLines()
    for line in output.split("\n"):
        closing.feed(line)
    found = [(one.passed, one.failed, one.skipped, one.executed) for one in closing.reports]
    assert found == ([] if counts is None else [counts])
    assert [bool(one.failures) for one in closing.reports] == [bool(one[1]) for one in found]
