"""What a user's scripts do in a workspace. Run as a program: a step's name and its arguments as JSON.

Knows nothing of the emulator: everything it needs is in the environment and its arguments.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any


def use(given: dict[str, str]) -> dict[str, Any]:
    """Run a job, register data, log a metric: the names are the same in every workspace."""
    from azure.ai.ml import MLClient, command
    from azure.ai.ml.entities import Data, Environment
    from azure.identity import EnvironmentCredential

    client = MLClient(EnvironmentCredential(), given["subscription"], given["group"], given["workspace"])
    here = Path(given["folder"]) / given["workspace"]
    here.mkdir()
    (here / "data.txt").write_text(given["workspace"])
    data = client.data.create_or_update(Data(name="digits", path=str(here / "data.txt"), type="uri_file"))
    script = f"say in {given['workspace']}\nmetric loss 0 {len(given['workspace'])}\nwrite outputs/m.txt weights"
    environment = Environment(image="python:3.11")
    job = client.jobs.create_or_update(
        command(name="train", command=script, environment=environment, compute=given["compute"])
    )
    while client.jobs.get(job.name).status not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.2)
    client.jobs.download(job.name, download_path=here, all=True)
    (log,) = here.rglob("std_log.txt")
    return {
        "status": client.jobs.get(job.name).status,
        "log": log.read_text(),
        "data": [f"{one.name}:{one.version}" for one in client.data.list(name="digits")],
        "place": f"/workspaces/{given['workspace']}/" in str(data.id),
        "jobs": [one.name for one in client.jobs.list()],
        "workspaces": sorted(one.name for one in client.workspaces.list()),
        "metrics": _metrics(client.workspaces.get(given["workspace"]).mlflow_tracking_uri),
    }


def _metrics(address: str) -> dict[str, float]:
    import mlflow

    mlflow.set_tracking_uri(address)
    return dict(mlflow.get_run("train").data.metrics)


def main() -> None:
    """Run one step; the last line says what it saw."""
    print(json.dumps(globals()[sys.argv[1]](json.loads(sys.argv[2]))))


if __name__ == "__main__":
    main()
