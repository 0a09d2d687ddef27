"""Runs, when several clients change or delete them at once."""

from __future__ import annotations

import json
from typing import Final

import pytest

from aml_emulator.store.runs import RunStore
from tests.unit.emulator.between import Asked, ask_between
from tests.unit.emulator.memory_service import HISTORY, TRACKING
from tests.unit.emulator.parts import WS, Service

METRIC: Final = f"/metric/v2.0{WS}/runs/run1"
VALUES: Final = [{"name": "loss", "columns": {"loss": "Double"}, "value": [{"metricId": "1", "data": {"loss": 1.0}}]}]
WRITES: Final[tuple[Asked, ...]] = (
    *(
        ("POST", f"{TRACKING}/runs/{path}", {"run_id": "run1", **body})
        for path, body in (
            ("update", {"run_name": "other", "status": "FINISHED"}),
            ("delete", {}),
            ("restore", {}),
            ("set-tag", {"key": "a", "value": "1"}),
            ("delete-tag", {"key": "before"}),
            ("log-parameter", {"key": "a", "value": "1"}),
            ("log-metric", {"key": "a", "value": 1}),
            ("log-batch", {"metrics": [{"key": "a", "value": 1}], "params": [{"key": "a", "value": "1"}]}),
            ("log-model", {"model_json": "{}"}),
            ("log-inputs", {}),
        )
    ),
    ("POST", f"{METRIC}/batch", {"values": VALUES}),
    ("PATCH", f"{HISTORY}/experiments/exp/runs/run1", {"runId": "run1", "tags": {"a": "1"}}),
    ("DELETE", f"{HISTORY}/experiments/exp/runs/run1/tags", ["before"]),
    ("POST", f"{HISTORY}/experiments/exp/runs/run1/events", {"name": "Microsoft.MachineLearning.Run.Completed"}),
    (
        "POST",
        f"{HISTORY}/experiments/exp/runs/run1/artifacts/batch/metadata",
        {"paths": [{"path": "outputs/a.txt"}]},
    ),
    ("PATCH", f"{WS}/jobs/run1", {"properties": {"tags": {"a": "1"}}}),
    ("PATCH", f"{HISTORY}/experiments/exp/runs/child", {"runId": "child", "parentRunId": "run1"}),
)


@pytest.fixture
def ended(service: Service) -> Service:
    """A service with a job that has ended."""
    assert service.submit("run1", tags={"before": "1"}).status == 201
    service.store.runs.finish("run1", "Completed")
    return service


@pytest.mark.parametrize(
    ("write", "step"),
    [
        *((write, "get") for write in WRITES),
        *((write, "change") for write in WRITES if write[1].endswith(("/update", "/jobs/run1", "/runs/run1"))),
        *((write, "tag") for write in WRITES if write[1].endswith("/tags")),
    ],
    ids=lambda given: given if isinstance(given, str) else given[1].rpartition("/")[2],
)
def test_a_job_that_is_deleted_meanwhile_is_not_found_or_is_deleted_later(
    ended: Service, monkeypatch: pytest.MonkeyPatch, write: Asked, step: str
) -> None:
    first, deletion = ask_between(ended, monkeypatch, (RunStore, step), write, ("DELETE", f"{WS}/jobs/run1", None))
    assert first.status in (200, 404), first.body
    assert deletion.status == 200
    assert ended.store.runs.get("run1") is None


def test_models_that_two_processes_log_are_both_kept(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    assert service.submit("run1").status == 201
    first, second = (
        ("POST", f"{TRACKING}/runs/log-model", {"run_id": "run1", "model_json": f'{{"artifact_path": "{name}"}}'})
        for name in "ab"
    )
    answers = ask_between(service, monkeypatch, (RunStore, "get"), first, second)
    assert [answer.status for answer in answers] == [200, 200]
    history = json.loads(service.store.runs.require("run1").tags["mlflow.log-model.history"])
    assert sorted(model["artifact_path"] for model in history) == ["a", "b"]
