"""The names that the package offers to programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

import aml_train
import aml_train.testing
from aml_train.core.events import Event, Listener, Notice
from aml_train.pipeline.prepare import PreparedRun
from aml_train.pipeline.project_name import folder_project
from aml_train.pipeline.result import RunOptions, RunResult

JOB = "command: python train.py\nenvironment: azureml:sklearn:1\n"


@pytest.fixture
def prepared(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PreparedRun:
    monkeypatch.setattr("aml_train.pipeline.prepare.read_commit", lambda _directory, **_more: None)
    monkeypatch.setattr(
        "aml_train.pipeline.prepare.read_project", lambda directory, _environ, **_more: folder_project(directory)
    )
    (tmp_path / "job.yml").write_text(JOB)
    return aml_train.plan(
        aml_train.load_config(None, directory=tmp_path), environ={"AML_TRAIN_RUN_URL": "https://ci/1"}
    )


def test_a_configuration_is_planned_in_the_given_environment(prepared: PreparedRun) -> None:
    assert prepared.host.environ == {"AML_TRAIN_RUN_URL": "https://ci/1"}
    assert "python train.py" in str(prepared.plan.job.document["command"])


@pytest.mark.parametrize("options", [None, RunOptions(fresh=True)])
def test_a_plan_is_run_with_its_options(
    options: RunOptions | None, prepared: PreparedRun, monkeypatch: pytest.MonkeyPatch
) -> None:
    received: list[tuple[PreparedRun, RunOptions, Sequence[Listener]]] = []

    def execute(
        planned: PreparedRun, wanted: RunOptions, *, listeners: Sequence[Listener], cancel: None
    ) -> RunResult:
        received.append((planned, wanted, listeners))
        return RunResult(status="passed", exit_code=0)

    monkeypatch.setattr("aml_train.api.planning.run_prepared", execute)
    shown: list[Event] = []
    result = aml_train.run(prepared, options, on_event=shown.append)
    assert isinstance(result, aml_train.RunResult)
    ((planned, wanted, listeners),) = received
    assert (planned, wanted) == (prepared, options or RunOptions())
    listeners[-1](Notice(text="passed on"))
    assert [getattr(event, "text", "") for event in shown] == ["passed on"]


def test_every_public_name_is_available() -> None:
    for module in (aml_train, aml_train.testing):
        assert all(hasattr(module, name) for name in module.__all__)
    assert issubclass(aml_train.errors.InvalidError, aml_train.errors.AmlTrainError)
    assert issubclass(aml_train.events.RuleVerdict, aml_train.events.Event)
    with pytest.raises(AttributeError, match="module 'aml_train' has no attribute 'nothing'"):
        _ = aml_train.nothing
