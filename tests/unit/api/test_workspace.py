"""Reading a workspace from Python, comparing, promoting, and the environment of a process that has used the local AzureML."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import aml_train
from aml_train import Workspace
from aml_train.api import planning
from aml_train.core.errors import GateFailedError, InvalidError, ServiceError
from aml_train.local import target as local_target
from aml_train.pipeline.promotion import actor_of
from aml_train.testing import MemoryJob, MemoryService, TrainingFailedError


@pytest.fixture
def trained(memory: MemoryService) -> str:
    """The name of a job that has been trained, whose model is registered."""
    del memory
    result = aml_train.run(aml_train.load_config())
    assert result.job is not None
    return result.job.name


def again(**sets: object) -> str:
    config = aml_train.load_config(sets={f"job.inputs.{name}": value for name, value in sets.items()})
    result = aml_train.run(config)
    assert result.job is not None, result
    return result.job.name


def test_jobs_are_listed_sorted_and_shown(trained: str, memory: MemoryService) -> None:
    def worse(job: MemoryJob) -> Iterator[None]:
        job.log_metric("val/accuracy", 0.96)
        job.write("outputs/model/weights.txt", b"2")
        yield

    memory.training = worse
    second = again(epochs=9)
    workspace = Workspace.open()
    assert [job.name for job in workspace.jobs()] == [second, trained]
    best = workspace.jobs(sort="val/accuracy", metrics=["val/accuracy"])
    assert [job.name for job in best] == [trained, second]
    assert best[:1][0].name == trained
    assert [job.name for job in workspace.jobs(sort="val/accuracy", reverse=True, limit=1)] == [second]
    assert best.facts()[0]["metrics"] == {"val/accuracy": 0.97}
    title, head, first, _second = repr(best).splitlines()
    assert title == "2 jobs"
    assert head.split() == ["name", "status", "ran", "created", "val/accuracy"]
    assert (first.split()[0], first.split()[-1]) == (trained, "0.97")
    assert workspace.jobs(metrics=[])[0].metrics == {}
    assert not workspace.jobs(status=["running"])
    assert len(workspace.jobs(status=["completed"], name=f"{trained}*", tags={"aml-train.gate": "passed"})) == 1
    with pytest.raises(InvalidError, match="AzureML has no status 'runing'"):
        workspace.jobs(status=["runing"])
    with pytest.raises(InvalidError, match="none of the jobs logged it"):
        workspace.jobs(sort="f1")
    with pytest.raises(InvalidError, match="needs the jobs' results"):
        workspace.jobs(sort="val/accuracy", metrics=[])


def test_a_job_is_described_with_its_metrics_files_and_curves(trained: str, tmp_path: Path) -> None:
    workspace = Workspace.open()
    assert workspace.describe(trained)["logged_parameters"] == {"epochs": "2"}
    assert workspace.parameters(trained) == {"epochs": "2"}
    curves = workspace.histories(trained)
    assert dict(curves) == {"val/accuracy": [(0, 0.91), (1, 0.97)]}
    assert len(curves) == 1
    assert "val/accuracy: 2 values, the last is 0.97" in repr(curves)
    assert "●" in repr(curves)
    assert workspace.read(trained, "outputs/model/weights.txt") == b"weights"
    with pytest.raises(ServiceError, match="wrote no outputs/none"):
        workspace.read(trained, "outputs/none")
    folder = workspace.download(trained, tmp_path / "files", "outputs/**")
    assert (folder / "outputs/model/weights.txt").read_bytes() == b"weights"
    assert not (folder / "user_logs").exists()
    workspace.download(trained, tmp_path / "all")
    assert (tmp_path / "all/user_logs/std_log.txt").read_text().startswith("epoch 1")
    with pytest.raises(ServiceError, match="There is nothing at"):
        workspace.download(trained, tmp_path / "none", "outputs/*.pt")
    for call in (workspace.job, workspace.describe):
        with pytest.raises(InvalidError, match="There is no job nothing in the workspace"):
            call("nothing")


def test_models_are_found_and_downloaded(trained: str, tmp_path: Path) -> None:
    del trained
    workspace = Workspace.open()
    assert [model.version for model in workspace.models("dig*")] == ["1"]
    assert not workspace.models(stage="production")
    done = workspace.download_model("digits", tmp_path / "model")
    assert (done.folder, done.checked) == (tmp_path / "model", False)
    assert (tmp_path / "model/weights.txt").read_bytes() == b"weights"
    with pytest.raises(InvalidError, match="is not empty"):
        workspace.download_model("digits", tmp_path / "model")
    workspace.download_model("digits", tmp_path / "model", force=True)


def test_two_jobs_are_compared(trained: str) -> None:
    second = again(epochs=9)
    found = aml_train.compare(trained, second)
    assert found.different_parameters == ("epochs",)
    assert found.histories["val/accuracy"][0] == [(0, 0.91), (1, 0.97)]
    for text in ("A - B", "epochs", "val/accuracy over steps   ● A   ○ B"):
        assert text in str(found)
    assert str(found).startswith(f"the job {trained} compared with the job {second}\n")
    assert not aml_train.compare(trained, second, metrics=["val/accuracy"]).different_data
    with pytest.raises(InvalidError, match="f1: neither side logged it"):
        aml_train.compare(trained, second, metrics=["f1"])
    Path("values.json").write_text('{"val/accuracy": 0.5}')
    assert aml_train.compare(trained, "file:values.json").metrics["val/accuracy"].difference == pytest.approx(0.47)


def test_models_are_promoted_and_taken_back(trained: str, memory: MemoryService) -> None:
    again(epochs=9)
    events: list[Any] = []
    seen = aml_train.promote(to="production", actor="ann", dry_run=True, listeners=[events.append])
    assert (seen.status, seen.model.version) == ("dry-run", "2")
    assert [event.name for event in events][-1] == "promotion-decided"
    aml_train.promote("digits:1", to="production", actor="ann")
    aml_train.promote("digits:2", to="production", actor="ann", expect="1", reason="better")
    stages = {model.version: model.staged for model in memory.registered}
    assert stages == {"1": "archived", "2": "production"}
    done = aml_train.rollback("digits", to="production", actor="bob")
    assert done.message == "digits version 1 is in production again; version 2 is archived."
    with pytest.raises(GateFailedError, match="production"):
        aml_train.promote("digits:2", to="production", actor="ann", expect="none")
    Path("aml-train.yml").write_text("promote: {production: {}}\n")
    with pytest.raises(InvalidError, match="Which model"):
        aml_train.promote(to="production", actor="ann")
    del trained


def test_who_promotes() -> None:
    assert actor_of({"AML_TRAIN_ACTOR": "ann"}) == "ann"
    assert actor_of({})


def test_a_training_that_fails_is_a_failed_job(memory: MemoryService) -> None:
    def failing(job: MemoryJob) -> Iterator[None]:
        job.say("Traceback (most recent call last):\n  File 'train.py', line 1\nValueError: no data")
        if not job.metrics:
            raise TrainingFailedError("exit code 1")
        yield

    memory.training = failing
    result = aml_train.run(aml_train.load_config())
    assert (result.status, result.exit_code) == ("job-failed", 5)
    assert "ValueError: no data" in result.message


def test_an_image_counts_as_built_only_in_memory(project: Path) -> None:
    """A configuration with `image` needs no engine there, and outside of the block it does again."""
    from aml_train.pipeline.target import target_override
    from aml_train.testing import memory_workspace

    (project / "job.yml").write_text("command: python train.py\n")
    (project / "aml-train.yml").write_text("job: job.yml\nimage: {base: 'python:3.11-slim-bookworm'}\n")
    with memory_workspace() as service:
        result = aml_train.run(aml_train.load_config())
        assert (result.status, len(service.jobs)) == ("passed", 1)
    assert target_override() is None


def test_variables_of_the_local_azureml_are_undone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_target, "_changed", {})
    monkeypatch.setenv("HTTPS_PROXY", "http://mine:1")
    monkeypatch.delenv("AML_TEST_A", raising=False)
    before = dict(os.environ)
    local_target._enter({"HTTPS_PROXY": "http://emulator:1", "AML_TEST_A": "a"})
    local_target._enter({"HTTPS_PROXY": "http://emulator:2", "AML_TEST_A": "b"})
    assert os.environ["HTTPS_PROXY"] == "http://emulator:2"
    assert planning.host_for("local", None).environ == before
    assert planning.host_for("local", {"A": "1"}).environ == {"A": "1"}
    assert os.environ["AML_TEST_A"] == "b", "another run with it may be going on"
    assert planning.host_for("azure", None).environ == before
    assert dict(os.environ) == before


def test_a_variable_that_the_program_changed_itself_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_target, "_changed", {})
    monkeypatch.setenv("HTTPS_PROXY", "http://mine:1")
    local_target._enter({"HTTPS_PROXY": "http://emulator:1"})
    monkeypatch.setenv("HTTPS_PROXY", "http://other:1")
    local_target.leave_local()
    assert os.environ["HTTPS_PROXY"] == "http://other:1"
