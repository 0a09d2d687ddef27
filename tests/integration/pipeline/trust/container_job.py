"""What a job of the real executor runs: the script beside it, by the words that `instant_emulator` knows.

It is copied into the code of each run. The image has no MLflow, and the service fails for jobs as well: each request is repeated.
"""

import http.client
import json
import os
import sys
import time
import urllib.request
from pathlib import Path

TOKEN = os.environ["MLFLOW_TRACKING_TOKEN"]
RUN = os.environ["MLFLOW_RUN_ID"]


def ask(method: str, url: str, body: object) -> None:
    """Send a request until it is answered. Once more does no harm: a metric's last value stays the same."""
    headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
    for _ in range(100):
        # A request that went through a proxy cannot be sent again.
        request = urllib.request.Request(url, method=method, data=json.dumps(body).encode(), headers=headers)  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                answer.read()
        except (OSError, http.client.HTTPException):
            time.sleep(0.2)
        else:
            return
    sys.exit("nobody answers")


def main() -> None:
    """Do what the script says."""
    mlflow = os.environ["MLFLOW_TRACKING_URI"].replace("azureml://", "https://")
    for line in Path("script.txt").read_text().splitlines():
        word, _, rest = line.partition(" ")
        if word == "say":
            print(rest, flush=True)
        elif word == "metric":
            name, step, value = rest.split(" ")
            metric = {"key": name, "step": int(step), "value": float(value), "timestamp": int(time.time() * 1000)}
            if value == "nan":
                metric["value"] = "NaN"
            ask("POST", f"{mlflow}/api/2.0/mlflow/runs/log-batch", {"run_id": RUN, "metrics": [metric]})
        elif word == "write":
            path, _, text = rest.partition(" ")
            Path(path).parent.mkdir(exist_ok=True)
            Path(path).write_text(text)
        elif word == "cancelled":
            # As azureml-core's `run.cancel()`: the job's own token is not for Azure Resource Manager.
            api, scope = os.environ["AZUREML_SERVICE_ENDPOINT"], os.environ["AZUREML_EXPERIMENT_SCOPE"]
            ask("POST", f"{api}/execution/v1.0{scope}/runId/{RUN}/cancel", {})
            time.sleep(3600)
        elif word == "exit":
            sys.exit(int(rest))
        else:
            sys.exit(f"'{word}' is no word of a script")


if __name__ == "__main__":
    main()
