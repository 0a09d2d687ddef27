"""What azure-ai-ml does with a pipeline that has a sweep. Run as a separate process by test_graphs.py."""

from __future__ import annotations

import json
import secrets
import sys
from pathlib import Path
from typing import Any

from tests.integration.emulator.client_steps import client, wait

IMAGE = "python:3.11-slim-bookworm"
PLAYED = """
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
experiment_name: played
settings: {{default_compute: azureml:{compute}}}
outputs: {{best: {{type: uri_folder}}}}
jobs:
  train:
    type: command
    command: |
      metric loss 0 2.5
      metric loss 1 1.5
      param rate 0.1
      write model/weights trained
      say trained {token}
      output model weights trained
    environment: {{image: {image}}}
    outputs: {{model: {{type: uri_folder}}}}
  tune:
    type: sweep
    trial: ./played_trial.yml
    inputs: {{data: "${{{{parent.jobs.train.outputs.model}}}}"}}
    outputs: {{model: "${{{{parent.outputs.best}}}}"}}
    sampling_algorithm: grid
    search_space:
      rate: {{type: choice, values: [1, 5, 3]}}
    objective: {{goal: maximize, primary_metric: score}}
    limits: {{max_total_trials: 3, max_concurrent_trials: 2, timeout: 3600}}
    early_termination: {{type: median_stopping, evaluation_interval: 1, delay_evaluation: 5}}
  use:
    type: command
    command: say used {token}
    environment: {{image: {image}}}
    inputs: {{model: "${{{{parent.jobs.tune.outputs.model}}}}"}}
"""
PLAYED_TRIAL = """
$schema: https://azuremlschemas.azureedge.net/latest/commandComponent.schema.json
type: command
name: played_trial
version: "1"
command: |
  say {token}
  metric score 0 ${{{{inputs.rate}}}}
  output model weights ${{{{inputs.rate}}}}
environment: {{image: {image}}}
inputs:
  data: {{type: uri_folder, optional: true}}
  rate: {{type: integer}}
  factor: {{type: integer, default: 1}}
outputs: {{model: {{type: uri_folder}}}}
"""


def written(given: dict[str, str]) -> Path:
    """Write the jobs and their code; return the folder."""
    folder = Path(given["folder"], "graphs")
    folder.mkdir(exist_ok=True)
    token = secrets.token_hex(4)  # no node of another test has the same command
    (folder / "played_trial.yml").write_text(PLAYED_TRIAL.format(image=IMAGE, token=token))
    (folder / "played.yml").write_text(PLAYED.format(compute=given["compute"], image=IMAGE, token=token))
    return folder


def files(folder: Path) -> dict[str, str]:
    """Return the files below a folder."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def seen_of(ml: Any, job: Any, folder: Path) -> dict[str, Any]:
    """Wait for a pipeline with a sweep node, and return its parts as the client sees them."""
    status = wait(ml, job.name)[-1]
    nodes = {node.display_name: node for node in ml.jobs.list(parent_job_name=job.name)}
    tune = ml.jobs.get(nodes["tune"].name)
    best = tune.properties["best_child_run_id"]
    # Its trial's, which are in the default place: azure-ai-ml 1.35 finds no others by name (azure-sdk-for-python#48941).
    ml.jobs.download(best, download_path=folder / tune.name, output_name="model")
    ml.jobs.download(nodes["use"].name, download_path=folder / nodes["use"].name)
    return {
        "status": status,
        "nodes": {name: node.status for name, node in nodes.items()},
        "names": {name: node.name for name, node in nodes.items()},
        "trials": sorted(trial.name.rpartition("_")[2] for trial in ml.jobs.list(parent_job_name=tune.name)),
        "best": best,
        "score": tune.properties["score"],
        "files": {**files(folder / tune.name), **files(folder / nodes["use"].name)},
    }


def played(given: dict[str, str]) -> dict[str, Any]:
    """Run a pipeline with a sweep twice; read the first nodes and those that reuse them."""
    import mlflow
    from azure.ai.ml import load_job
    from mlflow.tracking import MlflowClient

    ml, folder = client(given), written(given)
    # Of the process as a whole: azureml-mlflow reads artifacts by it alone.
    mlflow.set_tracking_uri(ml.workspaces.get(given["workspace"]).mlflow_tracking_uri)
    tracking = MlflowClient()
    seen: dict[str, Any] = {}
    for turn in ("first", "again"):
        found = seen_of(ml, ml.jobs.create_or_update(load_job(folder / "played.yml")), folder)
        train = found["names"]["train"]
        run = tracking.get_run(train)
        weights = mlflow.artifacts.download_artifacts(run_id=train, artifact_path="model/weights")
        seen[turn] = {
            **found,
            "metrics": run.data.metrics,
            "params": run.data.params,
            "history": [(one.step, one.value) for one in tracking.get_metric_history(train, "loss")],
            "listed": sorted(one.path for one in tracking.list_artifacts(train)),
            "weights": Path(weights).read_text(),
            "reuses": {
                name: ml.jobs.get(run).properties.get("azureml.reusedrunid") for name, run in found["names"].items()
            },
        }
    return seen


STEPS = {"played": played}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
