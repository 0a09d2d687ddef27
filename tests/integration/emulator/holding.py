"""Jobs that run until their client lets them go on, however long it takes until then. Used by the programs beside client_steps.py.

A metric of the run is what they wait for: the service itself hands it on, and nothing has to reach into a container.
"""

from __future__ import annotations

from typing import Any

import requests

API = "https://eastus.api.azureml.ms"

HOLD = """
import json, os, time, urllib.request
base = os.environ["MLFLOW_TRACKING_URI"].replace("azureml://", "https://")
url = base + "/api/2.0/mlflow/runs/get?run_id=" + os.environ["MLFLOW_RUN_ID"]
headers = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
while True:
    with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
        metrics = json.load(answer)["run"]["data"].get("metrics", [])
    if any(metric["key"] == "go" for metric in metrics):
        break
    time.sleep(0.2)
"""
"""Python that returns once the run was let go. It has no single quotes: a shell may be given it in them."""


def scope_of(given: dict[str, str]) -> str:
    """Return the workspace's ARM id."""
    return (
        f"/subscriptions/{given['subscription']}/resourceGroups/{given['group']}/providers"
        f"/Microsoft.MachineLearningServices/workspaces/{given['workspace']}"
    )


def ask(method: str, url: str, **options: Any) -> Any:
    """Return the answer to a request that is signed in as the environment says."""
    from azure.identity import EnvironmentCredential

    token = EnvironmentCredential().get_token("https://management.azure.com/.default").token
    answer = requests.request(method, url, headers={"Authorization": f"Bearer {token}"}, timeout=300, **options)
    answer.raise_for_status()
    return answer.json()


def let_go(given: dict[str, str], run: str) -> None:
    """Have a run go on that waits."""
    url = f"{API}/mlflow/v2.0{scope_of(given)}/api/2.0/mlflow/runs/log-batch"
    metric = {"key": "go", "value": 1, "timestamp": 1_800_000_000_000, "step": 0}
    ask("POST", url, json={"run_id": run, "metrics": [metric]})


def logs_so_far(given: dict[str, str], run: str) -> dict[str, str]:
    """Return what the logs of a run, which may go on, hold by now."""
    files = ask("GET", f"{API}/history/v1.0{scope_of(given)}/runs/{run}/details")["logFiles"]
    return {path: requests.get(url, timeout=300).content.decode() for path, url in files.items()}
