"""MLflow's searches: filters, orders, and the operations that log asynchronously."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.api.errors import MlflowError
from aml_emulator.api.mlflow.search import RUNS, Searchable, parse_filter
from tests.unit.emulator.memory_service import TRACKING
from tests.unit.emulator.parts import IDENTITY, Service

API = IDENTITY.api_host


def done(service: Service, path: str, body: Any = None, *, method: str = "POST") -> Any:
    answer = service.call(method, f"{TRACKING}/{path}", body, host=API)
    assert answer.status == 200, answer.body
    return answer.json


def runs(service: Service, **metrics: float | str | None) -> str:
    """Create runs that are named as the metrics' values, in a separate experiment; return its id."""
    guid = str(done(service, "experiments/create", {"name": "e"})["experiment_id"])
    for name, value in metrics.items():
        run = done(service, "runs/create", {"experiment_id": guid, "run_name": name})["run"]["info"]["run_id"]
        if value is not None:
            done(service, "runs/log-metric", {"run_id": run, "key": "m", "value": value})
    return guid


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("attributes.status = 'Failed'", True),
        ("attributes.status IN ('FAILED', 'KILLED')", True),
        ("attributes.duration > '3600000'", True),
        ("attributes.duration > 3600001", False),
        ("attributes.creation_time > '1'", True),
        ("attributes.end_time = 5", False),
        ("attributes.user_id LIKE 'aml%'", True),
        ("tags.a LIKE 'x_z'", True),
        ("tags.a LIKE 'x_'", False),
        ("tags.missing != 'x'", False),
        ('tags."a" = "xyz"', True),
        ("run.run_id = 'r'", True),
    ],
)
def test_filters_hold(text: str, expected: bool) -> None:
    run = Searchable(
        attributes={
            "run_id": "r",
            "status": "FAILED",
            "user_id": "aml-emulator",
            "creation_time": 2.0,
            "end_time": None,
            "duration": 3_600_001.0,
        },
        tags={"a": "xyz"},
    )
    assert all(comparison.holds(run) for comparison in parse_filter(text, RUNS)) is expected


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("attributes.start_time > 'soon'", "start_time is a number"),
        ("metrics.m LIKE '1%'", "does not compare numbers"),
        ("metrics.m IN ('1')", "does not compare numbers"),
        ("params.p > 'a'", "does not compare text"),
        ("attributes.phase = 'x'", "Invalid attribute key 'phase'"),
        ("run_id IN ()", "does not understand"),
        ("metrics.m > 1 OR metrics.m < 0", "does not support OR"),
    ],
)
def test_a_filter_without_a_meaning_is_refused(text: str, words: str) -> None:
    with pytest.raises(MlflowError) as caught:
        parse_filter(text, RUNS)
    assert words in caught.value.message


def test_metrics_are_logged_asynchronously_as_azureml_mlflow_does(service: Service) -> None:
    guid = runs(service, a=None)
    run = done(service, "runs/search", {"experiment_ids": [guid]})["runs"][0]["info"]["run_id"]
    preview = TRACKING.replace("/api/2.0/mlflow", "/api/2.0/preview/mlflow")
    metric = {"key": "m", "value": 0.5, "timestamp": 1, "step": 0}
    answer = service.call("POST", f"{preview}/runs/log-batch-async", {"run_id": run, "metrics": [metric]}, host=API)
    tracked = answer.json["batch_tracking_id"]
    assert (answer.status, bool(tracked)) == (200, True)
    path = f"{preview}/runs/get-run-data-status?run_id={run}&batch_tracking_id={tracked}"
    assert service.call("GET", path, host=API).json == {"is_complete": True}
    param = {"run_id": run, "params": [{"key": "p", "value": "1"}]}
    # Without metrics a client does not ask further.
    answer = service.call("POST", f"{preview}/runs/log-batch-async", param, host=API)
    assert answer.json == {"batch_tracking_id": ""}
    data = done(service, f"runs/get?run_id={run}", method="GET")["run"]["data"]
    assert (data["metrics"][0]["value"], data["params"]) == (0.5, [{"key": "p", "value": "1"}])
