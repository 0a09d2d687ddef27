"""What the services answer for a node that is reused: what they answer for the run that it reuses."""

from __future__ import annotations

from typing import Any

from aml_emulator.domain.jobs.pipelines.runs import node_run_id
from aml_emulator.store.metrics import Metric
from tests.unit.emulator.parts import WS
from tests.unit.emulator.played_pipelines import NODE, Pipelines

HISTORY = f"/history/v1.0{WS}"
TRACKING = f"/mlflow/v2.0{WS}/api/2.0/mlflow"
METRICS = f"/metric/v2.0{WS}"
API = "eastus.api.azureml.ms"
DAY = 86400


def logged(pipelines: Pipelines, run: str) -> None:
    """Log values, a parameter and a table, and store a log and an output."""
    store = pipelines.store
    store.metrics.log(
        run, [Metric(key="loss", value=value, timestamp=7, step=step) for step, value in ((0, 2.5), (1, 1.5))]
    )
    store.metrics.set_params(run, [("rate", "0.1")])
    row = {"data": {"a": 1}, "metricId": "m1", "createdUtc": "2026-01-01T00:00:00Z"}
    table = {
        "name": "table",
        "columns": {"a": "Integer"},
        "properties": {"uxMetricType": "azureml.v1.table"},
        "value": [row],
    }
    assert ask(pipelines, "POST", f"{METRICS}/runs/{run}/batch", {"values": [table]}).status == 200
    folder = pipelines.services.artifacts_of(run)
    pipelines.blobs.append(folder.container, folder.name_of("user_logs/std_log.txt"), b"trained\n")
    store.runs.add_artifact(run, "user_logs/std_log.txt", size=8, log=True)


def ask(pipelines: Pipelines, method: str, path: str, body: Any = None) -> Any:
    """Call an interface of the workspace's own host."""
    return pipelines.call(method, path, body, host=API)


def twice(pipelines: Pipelines) -> tuple[str, str]:
    """Run a pipeline of one node twice; return the node's first run and the one that reuses it."""
    component = pipelines.component("train", outputs={"model": {"type": "uri_folder"}})
    graph = {"jobs": {"train": {**NODE, "componentId": component}}, "settings": {"default_compute": "local-cluster"}}
    pipelines.put("p1", **graph)
    first = node_run_id("p1", "train")
    logged(pipelines, first)
    pipelines.end("p1", "train")
    pipelines.put("p2", **graph)
    assert pipelines.status("p2") == "Completed"
    return first, node_run_id("p2", "train")


def test_a_reused_node_says_what_it_reuses(pipelines: Pipelines) -> None:
    first, second = twice(pipelines)
    shown = ask(pipelines, "GET", f"{HISTORY}/runs/{second}").json
    assert {name: value for name, value in shown["properties"].items() if "reuse" in name.lower()} == {
        "azureml.isreused": "true",
        "azureml.reusedrunid": first,
        "azureml.reusednodeid": "train",
        "azureml.reusedpipeline": "p1",
        "azureml.reusedpipelinerunid": "p1",
        "azureml.localReuseKey": pipelines.store.runs.require(first).properties["azureml.localReuseKey"],
    }
    assert (shown["status"], shown["parentRunId"], shown["duration"][:8]) == ("Completed", "p2", "00:00:00")
    assert shown["outputs"] == ask(pipelines, "GET", f"{HISTORY}/runs/{first}").json["outputs"]
    assert shown["outputs"]["model"]["assetId"].endswith(f"/azureml_{first}_output_data_model/versions/1")


def test_a_reused_node_has_the_values_of_the_run_that_it_reuses(pipelines: Pipelines) -> None:
    runs = twice(pipelines)
    answers = []
    for run in runs:
        mlflow = ask(pipelines, "GET", f"{TRACKING}/runs/get?run_id={run}").json["run"]["data"]
        history = ask(pipelines, "GET", f"{TRACKING}/metrics/get-history?run_id={run}&metric_key=loss").json
        full = ask(pipelines, "POST", f"{METRICS}/runs/{run}/full", {"metricName": "table"}).json["value"]
        last = ask(pipelines, "POST", f"{METRICS}/runs/{run}/lastvalues", {}).json["value"]
        answers.append(
            (
                [(one["key"], one["value"], one["step"]) for one in mlflow["metrics"]],
                mlflow["params"],
                [(one["value"], one["step"], one["timestamp"]) for one in history["metrics"]],
                [one["data"] for one in full],
                [one["name"] for one in last],
                ask(pipelines, "GET", f"{HISTORY}/runs/{run}").json["parameters"],
            )
        )
    assert answers[0] == answers[1]
    assert answers[1][:3] == ([("loss", 1.5, 1)], [{"key": "rate", "value": "0.1"}], [(2.5, 0, 7), (1.5, 1, 7)])
    found = ask(
        pipelines,
        "POST",
        f"{TRACKING}/runs/search",
        {"experiment_ids": [pipelines.store.runs.require(runs[0]).experiment_id], "filter": "metrics.loss < 2"},
    )
    assert {run["info"]["run_id"] for run in found.json["runs"]} == set(runs)


def test_a_reused_node_reads_the_files_of_the_run_that_it_reuses(pipelines: Pipelines) -> None:
    first, second = twice(pipelines)
    logs = ask(pipelines, "GET", f"{HISTORY}/runs/{second}/details").json["logFiles"]
    assert list(logs) == ["user_logs/std_log.txt"]
    assert f"/dcid.{first}/user_logs/std_log.txt?" in logs["user_logs/std_log.txt"]
    listed = ask(pipelines, "GET", f"{HISTORY}/experiments/graphs/runs/{second}/artifacts").json["value"]
    assert [one["path"] for one in listed] == ["user_logs/std_log.txt"]
    place = f"/artifact/v2.0{WS}/artifacts/content/ExperimentRun/dcid.{second}/user_logs/std_log.txt"
    assert ask(pipelines, "GET", place).body == b"trained\n"
    assert pipelines.services.folder(f"azureml://jobs/{second}/outputs/artifacts") == pipelines.services.artifacts_of(
        first
    )
    body = {"paths": [{"path": "mine.txt"}]}
    refused = ask(pipelines, "POST", f"/artifact/v2.0{WS}/artifacts/batch/metadata/ExperimentRun/dcid.{second}", body)
    assert (refused.status, "reuses an earlier one" in refused.json["error"]["message"]) == (400, True)


def test_what_is_reused_twice_is_the_first_runs(pipelines: Pipelines) -> None:
    first, _ = twice(pipelines)
    pipelines.store.runs.delete("p1")
    graph = pipelines.store.runs.require("p2").job or {}
    pipelines.put("p3", jobs=graph["jobs"], settings=graph["settings"])
    third = pipelines.store.runs.require(node_run_id("p3", "train"))
    assert (third.properties["azureml.reusedrunid"], third.properties["azureml.reusedpipeline"]) == (first, "p1")
    assert [metric.value for metric in pipelines.store.metrics.latest(third.id)] == [1.5]
