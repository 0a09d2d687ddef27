"""What fills the page: jobs, metrics, a model, made with the real SDKs, for the instant executor. Run as a program, as client_steps.py is."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[3]
sys.path.insert(0, str(ROOT))

from tests.integration.emulator.client_steps import client, wait  # noqa: E402 - run as a program, from anywhere
from tests.integration.emulator.graph_steps import written  # noqa: E402

FINISHED = "write outputs/model/weights.txt weights\nsay <b>bold</b> & done"
LINES = [f"say line {number}" for number in range(1, 19)]
LIVE = "\n".join(("say first", *LINES[:9], "wait more", *LINES[9:], "wait an end"))
VALUES = 250
"""The most values of a metric that AzureML takes in one request."""
NASTY = "<script>document.title='owned'</script>"
RULES = [["val/accuracy", ">= 0.9", 0.97, 0.9, "met"], [NASTY, "<= baseline + 2%", 0.3, 0.25, "warned"]]
GATE = {
    "aml-train.gate": "passed",
    "aml-train.gate-rules": json.dumps(RULES),
    "aml-train.verdict.main": json.dumps(
        {
            "gate": "passed",
            "at": "2026-11-20T10:00:00Z",
            "commit": "0123",
            "repository": NASTY,
            "configuration": "a.yml",
        }
    ),
}


def fill(given: dict[str, str]) -> dict[str, Any]:
    """Run a job and a pipeline to their ends, with metrics of all kinds, and register a model.

    Another job is left running.
    """
    from azure.ai.ml import command, load_job
    from azure.ai.ml.entities import Environment, Model
    from mlflow.entities import Metric
    from mlflow.tracking import MlflowClient

    ml = client(given)
    pipeline = load_job(written(given) / "played.yml")
    pipeline.settings.force_rerun = True
    graph = ml.jobs.create_or_update(pipeline)
    ml.environments.create_or_update(Environment(name="page-env", version="1", image="python:3.11-slim-bookworm"))
    common = {"environment": "page-env:1", "compute": given["compute"]}
    source = Path(given["folder"], "page-src")
    source.mkdir(exist_ok=True)
    (source / "train.txt").write_text("nothing to see\n")
    done = ml.jobs.create_or_update(
        command(
            command=FINISHED,
            code=str(source),
            display_name=f"digits {NASTY}",
            experiment_name="page",
            tags={"commit": "0123456789abcdef", NASTY: NASTY, **GATE},
            inputs={"rate": 0.25},
            **common,
        )
    )
    live = ml.jobs.create_or_update(
        command(command=LIVE, display_name="a growing log", experiment_name="page", **common)
    )
    tracking = MlflowClient(tracking_uri=ml.workspaces.get(given["workspace"]).mlflow_tracking_uri)
    curves = {
        "train/loss": [2.3 * math.exp(-step / 30) + 0.05 * math.sin(step / 2) for step in range(120)],
        "val/accuracy": [1 - 0.9 * math.exp(-step / 4) for step in range(12)],
        "lr": [1e-3 * 0.9**step for step in range(40)],
        "spiky": [math.nan, 1.0, math.inf, 2.0, -math.inf, 1.5, 1e6],
        "constant": [7.0] * 5,
        "long": [math.sin(step / 200) * step for step in range(4000)],
        NASTY.replace("<", "").replace(">", "").replace("'", "")[:20]: [1.0, 2.0],
    }
    for name, values in curves.items():
        metrics = [
            Metric(key=name, value=value, timestamp=1_800_000_000_000 + 500 * at, step=at)
            for at, value in enumerate(values)
        ]
        for start in range(0, len(metrics), VALUES):
            tracking.log_batch(done.name, metrics=metrics[start : start + VALUES])
    tracking.log_param(done.name, "optimizer", "adam")
    wait(ml, done.name)
    model = ml.models.create_or_update(
        Model(
            name="digits",
            path=f"azureml://jobs/{done.name}/outputs/artifacts/paths/outputs/model",
            type="custom_model",
            tags={
                "gate": "passed",
                "aml-train.gate": "passed",
                "aml-train.gate-rules": json.dumps(RULES),
                "aml-train.stage": "production",
                "aml-train.promoted-by": NASTY,
                "aml-train.metric.val/accuracy": "0.97",
                "aml-train.commit": "0123456789abcdef" * 2,
                "aml-train.base": "python:3.11-slim-bookworm",
            },
        )
    )
    wait(ml, live.name, until=("Running",))
    wait(ml, graph.name)
    nodes = {node.display_name: node.name for node in ml.jobs.list(parent_job_name=graph.name)}
    return {"done": done.name, "live": live.name, "model": model.version, "graph": graph.name, "nodes": nodes}


def grow(given: dict[str, str]) -> dict[str, Any]:
    """Have the job that still runs write more."""
    ml = client(given)
    job = ml.jobs.get(given["job"])
    job.tags["more"] = "yes"
    return {"tags": ml.jobs.create_or_update(job).tags}


def cancel(given: dict[str, str]) -> dict[str, Any]:
    """Cancel the job that still runs."""
    ml = client(given)
    ml.jobs.begin_cancel(given["job"]).result()
    return {"seen": wait(ml, given["job"])}


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"fill": fill, "grow": grow, "cancel": cancel}

if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))) + "\n")
