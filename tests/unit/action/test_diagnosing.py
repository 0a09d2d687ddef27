"""`command: doctor`: log, annotations, outputs and exit code."""

from __future__ import annotations

import html
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.diagnosis import CheckResult, Diagnosis, Outcome, failed, misconfigured, ok, warning
from aml_train.core.errors import InvalidError
from aml_train_action.main import main
from tests.unit.action.runner_model import Runner
from tests.unit.action.test_commands import _read_outputs

SECRET = "the-real-secret-value"
CONFIG = "job: {command: python train.py, environment: 'azureml:e:1'}\n"


class Act:
    """Runs the step; the checks have the given results."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self._monkeypatch = folder, monkeypatch
        self.faults: list[str] = []

    def __call__(
        self, *results: tuple[str, Outcome], config: str = CONFIG
    ) -> tuple[int, Runner, dict[str, str], str]:
        def diagnose(project: Any, host: Any, report: Callable[[CheckResult], object], *, masker: Any) -> Diagnosis:
            try:
                project.load()
            except InvalidError as error:
                self.faults.append(error.message)
            assert host.environ["AZURE_CLIENT_ID"] == "the-client"
            made = tuple(CheckResult(name=name, outcome=outcome) for name, outcome in results)
            for one in made:
                report(one)
            return Diagnosis(target="azure", results=made)

        self._monkeypatch.setattr("aml_train_action.diagnosing.run", diagnose)
        (self.folder / "aml-train.yml").write_text(config)
        out, summary, stdout = self.folder / "out", self.folder / "sum", io.BytesIO()
        files = {
            "GITHUB_WORKSPACE": str(self.folder),
            "GITHUB_OUTPUT": str(out),
            "GITHUB_STEP_SUMMARY": str(summary),
        }
        inputs = {"INPUT_COMMAND": "doctor", "INPUT_CLIENT-ID": "the-client", "INPUT_TENANT-ID": "the-tenant"}
        code = main({**files, **inputs, "MY_TOKEN": SECRET}, stdout)
        log = Runner().read(stdout.getvalue().decode())
        return code, log, _read_outputs(out.read_text()), html.unescape(summary.read_text())


@pytest.fixture
def act(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Act:
    return Act(tmp_path, monkeypatch)


def test_a_failure_is_an_annotation_with_its_command(act: Act) -> None:
    code, log, outputs, summary = act(
        ("sign-in", ok("me")),
        ("clock", warning("61 s ahead", "sudo timedatectl set-ntp true")),
        ("registry-role", failed(f"may not push {SECRET}", "az role assignment create --role AcrPush")),
    )
    assert (code, outputs["status"]) == (8, "service-error")
    (error,) = [command.data for command in log.done if command.name == "error"]
    assert error == "registry-role: may not push ***%0Aaz role assignment create --role AcrPush"
    for text in ("✓ sign-in: me", "✗ registry-role: may not push ***", "az role assignment create --role AcrPush"):
        assert text in summary.replace("\\", ""), text
    assert SECRET not in summary


@pytest.mark.parametrize(
    ("outcome", "code", "status"),
    [(ok("x"), 0, "checked"), (misconfigured("x", "y"), 2, "invalid"), (failed("x", "y"), 8, "service-error")],
)
def test_the_status_and_the_exit_code(act: Act, outcome: Outcome, code: int, status: str) -> None:
    ended, _, outputs, _ = act(("a", outcome))
    assert (ended, outputs["status"]) == (code, status)


def test_a_configuration_with_faults_is_a_result(act: Act) -> None:
    code, *_ = act(("configuration", misconfigured("imge", "correct it")), config=CONFIG + "imge: 5\n")
    assert code == 2
    assert "imge" in act.faults[0]
