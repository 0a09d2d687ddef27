"""`aml-train doctor`: how results are shown, and the exit code."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

from aml_train.cli.doctor import doctor
from aml_train.core.diagnosis import CheckResult, Diagnosis, Outcome, failed, misconfigured, ok, skipped, warning

RESULTS: tuple[tuple[str, Outcome], ...] = (
    ("versions", ok("aml-train 1")),
    ("clock", warning("61 s ahead", "sudo timedatectl set-ntp true")),
    ("sign-in", failed("refused", "az login\nor another way")),
    ("workspace", skipped("skipped, because sign-in failed")),
    ("engine", ok("Docker\x1b[31m 29")),
)


def diagnosing(monkeypatch: pytest.MonkeyPatch, *results: tuple[str, Outcome]) -> None:
    def diagnose(_project: Any, _host: Any, report: Callable[[CheckResult], object], **_: object) -> Diagnosis:
        made = tuple(CheckResult(name=name, outcome=outcome) for name, outcome in results)
        for one in made:
            report(one)
        return Diagnosis(target="azure", results=made)

    monkeypatch.setattr("aml_train.cli.doctor.diagnose", diagnose)


def test_each_check_is_a_line_with_its_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    diagnosing(monkeypatch, *RESULTS)
    shown = CliRunner().invoke(doctor, [])
    assert shown.exit_code == 8
    assert shown.output.splitlines() == [
        "✓ versions: aml-train 1",
        "! clock: 61 s ahead",
        "    sudo timedatectl set-ntp true",
        "✗ sign-in: refused",
        "    az login",
        "    or another way",
        "- workspace: skipped, because sign-in failed",
        "✓ engine: Docker 29",
        "1 of 5 checks failed, with 1 warning.",
    ]


@pytest.mark.parametrize(("outcome", "code"), [(ok("x"), 0), (failed("x", "y"), 8), (misconfigured("x", "y"), 2)])
def test_json_is_one_object(monkeypatch: pytest.MonkeyPatch, outcome: Outcome, code: int) -> None:
    diagnosing(monkeypatch, ("a", outcome))
    shown = CliRunner().invoke(doctor, ["--json"])
    found = json.loads(shown.output)
    assert (shown.exit_code, found["exit_code"], found["ok"], found["target"]) == (code, code, code == 0, "azure")
    assert found["checks"][0]["name"] == "a"
