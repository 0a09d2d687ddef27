"""The closing lines of pytest and unittest: evidence where no report was written."""

from __future__ import annotations

import re
from typing import Final

from aml_train.core.events import TestFailure
from aml_train.core.text import printable
from aml_train.image.testing.junit import JUnitReport

# _pytest/terminal.py, ``summary_stats``; unittest/runner.py, ``TextTestRunner.run``.
_PYTEST: Final = re.compile(
    r"(?:=+ )?(no tests ran|\d+ [a-z ]+(?:, \d+ [a-z ]+)*) in \d+\.\d\ds(?: \([^()]+\))?(?: =+)?"
)
_COUNT: Final = re.compile(r"(\d{1,9}) ([a-z ]+)")
_RAN: Final = re.compile(r"Ran (\d{1,9}) tests? in \d+\.\d+s")
_ENDED: Final = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(.*\))?")
_SKIPPED: Final = re.compile(r"\bskipped=(\d{1,9})")
_BAD: Final = re.compile(r"(?<!expected )(?:failures|errors|unexpected successes)=(\d{1,9})")
_WORDS: Final = frozenset(
    {"passed", "failed", "error", "errors", "skipped", "xfailed", "xpassed", "deselected", "warning", "warnings"}
)


class ClosingLines:
    """Reads the tests' output, line by line; ``reports`` has what the runners counted."""

    def __init__(self) -> None:
        self.reports: list[JUnitReport] = []
        self._ran: int | None = None

    def feed(self, text: str) -> None:
        """Read one line."""
        line = printable(text).strip()
        if match := _PYTEST.fullmatch(line):
            counts = {word: int(number) for number, word in _COUNT.findall(match[1])}
            if not counts or counts.keys() & _WORDS:
                self.reports.append(_of_pytest(counts, line.strip("= ")))
        elif match := _RAN.fullmatch(line):
            self._ran = int(match[1])
        elif self._ran is not None and (match := _ENDED.fullmatch(line)):
            skipped = sum(map(int, _SKIPPED.findall(line)))
            failed = max(sum(map(int, _BAD.findall(line))), 1) if match[1] == "FAILED" else 0
            passed = self._ran - skipped - failed
            self.reports.append(_report("unittest", line, passed=passed, skipped=skipped, failed=failed))
            self._ran = None


def _of_pytest(counts: dict[str, int], line: str) -> JUnitReport:
    expected = counts.get("xfailed", 0)
    return _report(
        "pytest",
        line,
        passed=counts.get("passed", 0) + counts.get("xpassed", 0),
        skipped=counts.get("skipped", 0) + expected,
        expected=expected,
        failed=sum(count for word, count in counts.items() if word.split()[-1] in ("failed", "error", "errors")),
    )


def _report(name: str, line: str, *, passed: int, skipped: int, failed: int, expected: int = 0) -> JUnitReport:
    failure = TestFailure(name=name, file=None, line=None, message=line)
    return JUnitReport(
        passed=max(passed, 0),
        failed=failed,
        skipped=skipped,
        errors=0,
        failures=(failure,) if failed else (),
        slowest=(),
        expected=expected,
    )
