from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from aml_train.core.events import TestFailure
from aml_train.core.files import FileSet
from aml_train.image.spec import TestSpec
from aml_train.image.testing.container import End
from aml_train.image.testing.junit import ClosingLines, JUnitReport, parse_junit
from aml_train.image.testing.run import Written, judge, weigh

REPORT = b"""<?xml version="1.0"?>
<testsuites><testsuite name="pytest" errors="1" failures="1" skipped="1" tests="4">
<testcase classname="tests.test_a" name="test_ok" file="tests/test_a.py" line="0" time="0.5"/>
<testcase classname="tests.test_a" name="test_bad[x]" file="tests/test_a.py" line="9" time="1.5">
<failure message="assert 1 == 2&#10; more">trace</failure></testcase>
<testcase classname="tests.test_a" name="test_skip" time="0"><skipped message="later"/></testcase>
<testcase classname="" name="tests.test_b" time="0"><error message="collection failure">ImportError</error></testcase>
</testsuite></testsuites>"""


def test_report() -> None:
    report = parse_junit(REPORT)
    assert (report.passed, report.failed, report.skipped, report.errors) == (1, 1, 1, 1)
    assert [str(failure) for failure in report.failures] == [
        "tests/test_a.py:10: test_bad[x]: assert 1 == 2",
        "tests.test_b: collection failure",
    ]
    assert report.slowest[0] == ("tests.test_a::test_bad[x]", 1.5)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not a JUnit report"),
        (b"<a", "is not a JUnit report"),
        (b"<html></html>", "is not a JUnit report"),
        (b"\xff\xfe", "is not a JUnit report"),
        (b'<?xml version="1.0" encoding="klingon"?><testsuite/>', "is not a JUnit report: unknown encoding"),
        (b'<?xml version="1.0" encoding="shift_jis"?><testsuite/>', "is not a JUnit report: multi-byte encodings"),
        (b'<testsuite><testcase name="a" time="soon"/></testsuite>', "is not a JUnit report: .* 'soon'"),
        (b'<testsuite errors="some"/>', "is not a JUnit report: .* 'some'"),
        (b'<testsuite tests="2"><testcase name="a"/></testsuite>', "it counts 2 tests and shows 1"),
        (b'<!DOCTYPE x [<!ENTITY a "b">]><testsuite/>', "has a document type declaration"),
    ],
)
def test_what_is_no_report(content: bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_junit(content)


def test_expected_failures_are_executed() -> None:
    """pytest reports them as skipped (_pytest/junitxml.py, ``append_skipped``)."""
    report = parse_junit(
        b'<testsuite><testcase name="a"><skipped type="pytest.xfail" message="later"/></testcase>'
        b'<testcase name="b"><skipped type="pytest.skip" message="no"/></testcase></testsuite>'
    )
    assert (report.skipped, report.expected, report.executed) == (2, 1, 1)


def _report(passed: int = 1, failures: int = 0, skipped: int = 0, expected: int = 0) -> JUnitReport:
    failure = TestFailure(name="t", file="a.py", line=3, message="m")
    return JUnitReport(
        passed=passed,
        failed=failures,
        skipped=skipped,
        errors=0,
        failures=(failure,) * failures,
        slowest=(),
        expected=expected,
    )


EMPTY = {"allow_empty": True}
STATUS = {"evidence": "exit-code"}


@pytest.mark.parametrize(
    ("exit_code", "report", "damage", "options", "message"),
    [
        (0, None, None, {}, "nothing shows that a test was executed"),
        (0, None, None, EMPTY, "nothing shows that a test was executed"),
        (0, None, None, STATUS, None),
        (3, None, None, STATUS, "the tests failed (exit code 3)"),
        (0, _report(failures=1), None, STATUS, "1 of 2 tests failed in the image"),
        (0, _report(), None, {}, None),
        (0, _report(passed=0, skipped=1), None, {}, "no test was executed: the only one was skipped"),
        (0, _report(passed=0, skipped=4), None, {}, "no test was executed: all 4 were skipped"),
        (0, _report(passed=0, skipped=4), None, EMPTY, None),
        (0, _report(passed=0, skipped=2, expected=1), None, {}, None),
        (0, _report(passed=0), None, {}, "the command ran no test"),
        (0, _report(passed=0), None, EMPTY, None),
        (5, _report(passed=0), None, EMPTY, None),
        (5, None, None, EMPTY, "ran no test (exit code 5)"),
        (5, _report(passed=0), "it is damaged", EMPTY, "ran no test (exit code 5)"),
        (5, _report(), None, EMPTY, "ran no test (exit code 5)"),
        (1, _report(passed=0), None, EMPTY, "the tests failed (exit code 1)"),
        (1, None, "it is damaged", {}, "the tests failed (exit code 1)"),
        (0, _report(), "it is damaged", {}, "it is damaged, although the command ended with exit code 0"),
        (0, _report(), "it is damaged", STATUS, None),
        (1, _report(), None, {}, "the tests failed (exit code 1)"),
        (1, _report(failures=1), None, {}, "1 of 2 tests failed in the image\n  a.py:3: t: m"),
        (0, _report(failures=1), None, {}, "although the command ended with exit code 0"),
        (1, _report(failures=25), None, {}, "and 5 more"),
        (2, None, None, {}, "interrupted or could not be collected"),
        (5, None, None, {}, "ran no test (exit code 5)"),
        (127, None, None, {}, "not found in the image"),
        (137, None, None, {}, "the tests were killed (exit code 137)"),
        (137, None, None, {"oom_killed": True}, "for lack of memory"),
        (137, None, None, {"timed_out": True}, "longer than 1800 seconds"),
    ],
)
def test_verdict(
    exit_code: int,
    report: JUnitReport | None,
    damage: str | None,
    options: dict[str, Any],
    message: str | None,
    tmp_path: Path,
) -> None:
    how = {name: value for name, value in options.items() if name in ("oom_killed", "timed_out")}
    settings = {name: value for name, value in options.items() if name not in how}
    spec = TestSpec(command="pytest", files=FileSet.collect(tmp_path), **settings)
    error = judge(End(exit_code=exit_code, seconds=1.0, **how), report, damage, spec)
    if message is None:
        assert error is None
    else:
        assert error is not None
        assert message in error.message


def test_a_report_that_cannot_be_used_is_named_where_tests_failed(tmp_path: Path) -> None:
    spec = TestSpec(command="pytest", files=FileSet.collect(tmp_path))
    error = judge(End(exit_code=1, seconds=1.0), None, "the report is too large", spec)
    assert error is not None
    assert error.hint == "The tests' output is above. Single tests are not known: the report is too large."


PASSED = b'<testsuite name="pytest" tests="4"><testcase name="a"/></testsuite>'
FAILED = b'<testsuite name="pytest"><testcase name="b"><failure message="wrong"/></testcase></testsuite>'
NONE = b'<testsuite name="pytest" tests="0"/>'


@pytest.mark.parametrize(
    ("by_pytest", "named", "output", "counts", "damage"),
    [
        ({}, {}, "", None, None),
        ({"pytest-1-a-0.xml": PASSED}, {}, "1 passed in 0.01s", (1, 0), None),
        ({"pytest-1-a-1.xml": FAILED, "pytest-2-b-0.xml": PASSED}, {}, "", (1, 1), None),
        ({"pytest-1-a.xml": b"", "pytest-2-b-0.xml": PASSED}, {}, "", (1, 0), "a pytest did not come to its end"),
        ({"pytest-1-a.xml": PASSED}, {}, "", None, "a pytest did not come to its end"),
        ({"pytest-1-a-1.xml": PASSED}, {}, "", (1, 0), "a pytest ended with exit code 1"),
        ({"pytest-1-a-5.xml": NONE, "pytest-2-b-0.xml": PASSED}, {}, "", (1, 0), None),
        ({"pytest-1-a-0.xml": b"<html/>"}, {}, "", None, "the report of a pytest cannot be read: it is not a JUnit"),
        # Without the plugin the last pytest's report is left; the lines of the others are not.
        ({"x/pytest.xml": PASSED}, {}, "1 failed in 0.01s\n1 passed in 0.01s", (1, 1), None),
        ({}, {}, "1 failed in 0.01s\n1 passed in 0.01s", (1, 1), None),
        ({"pytest-1-a-0.xml": NONE}, {}, "no tests ran in 0.01s\nRan 2 tests in 0.1s\n\nOK", (2, 0), None),
        ({"pytest-1-a-0.xml": PASSED}, {}, "Ran 2 tests in 0.1s\n\nFAILED (errors=1)", (2, 1), None),
        ({"pytest-1-a-0.xml": PASSED}, {"r.xml": PASSED}, "", (1, 0), None),
        ({}, {"r.xml": PASSED}, "", None, "the tests' report r.xml cannot be read: it counts 4 tests and shows 1"),
        ({}, {"r/a.xml": FAILED, "r/b.xml": b'<testsuite><testcase name="c"/></testsuite>'}, "", (1, 1), None),
        ({"pytest-1-a-0.xml": PASSED}, None, "", (1, 0), "the tests wrote no report at r.xml"),
    ],
)  # fmt: skip
def test_all_evidence_is_weighed(
    by_pytest: dict[str, bytes],
    named: dict[str, bytes] | None,
    output: str,
    counts: tuple[int, int] | None,
    damage: str | None,
    tmp_path: Path,
) -> None:
    spec = TestSpec(
        command="pytest", files=FileSet.collect(tmp_path), junit="r.xml" if named or named is None else None
    )
    closing = ClosingLines()
    for line in output.split("\n"):
        closing.feed(line)
    report, found = weigh(spec, Written(by_pytest=by_pytest, named=named or {}), closing.reports)
    assert (report and (report.passed, report.failed)) == counts
    assert (found or "").startswith(damage or "")
    assert bool(found) is bool(damage)


@pytest.mark.parametrize(
    ("content", "failures"),
    [
        ('<testsuite name="s" errors="1"><error message="set-up"/><testcase name="a"/></testsuite>', ["s: set-up"]),
        ('<testsuites><testsuite name="s"><failure>broken</failure></testsuite></testsuites>', ["s: broken"]),
        ('<testsuite name="s" failures="2"><testcase name="a"/></testsuite>', ["s: the report counts 2 failures"]),
        (
            '<testsuites errors="1"><testsuite><testcase name="a"/></testsuite></testsuites>',
            ["testsuites: the report"],
        ),
        ('<testsuite failures=""><testcase name="a"/></testsuite>', []),
        ('<testsuite failures="2"><testcase name="a"><failure message="m"/></testcase></testsuite>', ["a: m"]),
    ],
)
def test_what_only_a_suite_says_counts(content: str, failures: list[str]) -> None:
    report = parse_junit(content.encode())
    assert len(report.failures) == len(failures) == report.failed + report.errors
    assert all(str(one).startswith(text) for one, text in zip(report.failures, failures, strict=True))


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def test_sum():\n>   assert 1 == 2\nE   assert 1 == 2\n\ntests/test_a.py:12: AssertionError", 12),
        ("tests/test_a.py:12: \n_ _ _\nlib.py:3: \n_ _ _\ntests/test_a.py:30: ValueError\nlib.py:99: KeyError", 30),
        ("lib.py:99: KeyError", 10),
        ("E   tests/test_a.py:77: not at the beginning of its line", 10),
        ("", 10),
    ],
)
def test_a_failure_is_placed_where_it_failed(text: str, line: int) -> None:
    report = parse_junit(
        f'<testsuite><testcase name="t" file="tests/test_a.py" line="9"><failure message="m">{text}</failure>'
        "</testcase></testsuite>".encode().replace(b">   assert", b"&gt;   assert")
    )
    assert report.failures[0].line == line
