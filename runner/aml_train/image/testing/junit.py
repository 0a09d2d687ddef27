"""Read a JUnit report, as pytest and others write it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from aml_train.core.events import TestFailure
from aml_train.image.testing.junit_places import Places

_SLOWEST: Final = 5
_TRACEBACK: Final = 100_000
_MESSAGE: Final = 300
_OUTPUT: Final = 6000
_EXPECTED: Final = "pytest.xfail"
"""The ``type`` by which pytest marks a failure that was expected as skipped (_pytest/junitxml.py, ``append_skipped``)."""


@dataclass(frozen=True, kw_only=True)
class JUnitReport:
    """What a report says.

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
        return self.passed + len(self.failures) + self.expected


def parse_junit(content: bytes, places: Places | None = None) -> JUnitReport:
    """Read a report.

    Args:
        content: the file.
        places: the project's files, which failures are mapped to.

    Raises:
        ValueError: if it is no JUnit report; one with a document type declaration is refused, since entities could blow it up.
    """
    from xml.etree.ElementTree import ParseError

    from junitparser import Error, JUnitXml, JUnitXmlError, Skipped

    if b"<!DOCTYPE" in content or b"<!ENTITY" in content:
        raise ValueError("it has a document type declaration")
    try:
        cases = list(_cases(JUnitXml.fromstring(content)))
        seconds = [float(case.time or 0.0) for case in cases]
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
    slowest = sorted(zip(map(_name, cases), seconds, strict=True), key=lambda item: -item[1])[:_SLOWEST]
    return JUnitReport(
        passed=passed,
        failed=failed,
        skipped=skipped,
        errors=errors,
        failures=tuple(failures),
        slowest=tuple(slowest),
        expected=expected,
    )


def _cases(report: Any) -> Iterator[Any]:
    """Yield the test cases of a report, its suites and their suites, in their order."""
    from junitparser import TestCase

    stack = [iter(report)]
    while stack:
        part = next(stack[-1], None)
        if part is None:
            stack.pop()
        elif isinstance(part, TestCase):
            yield part
        else:
            stack.append(iter(part))


def _name(case: Any) -> str:
    return f"{case.classname}::{case.name}" if case.classname else str(case.name)


def _failure(case: Any, result: Any, places: Places) -> TestFailure:
    """Return what one failed case says."""
    element = case._elem  # junitparser has no accessor for attributes outside its own schema
    message = str(result.message or "").strip().splitlines()
    traceback = str(result.text or "")
    file, line = places.locate(
        element.get("file"), element.get("line"), str(case.classname or ""), traceback[-_TRACEBACK:]
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
