"""What azure-ai-ml does with jobs of Azure/azureml-examples. Run as a separate process by tests/large/test_azureml_examples.py."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

from azure.ai.ml import MLClient, load_job
from azure.ai.ml.entities import AmlCompute, Data
from azure.identity import DefaultAzureCredential

_ENDED = ("Completed", "Failed", "Canceled")


def fill(client: MLClient, given: dict[str, str]) -> dict[str, Any]:
    """Create the clusters and data that the examples name."""
    for name in given["clusters"].split():
        client.compute.begin_create_or_update(AmlCompute(name=name, size="STANDARD_DS3_V2", max_instances=2)).result()
    data = Path(given["folder"], "cli/assets/data")
    for name in ("local-folder-example", "sampledata"):
        client.data.create_or_update(Data(name=name, version="1", type="uri_folder", path=str(data / "example-data")))
    return {}


def run(client: MLClient, given: dict[str, str]) -> dict[str, Any]:
    """Submit a job file as it is; wait for the job's end."""
    job = client.jobs.create_or_update(load_job(Path(given["folder"], given["job"])))
    while (status := client.jobs.get(job.name).status) not in _ENDED:
        time.sleep(0.2)
    if status == "Completed":
        return {"status": status}
    for name in (job.name, *(child.name for child in client.jobs.list(parent_job_name=job.name))):
        client.jobs.download(name, download_path=given["folder"] + f"/logs-{job.name}/{name}")
    logs = Path(given["folder"], f"logs-{job.name}").rglob("*.txt")
    return {"status": status, "logs": [path.read_text()[-2000:] for path in logs]}


STEPS = {"fill": fill, "run": run}

if __name__ == "__main__":
    step, arguments = sys.argv[1], json.loads(sys.argv[2])
    scope = (arguments["subscription"], arguments["group"], arguments["workspace"])
    print(json.dumps(STEPS[step](MLClient(DefaultAzureCredential(), *scope), arguments)))
