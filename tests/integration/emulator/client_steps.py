"""What a user's scripts do, with the real SDKs. Run as a program: a step's name and its arguments as JSON.

Knows nothing of the emulator: everything it needs is in the environment and its arguments.
"""

from __future__ import annotations

import contextlib
import io
import json
import math
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

from tests.integration.emulator.holding import HOLD, let_go

SCRIPT = f"""
import os, pathlib, sys
print("hello from", os.environ["GREETING"], "rate", sys.argv[1], "data", sorted(os.listdir(sys.argv[2])), flush=True)
{HOLD}
pathlib.Path("outputs").mkdir(exist_ok=True)
pathlib.Path("outputs/result.txt").write_text("result")
pathlib.Path(sys.argv[3], "model.txt").write_text("weights")
"""


def client(given: dict[str, str]) -> Any:
    """Return an MLClient, signed in by the environment's credential."""
    from azure.ai.ml import MLClient
    from azure.identity import EnvironmentCredential

    return MLClient(EnvironmentCredential(), given["subscription"], given["group"], given["workspace"])


def job(given: dict[str, str], **more: Any) -> Any:
    """Return a command job of the local script, with a local folder as an input."""
    from azure.ai.ml import Input, Output, command

    source, data = Path(given["folder"], "src"), Path(given["folder"], "inputs")
    source.mkdir(exist_ok=True)
    data.mkdir(exist_ok=True)
    (source / "train.py").write_text(SCRIPT)
    (data / "a.txt").write_text("a")
    settings: dict[str, Any] = {
        "code": str(source),
        "command": "python train.py ${{inputs.rate}} ${{inputs.data}} ${{outputs.model}}",
        "environment": "train-env:1",
        "compute": given["compute"],
        "inputs": {"rate": 0.25, "data": Input(type="uri_folder", path=str(data))},
        "outputs": {"model": Output(type="uri_folder")},
        "environment_variables": {"GREETING": "a job"},
        "experiment_name": "sdk",
        "display_name": "a job",
        "tags": {"commit": "abc"},
        "shm_size": "256m",
    }
    return command(**{**settings, **more})


ENDED = ("Completed", "Failed", "Canceled")


def wait(ml: Any, name: str, *, until: tuple[str, ...] = ENDED, seconds: float = 600) -> list[str]:
    """Return the statuses that a job is seen in until it is in one of *until*; one that ends otherwise is a fault."""
    seen: list[str] = []
    deadline = time.monotonic() + seconds
    while not seen or seen[-1] not in until:
        assert time.monotonic() < deadline, seen
        status = ml.jobs.get(name).status
        if not seen or seen[-1] != status:
            seen.append(status)
        assert status in until or status not in ENDED, seen
        time.sleep(0.05)
    return seen


def workspace(given: dict[str, str]) -> dict[str, Any]:
    """Look around, make a compute target and two environments."""
    from azure.ai.ml.entities import AmlCompute, Environment
    from azure.core.exceptions import ResourceNotFoundError
    from azure.core.pipeline.transport import RequestsTransport

    ml = client(given)
    computes = [compute.name for compute in ml.compute.list()]
    with mock.patch.object(RequestsTransport, "sleep", side_effect=time.sleep) as slept:
        made = ml.compute.begin_create_or_update(
            AmlCompute(name="cpu2", size="STANDARD_DS3_V2", max_instances=2)
        ).result()
    try:
        ml.compute.get("nothing")
        missing = "found"
    except ResourceNotFoundError as error:
        missing = str(error)
    ml.environments.create_or_update(Environment(name="train-env", version="1", image="python:3.11-slim-bookworm"))
    second = ml.environments.create_or_update(
        Environment(name="train-env", image="python:3.11-slim-bookworm@sha256:" + 64 * "0")
    )
    ml.compute.begin_delete("cpu2").result()
    return {
        "workspace": ml.workspaces.get(given["workspace"]).location,
        "listed": [item.name for item in ml.workspaces.list()],
        "computes": computes,
        "made": [made.name, made.max_instances],
        "pauses": [float(call.args[0]) for call in slept.call_args_list],
        "missing": missing,
        "version": second.version,
        "latest": ml.environments.get("train-env", label="latest").version,
        "environments": sorted(item.version for item in ml.environments.list("train-env")),
        "datastores": sorted(item.name for item in ml.datastores.list()),
        "default": ml.datastores.get_default().name,
        "after": [compute.name for compute in ml.compute.list()],
    }


def run(given: dict[str, str]) -> dict[str, Any]:
    """Submit a job, stream it, download what it made, register it."""
    from azure.ai.ml.entities import Environment, Model
    from azure.core.exceptions import HttpResponseError

    ml = client(given)
    ml.environments.create_or_update(Environment(name="train-env", version="1", image="python:3.11-slim-bookworm"))
    # azure-ai-ml streams nothing of a job that has ended already.
    submitted = ml.jobs.create_or_update(job(given))

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "hello from" in text:
                let_go(given, submitted.name)
            return super().write(text)

    with contextlib.redirect_stdout(Watched()) as streamed:
        ml.jobs.stream(submitted.name)
    seen = wait(ml, submitted.name)
    downloads = Path(given["folder"], "downloads")
    ml.jobs.download(submitted.name, download_path=str(downloads), all=True)
    # all=True leaves named outputs out with azure-ai-ml 1.35 (azure-sdk-for-python#48941, mended for those by name).
    ml.jobs.download(submitted.name, download_path=str(downloads), output_name="model")
    again = ml.jobs.create_or_update(job(given, name=submitted.name, tags={"commit": "abc", "again": "yes"}))
    conflict = ""
    try:
        ml.jobs.create_or_update(job(given, name=submitted.name, command="python other.py"))
    except HttpResponseError as error:
        conflict = str(error)
    model = ml.models.create_or_update(
        Model(
            name="thing", path=f"azureml://jobs/{submitted.name}/outputs/model", type="custom_model", tags={"a": "b"}
        )
    )
    model.tags["c"] = "d"
    tagged = ml.models.create_or_update(model)
    second = ml.models.create_or_update(
        Model(
            name="thing",
            path=f"azureml://jobs/{submitted.name}/outputs/artifacts/paths/outputs/",
            type="custom_model",
        )
    )
    ml.models.archive("thing", version=second.version)
    ml.models.download("thing", model.version, download_path=str(downloads / "models"))
    return {
        "name": submitted.name,
        "seen": seen,
        "streamed": streamed.getvalue(),
        "files": sorted(str(path.relative_to(downloads)) for path in downloads.rglob("*") if path.is_file()),
        "again": [again.status, again.tags],
        "conflict": conflict,
        "model": [tagged.version, tagged.tags, tagged.path],
        "second": second.version,
        "models": [item.version for item in ml.models.list("thing")],
        "listed": [item.name for item in ml.jobs.list()],
    }


def track(given: dict[str, str]) -> dict[str, Any]:
    """Track a run with MLflow, outside of any job."""
    import mlflow
    from mlflow.tracking import MlflowClient

    uri = client(given).workspaces.get(given["workspace"]).mlflow_tracking_uri
    mlflow.set_tracking_uri(uri)
    mlflow.set_experiment("tracked")
    artifact = Path(given["folder"], "note.txt")
    artifact.write_text("a note")
    with mlflow.start_run(run_name="first", tags={"kind": "test"}) as active:
        mlflow.log_params({"rate": 0.1, "depth": 3})
        for step in range(5):
            mlflow.log_metric("loss", 1.0 / (step + 1), step=step)
        mlflow.log_metrics({"nan": math.nan, "inf": math.inf, "low": -math.inf})
        mlflow.log_artifact(str(artifact), artifact_path="notes")
        mlflow.set_tag("mood", "good")
    ml = MlflowClient()
    run_id = active.info.run_id
    registered = mlflow.register_model(f"{active.info.artifact_uri}/notes", "noted", tags={"x": "y"})
    with mlflow.start_run(run_id=run_id), mlflow.start_run(run_name="child", nested=True) as child:
        mlflow.log_metric("loss", 9.0)
    found = ml.get_run(run_id)
    searched = ml.search_runs(
        [found.info.experiment_id], "metrics.loss < 0.5 and params.depth = '3'", order_by=["metrics.loss DESC"]
    )
    fetched = mlflow.artifacts.download_artifacts(run_id=run_id, artifact_path="notes/note.txt")
    return {
        "run": run_id,
        "status": found.info.status,
        "name": found.info.run_name,
        "params": found.data.params,
        "metrics": {key: str(value) for key, value in found.data.metrics.items()},
        "tags": found.data.tags,
        "history": [[metric.step, metric.value] for metric in ml.get_metric_history(run_id, "loss")],
        "searched": [item.info.run_id for item in searched],
        "artifacts": [item.path for item in ml.list_artifacts(run_id)],
        "note": Path(fetched).read_text(),
        "registered": [registered.version, registered.run_id, ml.get_model_version("noted", "1").tags],
        "parent": ml.get_run(child.info.run_id).data.tags["mlflow.parentRunId"],
    }


def recall(given: dict[str, str]) -> dict[str, Any]:
    """Find again, after a restart, what the other steps left behind."""
    from mlflow.tracking import MlflowClient

    ml = client(given)
    tracking = MlflowClient(ml.workspaces.get(given["workspace"]).mlflow_tracking_uri)

    class Watched(io.StringIO):
        def write(self, text: str) -> int:
            if "line 11" in text:
                Path(given["streaming"]).touch()
            return super().write(text)

    with contextlib.redirect_stdout(Watched()) as streamed:
        ml.jobs.stream(given["job"])
    reached = wait(ml, given["job"])
    return {
        "status": reached[-1],
        "streamed": streamed.getvalue(),
        "model": ml.models.get("thing", "1").tags,
        "history": [metric.value for metric in tracking.get_metric_history(given["run"], "loss")],
    }


def begin(given: dict[str, str]) -> dict[str, Any]:
    """Leave a job behind that runs while the service is restarted, and until its container has the file /tmp/go."""
    ml = client(given)
    command = "for i in $(seq 1 11); do echo line $i; done; until [ -e /tmp/go ]; do sleep 0.1; done; echo line 12"
    submitted = ml.jobs.create_or_update(job(given, command=command))
    wait(ml, submitted.name, until=("Running",))
    return {"name": submitted.name}


def beside_v1(given: dict[str, str]) -> dict[str, Any]:
    """Look at what azureml-core made: its run, its metrics, its model, its environment."""
    import mlflow

    ml = client(given)
    mlflow.set_tracking_uri(ml.workspaces.get(given["workspace"]).mlflow_tracking_uri)
    tracking = mlflow.MlflowClient()
    run = given["run"]
    found, model = ml.jobs.get(run), ml.models.get("tutorial-model", "1")
    downloads = Path(given["folder"], "downloads-beside-v1")
    ml.models.download("tutorial-model", "1", download_path=str(downloads))
    return {
        "status": found.status,
        "experiment": found.experiment_name,
        "tags": dict(found.tags),
        "loss": [metric.value for metric in tracking.get_metric_history(run, "loss")],
        "model": [model.job_name, model.tags],
        "files": sorted(path.name for path in downloads.rglob("*.txt")),
        "environment": ml.environments.get("tutorial-env", "1").build is not None,
        "children": [
            one.info.run_name
            for one in tracking.search_runs(
                [tracking.get_experiment_by_name("tutorial").experiment_id], f"tags.mlflow.parentRunId = '{run}'"
            )
        ],
    }


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
    step.__name__: step for step in (workspace, run, track, recall, begin, beside_v1)
}

if __name__ == "__main__":
    os.environ["MLFLOW_TRACKING_REQUEST_MAX_RETRIES"] = os.environ.get("MLFLOW_TRACKING_REQUEST_MAX_RETRIES", "2")
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
