"""A JUnit report of the gate, in which each rule is a test case.

CI systems that show test reports show the gate's rules with it.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from junitparser import Error, Failure, JUnitXml, Skipped, TestCase, TestSuite

from aml_train.core.errors import AmlTrainError, InvalidError
from aml_train.core.events import Event, Listener, RuleVerdict, RunFinished

_SUITE: Final = "aml-train gate"
#: Characters that XML 1.0 does not have (https://www.w3.org/TR/xml/#charsets).
_NO_XML: Final = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def gate_junit_listener(path: Path | None) -> list[Listener]:
    """Return a listener that writes the gate's report to *path* at the run's end, or none.

    Until then the file says that the run did not end: an earlier report would be taken for this run's.

    Raises:
        InvalidError: the file cannot be written.
    """
    if path is None:
        return []
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gate_junit([], None))
    except OSError as error:
        raise InvalidError(f"--gate-junit {path}: cannot be written: {error.strerror}") from error
    rules: list[RuleVerdict] = []

    def listen(event: Event) -> None:
        if isinstance(event, RuleVerdict):
            rules.append(event)
        if not isinstance(event, RunFinished):
            return
        try:
            path.write_bytes(gate_junit(rules, event))
        except OSError as error:
            failure = AmlTrainError(f"--gate-junit {path}: cannot be written: {error.strerror}")
            failure.exit_code = event.exit_code or failure.exit_code
            raise failure from error

    return [listen]


def gate_junit(rules: list[RuleVerdict], end: RunFinished | None) -> bytes:
    """Return the report as XML. Pure.

    A missed rule is a failure, a skipped one is skipped, one that only warns has passed and says so. A run that ended before its gate was
    decided has one case with an error; a run that was only submitted, or has no rules, has none.

    Args:
        rules: each rule as it was decided.
        end: the end of the run; None if it was not reached.
    """
    suite = TestSuite(_SUITE)
    for rule in rules:
        case = TestCase(_text(f"{rule.metric} {rule.rule}"), classname=_text(f"gate.{rule.metric}"), time=0)
        file, _, line = rule.where.rpartition(":")
        if file and line.isdecimal():
            case._elem.set("file", _text(file))
            case._elem.set("line", line)
        reason = _text(rule.reason)
        if rule.verdict == "missed":
            case.result = [Failure(reason, "missed")]
        elif rule.verdict == "skipped":
            case.result = [Skipped(reason)]
        else:
            case.system_out = reason
        suite.add_testcase(case)
    if not rules and (end is None or end.exit_code != 0):
        case = TestCase("the gate is decided", classname="gate", time=0)
        message, kind = ("the run did not end", "error") if end is None else (end.message, end.status)
        case.result = [Error(_text(message), kind)]
        suite.add_testcase(case)
    report = JUnitXml()
    report.add_testsuite(suite)
    content: bytes = report.tostring()
    return content


def _text(text: str) -> str:
    return _NO_XML.sub("\N{REPLACEMENT CHARACTER}", text)
