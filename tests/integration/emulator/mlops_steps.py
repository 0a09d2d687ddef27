"""What azure-ai-ml does with the pipeline of Azure/mlops-v2-gha-demo. Run as a separate process by tests/large/test_mlops.py."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from tests.integration.emulator.client_steps import client, wait

MODEL = "taxi-model"


def prepare(given: dict[str, str]) -> dict[str, Any]:
    """Create what the template's workflow creates before: the cluster, the environment and the data."""
    from azure.ai.ml import load_data
    from azure.ai.ml.entities import AmlCompute, Environment

    ml, train = client(given), Path(given["folder"], given["pipeline"]).parent
    ml.compute.begin_create_or_update(
        AmlCompute(name="cpu-cluster", size="STANDARD_DS3_V2", max_instances=2)
    ).result()
    ml.environments.create_or_update(Environment(name="taxi-train-env", image=given["image"]))
    ml.data.create_or_update(load_data(train / "data.yml"))
    return {}


def run(given: dict[str, str]) -> dict[str, Any]:
    """Run the pipeline as it is."""
    from azure.ai.ml import load_job

    ml = client(given)
    job = ml.jobs.create_or_update(load_job(Path(given["folder"], given["pipeline"])))
    wait(ml, job.name)
    children = list(ml.jobs.list(parent_job_name=job.name))
    return {
        "status": ml.jobs.get(job.name).status,
        "nodes": {child.display_name: child.status for child in children},
        "models": [model.version for model in ml.models.list(MODEL)],
    }


STEPS = {"prepare": prepare, "run": run}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
