"""Read a JUnit report, and find each failed test's place; or the closing lines of pytest and unittest where none was written."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final
from xml.etree.ElementTree import ParseError

from junitparser import Error, JUnitXml, JUnitXmlError, Skipped, TestCase

from aml_train.core.events import TestFailure
from aml_train.core.text import printable

# pytest ends each entry of a traceback with ``file:line:`` (_pytest/_code/code.py); Python writes ``File "file", line N``.
_ENTRY: Final = re.compile(
    r'^(?:\s*File "(?P<python>[^"\n]+)", line (?P<python_line>\d{1,9})|(?P<pytest>[^\s:"][^:\n]*):(?P<pytest_line>\d{1,9}):)',
    re.MULTILINE,
)
_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, kw_only=True)
class Places:
    """The files that the tests saw.

    Attributes:
        files: their paths, relative to the project.
        root: the folder that they were in, in the container.
        workdir: the folder that the tests ran in, relative to it.
    """

    files: Collection[str] = ()
    root: str = "/workspace"
    workdir: str = ""

    def find(self, name: str) -> str | None:
        """Return the file of the project that *name* means, or None.

        A name may start at the container's root, at the project, at the folder that the tests ran in, or at one that a test
        tool takes for its root: then it counts if only one file ends like it.
        """
        if name.startswith("/"):
            inner = posixpath.relpath(name, self.root)
            return inner if inner in self.files else None
        for start in (self.workdir, ""):
            path = posixpath.normpath(posixpath.join(start, name))
            if path in self.files:
                return path
        tail = "/" + posixpath.normpath(name)
        same = [path for path in self.files if path.endswith(tail)]
        return same[0] if len(same) == 1 else None

    def find_module(self, classname: str) -> str | None:
        """Return the file of a dotted name, such as ``tests.test_a.TestB``, or None."""
        parts = classname.split(".")
        for count in range(len(parts), 0, -1):
            if (found := self.find("/".join(parts[:count]) + ".py")) is not None:
                return found
        return None

    def locate(
        self, file: str | None, start: str | None, classname: str, traceback: str
    ) -> tuple[str | None, int | None]:
        """Return file and line (one-based) of a failure; None for an unknown one.

        Args:
            file: the report's attribute ``file``.
            start: its attribute ``line``: where the test begins; pytest counts it from zero (_pytest/junitxml.py, family xunit1).
            classname: its attribute ``classname``.
            traceback: text of the failure. The last line that it names in the test's file is the one; where the file is
                missing, the last line in any file of the project.
        """
        found = self.find(file) if file is not None else self.find_module(classname)
        entries = list(self._entries(traceback))
        known = found or file
        lines = [line for path, line in entries if path == known or (found is None and path == file)]
        if known is None:
            return entries[-1] if entries and entries[-1][0] in self.files else (None, None)
        if lines:
            return known, lines[-1]
        return known, int(start) + 1 if start is not None and _NUMBER.fullmatch(start) else None

    def _entries(self, traceback: str) -> Iterator[tuple[str, int]]:
        for match in _ENTRY.finditer(traceback):
            name = match["python"] or match["pytest"]
            yield self.find(name) or name, int(match["python_line"] or match["pytest_line"])


_MESSAGE: Final = 300
_OUTPUT: Final = 6000
_BAD: Final = ("failure", "error")
_EXPECTED: Final = "pytest.xfail"
"""The ``type`` by which pytest marks a failure that was expected as skipped (_pytest/junitxml.py, ``append_skipped``)."""


@dataclass(frozen=True, kw_only=True)
class JUnitReport:
    """The contents of a report, or of several.

    Attributes:
        slowest: test name → seconds of the slowest few.
        expected: tests that failed as expected; they are among the *skipped*.
    """

    passed: int
    failed: int
    skipped: int
    errors: int
    failures: tuple[TestFailure, ...]
    slowest: tuple[tuple[str, float], ...]
    expected: int = 0

    @property
    def executed(self) -> int:
        """How many tests ran, whatever came of it."""
        return self.passed + self.failed + self.errors + self.expected


def merge_reports(reports: Sequence[JUnitReport]) -> JUnitReport | None:
    """Return all of *reports* as one; None for none."""
    if not reports:
        return None
    return JUnitReport(
        passed=sum(one.passed for one in reports),
        failed=sum(one.failed for one in reports),
        skipped=sum(one.skipped for one in reports),
        errors=sum(one.errors for one in reports),
        failures=tuple(failure for one in reports for failure in one.failures),
        slowest=_slowest(pair for one in reports for pair in one.slowest),
        expected=sum(one.expected for one in reports),
    )


def parse_junit(content: bytes, places: Places | None = None, *, by_pytest: bool = False) -> JUnitReport:
    """Read a report.

    Failures and errors that only a suite counts or contains are failures, too.

    Args:
        content: the file.
        places: the project's files, which failures are mapped to.
        by_pytest: it is pytest's, which counts subtests and errors after a test as tests without a case of their own.

    Raises:
        ValueError: if it is no JUnit report, or shows fewer tests than it counts; one with a document type declaration
            is refused, since entities could blow it up.
    """

    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError("it has a document type declaration")
    try:
        report = JUnitXml.fromstring(content)
        cases = list(_cases(report))
        seconds = [float(case.time or 0.0) for case in cases]
        of_suites = _failures_of_suites(report._elem)
        counted = max((_counted(suite, "tests") for suite in _suites(report._elem)), default=0)
    # An encoding that Python does not know is a LookupError, one that expat cannot use a ValueError.
    except (ParseError, JUnitXmlError, SyntaxError, LookupError, ValueError, RecursionError) as error:
        raise ValueError(f"it is not a JUnit report: {error}") from error
    passed = failed = skipped = errors = expected = 0
    failures: list[TestFailure] = []
    for case in cases:
        results = list(case.result)
        bad = [result for result in results if not isinstance(result, Skipped)]
        if bad:
            failures.append(_failure(case, bad[0], places or Places()))
            if isinstance(bad[0], Error):
                errors += 1
            else:
                failed += 1
        elif results:
            skipped += 1
            expected += any(result.type == _EXPECTED for result in results)
        else:
            passed += 1
    failures += of_suites
    if not failures and not by_pytest and counted > len(cases):
        raise ValueError(f"it counts {counted} tests and shows {len(cases)}")
    return JUnitReport(
        passed=passed,
        failed=failed,
        skipped=skipped,
        errors=errors + len(of_suites),
        failures=tuple(failures),
        slowest=_slowest(zip(map(_name, cases), seconds, strict=True)),
        expected=expected,
    )


def _cases(report: Any) -> Iterator[Any]:
    """Yield the test cases of a report, its suites and their suites, in their order."""

    stack = [iter(report)]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
        elif isinstance(part, TestCase):
            yield part
        else:
            stack.append(iter(part))


def _suites(root: Any) -> list[Any]:
    """Return the elements that count tests, the outer ones first."""
    return [element for element in root.iter() if element.tag in ("testsuites", "testsuite")]


def _counted(suite: Any, *names: str) -> int:
    return sum(int(suite.get(name) or 0) for name in names)


def _failures_of_suites(root: Any) -> list[TestFailure]:
    """Return the failures that no case shows: those of a suite itself, and those that it only counts."""
    found: list[TestFailure] = []
    for suite in _suites(root):
        own = [part for part in suite if part.tag in _BAD]
        messages = [str(part.get("message") or part.text or part.tag).strip() for part in own]
        count = _counted(suite, "failures", "errors")
        if count > 0 and not any(part.tag in _BAD for part in suite.iter()):
            messages.append(f"the report counts {count} failures and errors here, and shows none")
        name = str(suite.get("name") or suite.tag)
        found += [
            TestFailure(name=name, file=None, line=None, message=message.partition("\n")[0][:_MESSAGE])
            for message in messages
        ]
    return found


def _slowest(times: Iterable[tuple[str, float]]) -> tuple[tuple[str, float], ...]:
    return tuple(sorted(times, key=lambda item: -item[1])[:5])


def _name(case: Any) -> str:
    return f"{case.classname}::{case.name}" if case.classname else str(case.name)


def _failure(case: Any, result: Any, places: Places) -> TestFailure:
    """Return what one failed case says."""
    element = case._elem  # junitparser has no accessor for attributes outside its own schema
    message = str(result.message or "").strip().splitlines()
    traceback = str(result.text or "")
    file, line = places.locate(
        element.get("file"), element.get("line"), str(case.classname or ""), traceback[-100_000:]
    )
    return TestFailure(
        name=str(case.name),
        file=file,
        line=line,
        message=(message[0] if message else "")[:_MESSAGE],
        output=_output(traceback, case.system_out, case.system_err),
    )


def _output(*texts: str | None) -> str:
    """Return the end of each text that there is."""
    return "\n".join(text.strip("\n")[-_OUTPUT:] for text in texts if text and text.strip())


# _pytest/terminal.py, ``summary_stats``; unittest/runner.py, ``TextTestRunner.run``.
_PYTEST: Final = re.compile(
    r"(?:=+ )?(no tests ran|\d+ [a-z ]+(?:, \d+ [a-z ]+)*) in \d+\.\d\ds(?: \([^()]+\))?(?: =+)?"
)
_COUNT: Final = re.compile(r"(\d{1,9}) ([a-z ]+)")
_RAN: Final = re.compile(r"Ran (\d{1,9}) tests? in \d+\.\d+s")
_ENDED: Final = re.compile(r"(OK|FAILED|NO TESTS RAN)(?: \(.*\))?")
_SKIPPED: Final = re.compile(r"\bskipped=(\d{1,9})")
_UNITTEST_BAD: Final = re.compile(r"(?<!expected )(?:failures|errors|unexpected successes)=(\d{1,9})")
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
            failed = max(sum(map(int, _UNITTEST_BAD.findall(line))), 1) if match[1] == "FAILED" else 0
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
