"""What azure-ai-ml does with pipelines and sweeps. Run as a process of its own by test_graphs.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.emulator.client_steps import client, wait

IMAGE = "python:3.11-slim-bookworm"
GRAPH = """
$schema: https://azuremlschemas.azureedge.net/latest/pipelineJob.schema.json
type: pipeline
experiment_name: graphs
inputs:
  count: 3
  data: {{type: uri_folder, path: data}}
outputs:
  model: {{type: uri_folder}}
settings: {{default_compute: azureml:{compute}}}
jobs:
  prep:
    type: command
    code: src
    command: python prep.py ${{{{inputs.data}}}} ${{{{inputs.count}}}} ${{{{outputs.clean}}}}
    environment: {{image: {image}}}
    inputs: {{data: "${{{{parent.inputs.data}}}}", count: "${{{{parent.inputs.count}}}}"}}
    outputs: {{clean: {{type: uri_folder}}}}
  train:
    type: command
    command: mkdir -p outputs && cat ${{{{inputs.clean}}}}/rows | tee ${{{{outputs.model}}}}/weights outputs/rows
    environment: {{image: {image}}}
    inputs: {{clean: {{path: "${{{{parent.jobs.prep.outputs.clean}}}}", mode: download}}}}
    outputs: {{model: "${{{{parent.outputs.model}}}}"}}
"""
PREP = """
import pathlib, sys
data, count, clean = sys.argv[1:]
pathlib.Path(clean, "rows").write_text(pathlib.Path(data, "rows").read_text() * int(count))
"""
SWEEP = """
$schema: https://azuremlschemas.azureedge.net/latest/sweepJob.schema.json
type: sweep
experiment_name: sweeps
compute: azureml:{compute}
trial:
  code: src
  command: python trial.py ${{{{search_space.rate}}}} ${{{{outputs.model}}}}
  environment: {{image: {image}}}
outputs: {{model: {{type: uri_folder}}}}
sampling_algorithm: grid
search_space:
  rate: {{type: choice, values: [1, 5, 3]}}
objective: {{goal: maximize, primary_metric: score}}
limits: {{max_total_trials: 3, max_concurrent_trials: 2}}
"""
TRIAL = """
import json, os, pathlib, sys, urllib.request
rate, model = sys.argv[1:]
pathlib.Path(model, "weights").write_text(rate)
base = os.environ["MLFLOW_TRACKING_URI"].replace("azureml://", "https://")
body = {"run_id": os.environ["MLFLOW_RUN_ID"], "key": "score", "value": float(rate), "timestamp": 1}
head = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"], "Content-Type": "application/json"}
address = f"{base}/api/2.0/mlflow/runs/log-metric"
urllib.request.urlopen(urllib.request.Request(address, json.dumps(body).encode(), head)).read()
"""


def written(given: dict[str, str]) -> Path:
    """Write the jobs and their code; return the folder."""
    folder = Path(given["folder"], "graphs")
    (folder / "src").mkdir(parents=True, exist_ok=True)
    (folder / "data").mkdir(exist_ok=True)
    (folder / "data" / "rows").write_text("row\n")
    (folder / "src" / "prep.py").write_text(PREP)
    (folder / "src" / "trial.py").write_text(TRIAL)
    (folder / "graph.yml").write_text(GRAPH.format(compute=given["compute"], image=IMAGE))
    (folder / "sweep.yml").write_text(SWEEP.format(compute=given["compute"], image=IMAGE))
    return folder


def files(folder: Path) -> dict[str, str]:
    """Return the files below a folder."""
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def graph(given: dict[str, str]) -> dict[str, Any]:
    """Run a pipeline twice, and download it: the second time its nodes are reused."""
    from azure.ai.ml import load_job

    ml, folder = client(given), written(given)
    seen: dict[str, Any] = {}
    for turn in ("first", "again"):
        job = ml.jobs.create_or_update(load_job(folder / "graph.yml"))
        status = wait(ml, job.name)[-1]
        nodes = {node.display_name: node for node in ml.jobs.list(parent_job_name=job.name)}
        seen[turn] = {
            "status": status,
            "nodes": {name: node.status for name, node in nodes.items()},
            "reused": {name: node.properties.get("azureml.isreused") for name, node in nodes.items()},
            "got": ml.jobs.get(nodes["train"].name).status,
        }
        ml.jobs.download(job.name, download_path=folder / turn)
        seen[turn]["files"] = files(folder / turn)
    # By name: azure-ai-ml 1.35 leaves named outputs out of all=True (azure-sdk-for-python#48941).
    ml.jobs.download(nodes["train"].name, download_path=folder / "node", output_name="model")
    ml.jobs.download(nodes["train"].name, download_path=folder / "node")
    seen["node"] = files(folder / "node")
    return seen


def sweep(given: dict[str, str]) -> dict[str, Any]:
    """Run a sweep, and download its best trial."""
    from azure.ai.ml import load_job

    ml, folder = client(given), written(given)
    job = ml.jobs.create_or_update(load_job(folder / "sweep.yml"))
    status = wait(ml, job.name)[-1]
    ended = ml.jobs.get(job.name)
    ml.jobs.download(job.name, download_path=folder / "best", output_name="model")
    return {
        "name": job.name,
        "status": status,
        "best": ended.properties.get("best_child_run_id"),
        "score": ended.properties.get("score"),
        "trials": sorted(trial.status for trial in ml.jobs.list(parent_job_name=job.name)),
        "files": files(folder / "best"),
    }


STEPS = {"graph": graph, "sweep": sweep}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
