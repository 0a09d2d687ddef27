"""The gate as a JUnit report."""

from __future__ import annotations

from pathlib import Path

import pytest
from junitparser import JUnitXml

from aml_train.core.errors import AmlTrainError
from aml_train.core.events import RuleVerdict, RunFinished
from aml_train.report.gate_junit import gate_junit, gate_junit_listener
from tests.unit.pipeline.test_run import good_service, make_plan, run

PASSED = RunFinished(status="passed", exit_code=0, message="met")


def rule(verdict: str = "met", **changes: object) -> RuleVerdict:
    values = {
        "metric": "acc",
        "rule": ">= 0.9",
        "value": 0.95,
        "limit": 0.9,
        "reason": "acc = 0.95",
        "where": "a.yml:9",
    }
    return RuleVerdict(verdict=verdict, **{**values, **changes})  # type: ignore[arg-type]


def test_each_rule_is_a_case() -> None:
    rules = [rule(one, rule=f">= 0.{number}") for number, one in enumerate(("met", "missed", "skipped", "warned"))]
    report = JUnitXml.fromstring(gate_junit(rules, PASSED).decode())
    (suite,) = report
    assert (suite.name, suite.tests, suite.failures, suite.skipped, suite.errors) == ("aml-train gate", 4, 1, 1, 0)
    cases = list(suite)
    assert [case.name for case in cases] == [f"acc >= 0.{number}" for number in range(4)]
    assert cases[1].result[0].message == "acc = 0.95"
    assert (cases[0]._elem.get("file"), cases[0]._elem.get("line")) == ("a.yml", "9")
    assert cases[3].system_out == "acc = 0.95"
    assert not cases[3].result


@pytest.mark.parametrize(
    ("end", "errors"),
    [
        (PASSED, 0),
        (RunFinished(status="submitted", exit_code=0, message=""), 0),
        (RunFinished(status="job-failed", exit_code=5, message="it failed"), 1),
        (None, 1),
    ],
)
def test_a_run_that_did_not_come_to_its_gate_is_an_error(end: RunFinished | None, errors: int) -> None:
    (suite,) = JUnitXml.fromstring(gate_junit([], end).decode()) or [None]
    assert suite is not None
    assert (suite.tests, suite.errors) == (errors, errors)


def test_the_file_is_written_at_the_end_and_an_earlier_one_does_not_count(tmp_path: Path) -> None:
    path = tmp_path / "reports/gate.xml"
    path.parent.mkdir()
    path.write_text("<earlier/>")
    (listen,) = gate_junit_listener(path)
    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.tests, suite.errors) == (1, 1)  # as it stays if the process is killed
    run(make_plan({"acc": [">= 0.95", "max >= 0.9"]}), good_service(), listener=listen)
    (suite,) = JUnitXml.fromfile(str(path))
    assert (suite.tests, suite.errors) == (2, 0)


def _run_to(end: RunFinished, path: Path) -> None:
    """Let a run end whose file has become a folder, which stands for a full disk."""
    (listen,) = gate_junit_listener(path)
    path.unlink()
    path.mkdir()
    listen(end)


@pytest.mark.parametrize(("end", "code"), [(PASSED, 1), (RunFinished(status="x", exit_code=6, message=""), 6)])
def test_a_disk_that_is_full_at_the_end_changes_no_verdict(end: RunFinished, code: int, tmp_path: Path) -> None:
    with pytest.raises(AmlTrainError, match=r"--gate-junit .*: cannot be written: Is a dir") as caught:
        _run_to(end, tmp_path / "gate.xml")
    assert caught.value.exit_code == code
