"""The interfaces of azureml-core over the same state as all others."""

from __future__ import annotations

import sqlite3
from typing import Any

import pytest

from aml_emulator.store.v1 import V1Store
from tests.unit.emulator.domain.test_from_runconfig import config
from tests.unit.emulator.parts import IDENTITY, WS, Service

API = IDENTITY.api_host
HISTORY = f"/history/v1.0{WS}"
METRICS = f"/metric/v2.0{WS}/runs/job-1"
SNAPSHOT = "66666666-6666-6666-6666-666666666666"
ENVIRONMENT = {
    "name": "env",
    "version": None,
    "python": {"userManagedDependencies": True, "interpreterPath": "python", "condaDependencies": {"name": "x"}},
    "environmentVariables": {},
    "docker": {
        "baseImage": "python:3.11",
        "baseDockerfile": None,
        "baseImageRegistry": {"address": None, "username": "u", "password": "hidden"},
    },
    "r": None,
}


def ask(service: Service, method: str, path: str, body: Any = None) -> Any:
    """Return the answer of AzureML's own host, which has to be a success."""
    answer = service.call(method, path, body, host=API)
    assert answer.status == 200, answer.body
    return answer.json


def submit(service: Service, name: str = "job-1", **more: Any) -> Any:
    """Submit a run as azureml-core does."""
    uri = "azureml://datastores/workspaceblobstore/paths/Snapshots/one"
    service.store.assets.put("codes", SNAPSHOT, "1", {"codeUri": uri})
    body = {"Configuration": config(environment=ENVIRONMENT, **more), "SnapshotId": SNAPSHOT}
    path = f"/execution/v1.0{WS}/experiments/exp/snapshotrun?runId={name}"
    return service.call("POST", path, body, host=API)


def test_a_run_is_stored_with_its_definition_or_not_at_all(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(store: V1Store, run_id: str, body: Any) -> None:
        raise sqlite3.OperationalError("disk I/O error")

    with monkeypatch.context() as patch:
        patch.setattr(V1Store, "put_definition", fail)
        assert submit(service).status == 500
    assert (service.store.runs.get("job-1"), service.runner.submitted) == (None, [])
    assert submit(service).json == {"runId": "job-1"}


def test_a_run_of_v1_goes_on_until_its_outputs_are_stored(service: Service) -> None:
    submit(service)
    service.submit("job-2")
    for run in ("job-1", "job-2"):
        service.store.runs.advance(run, "Finalizing")
    seen = [
        ask(service, "GET", f"{HISTORY}/runs/{run}{tail}")["status"]
        for run in ("job-1", "job-2")
        for tail in ("", "/details")
    ]
    assert seen == ["Running", "Running", "Finalizing", "Finalizing"]
    assert service.call("GET", f"{WS}/jobs/job-1").json["properties"]["status"] == "Finalizing"


def value(name: str, number: Any, *, kind: str = "azureml.v1.scalar", type_: str = "double", **more: Any) -> Any:
    """Return one metric of a batch."""
    data = number if isinstance(number, dict) else {name: number}
    one = {"metricId": f"{name}-{number}", "createdUtc": "2026-11-21T10:00:00Z", "data": data, **more}
    return {"name": name, "columns": dict.fromkeys(data, type_), "value": [one], "properties": {"uxMetricType": kind}}


def log(service: Service, *values: Any) -> None:
    """Log a batch of metrics."""
    assert ask(service, "POST", f"{METRICS}/batch", {"values": values}) == {"errors": []}


def test_a_list_stays_a_list_and_rows_are_in_the_order_of_their_times(service: Service) -> None:
    submit(service)
    log(
        service,
        value("list", 1.5, kind="azureml.v1.list"),
        value("list", 2.5, kind="azureml.v1.list"),
        value("acc", 1.0),
    )
    kinds = {
        one["metricKey"]["name"]: one["properties"]["uxMetricType"]
        for one in ask(service, "POST", f"{METRICS}/list", {})["value"]
    }
    assert kinds == {"acc": "azureml.v1.scalar", "list": "azureml.v1.list"}
    assert {metric.key for metric in service.store.metrics.latest("job-1")} == {"acc", "list"}
    for second in (2, 1):
        log(service, value("rows", {"n": second}, kind="azureml.v1.table", createdUtc=f"2026-11-21T10:00:0{second}Z"))
    full = ask(service, "POST", f"{METRICS}/full", {"metricName": "rows"})
    assert [one["data"]["n"] for one in full["value"]] == [1, 2]


def test_an_environment_of_a_build_context_is_listed_with_the_others(service: Service) -> None:
    service.environment("of-image")
    context = "azureml://datastores/workspaceblobstore/paths/context"
    service.store.assets.put("environments", "of-context", "1", {"build": {"contextUri": context}})
    listed = ask(service, "GET", f"/environment/v1.0{WS}/environments")["value"]
    assert {one["name"]: (one["docker"]["buildContext"] or {}).get("location") for one in listed} == {
        "of-image": None,
        "of-context": context,
    }
