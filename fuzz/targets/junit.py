"""JUnit reports, and the places of failures in tracebacks."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.image.testing.junit import JUnitReport, Places, parse_junit
from fuzz.target import Target, as_bytes, require

_PLACES = Places(files=("tests/test_a.py", "src/a.py", "sub/tests/test_b.py"), workdir="sub")


def seeds() -> Sequence[str]:
    """Return reports as pytest, unittest, surefire and jest write them."""
    case = '<testcase classname="tests.test_a.TestB" name="test_c" time="0.01" file="tests/test_a.py" line="3"'
    return [
        (
            f'<?xml version="1.0" encoding="utf-8"?><testsuites name="pytest tests"><testsuite name="pytest" errors="0" failures="1" '
            f'skipped="1" tests="3" time="0.1">{case}><failure message="assert 1 == 2">def test_c():\n&gt; assert 1 == 2\n\n'
            "tests/test_a.py:7: AssertionError</failure><system-out>out</system-out></testcase>"
            f'{case}><skipped type="pytest.xfail" message="x"/></testcase>{case}/></testsuite></testsuites>'
        ),
        f'<testsuite tests="1">{case}><error type="E"><![CDATA[File "/workspace/src/a.py", line 12, in f]]></error></testcase></testsuite>',
        f"<testsuites><testsuite><testsuite>{case}/></testsuite><properties><property name='a' value='b'/></properties></testsuite></testsuites>",
        "<testsuite></testsuite>",
        f"<testcases>{case}/></testcases>",
    ]


def check(text: str) -> None:
    """Parse a report."""
    try:
        report = parse_junit(as_bytes(text), _PLACES)
    except ValueError as error:
        require(str(error), "a refusal says nothing")
        return
    require(report.failed + report.errors == len(report.failures), "failures are counted twice")
    require(report.passed >= 0 and report.expected <= report.skipped, "counts do not fit")
    require(len(report.slowest) <= 5, "too many slow tests")
    require(
        report.executed
        or report
        == JUnitReport(passed=0, failed=0, skipped=report.skipped, errors=0, failures=(), slowest=report.slowest),
        "it executed nothing, and has results",
    )
    for failure in report.failures:
        require(failure.line is None or failure.line > 0, f"a failure is at line {failure.line}")
        require(len(failure.message) <= 300 and "\n" not in failure.message, "a message is too long")


TARGET = Target(
    kind="text",
    reads=("aml_train.image.testing.junit",),
    seeds=seeds,
    check=check,
    words=(
        *(
            "<testsuites>",
            "</testsuites>",
            "<testsuite>",
            "</testsuite>",
            "<testcase>",
            "<testcase/>",
            "</testcase>",
            "<failure/>",
        ),
        *(
            "<error>",
            "<skipped/>",
            ' time="',
            ' time="1e400"',
            ' time="nan"',
            ' line="',
            ' file="',
            ' name="',
            "<system-out>",
            "&#x1;",
        ),
        *(
            'encoding="utf-16"',
            'encoding="x"',
            'encoding="utf-7"',
            "xmlns:a='b'",
            "<a:testcase/>",
            "tests/test_a.py:7: E",
            "&lt;",
        ),
    ),
)
