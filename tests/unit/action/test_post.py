"""The post action: the backstop of cancelling."""

from __future__ import annotations

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.target import Host
from aml_train_action.github.files import abandoned_job
from aml_train_action.post import post
from tests.support.fake_workspace import FakeService
from tests.unit.action.runner_model import Runner

S = JobStatus


@pytest.mark.parametrize(
    ("state", "job"),
    [
        ({}, None),
        ({"STATE_status": "invalid"}, None),
        ({"STATE_job": "j-1"}, "j-1"),
        ({"STATE_job": "j-1", "STATE_status": "cancelled"}, "j-1"),
        ({"STATE_job": "j-1", "STATE_status": "passed"}, None),
        ({"STATE_job": "j-1", "STATE_status": "submitted"}, None),
        ({"STATE_job": "j-1", "STATE_status": "gate-failed"}, None),
    ],
)
def test_which_job_may_have_been_left_behind(state: dict[str, str], job: str | None) -> None:
    assert abandoned_job(state) == job


@pytest.fixture
def after(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[int, Runner]]:
    (tmp_path / "job.yml").write_text("command: python train.py\nenvironment: azureml:sklearn:1\n")

    def run(
        service: FakeService | Exception | None, more: Mapping[str, str], engine: ImageError | None = None
    ) -> tuple[int, Runner]:
        def opened(*_arguments: Any) -> Any:
            if isinstance(service, Exception):
                raise service
            return None if service is None else SimpleNamespace(service=service)

        def swept(_host: Host, listener: Listener) -> None:
            if engine is not None:
                raise engine
            listener(Notice(text="Removed 1 container"))

        monkeypatch.setattr("aml_train_action.post.find_open_workspace", opened)
        monkeypatch.setattr("aml_train_action.post.sweep_engine", swept)
        stdout = io.BytesIO()
        code = post({"GITHUB_WORKSPACE": str(tmp_path), **more}, stdout)
        return code, Runner().read(stdout.getvalue().decode())

    return run


def with_job(status: JobStatus) -> FakeService:
    return FakeService(jobs={"j-1": JobView(name="j-1", status=status)})


LEFT = {"STATE_job": "j-1"}


def test_a_job_that_was_left_behind_is_cancelled(after: Callable[..., tuple[int, Runner]]) -> None:
    service = with_job(S.RUNNING)
    code, runner = after(service, LEFT)
    assert (code, service.cancelled) == (0, ["j-1"])
    (warning,) = [command for command in runner.done if command.name == "warning"]
    assert "its job j-1 was cancelled; the cancellation is requested now" in warning.data


@pytest.mark.parametrize(
    ("service", "more", "shown"),
    [
        (with_job(S.RUNNING), {}, "The step left no job behind."),
        (with_job(S.RUNNING), {**LEFT, "STATE_status": "submitted"}, "The step left no job behind."),
        (with_job(S.RUNNING), {**LEFT, "INPUT_ON-CANCEL": "detach"}, "The job j-1 continues."),
        (with_job(S.CANCELED), LEFT, "The job j-1 is Canceled."),
        (FakeService(), LEFT, "There is no job j-1."),
        (None, LEFT, "There is no job j-1."),
    ],
)
def test_nothing_is_cancelled_that_need_not_be(
    service: FakeService | None, more: dict[str, str], shown: str, after: Callable[..., tuple[int, Runner]]
) -> None:
    code, runner = after(service, more)
    assert code == 0
    assert any(shown in line for line in runner.shown)
    assert service is None or service.cancelled == []


@pytest.mark.parametrize(
    ("state", "swept"), [({}, True), (LEFT, True), ({**LEFT, "STATE_status": "cancelled"}, False)]
)
def test_what_a_killed_step_left_on_the_engine_is_removed(
    state: dict[str, str], swept: bool, after: Callable[..., tuple[int, Runner]]
) -> None:
    code, runner = after(with_job(S.CANCELED), state)
    assert code == 0
    assert any("Removed 1 container" in line for line in runner.shown) == swept
