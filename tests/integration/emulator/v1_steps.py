"""What a user's scripts do with azureml-core. Run as a program: a step's name and its arguments as JSON.

Knows nothing of the emulator: everything it needs is in the environment and its arguments. Runs in the Python that has
azureml-core; see `v1_client`.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

IMAGE = "python:3.11-slim-bookworm"
TRAIN = """
import os, pathlib, sys
print("hello", sys.argv[1:], os.environ["GREETING"], sorted(os.listdir(".")), flush=True)
pathlib.Path("outputs/model.txt").write_text("weights")
"""


def workspace(given: dict[str, str]) -> Any:
    """Return the workspace, signed in by the environment's service principal through azure-identity."""
    from azure.identity import EnvironmentCredential
    from azureml.core import Workspace
    from azureml.core.authentication import TokenAuthentication

    credential = EnvironmentCredential()

    def token(audience: str) -> str:
        return str(credential.get_token(f"{audience.rstrip('/')}/.default").token)

    return Workspace.get(
        name=given["workspace"],
        subscription_id=given["subscription"],
        resource_group=given["group"],
        auth=TokenAuthentication(token, cloud="AzureCloud"),
    )


def environment(name: str, **more: Any) -> Any:
    """Return an environment that is an image."""
    from azureml.core import Environment

    found = Environment(name)
    found.docker.base_image = IMAGE
    found.python.user_managed_dependencies = True
    for key, value in more.items():
        setattr(found.docker, key, value)
    return found


def source(given: dict[str, str], name: str, files: dict[str, str]) -> str:
    """Return a folder with these files."""
    folder = Path(given["folder"], name)
    folder.mkdir(parents=True, exist_ok=True)
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return str(folder)


def run(given: dict[str, str]) -> dict[str, Any]:
    """Submit a script, wait for it, log to it, and download what it made."""
    from azureml.core import Experiment, ScriptRunConfig

    ws = workspace(given)
    folder = source(given, "src", {"train.py": TRAIN, "lib/part.py": "x = 1\n"})
    config = ScriptRunConfig(
        source_directory=folder,
        script="train.py",
        arguments=["--rate", 0.5, "--text", "it's $HOME"],
        compute_target=given["compute"],
        environment=environment("v1-env"),
    )
    config.run_config.environment_variables = {"GREETING": "a run"}
    submitted = Experiment(ws, "exp-v1").submit(config, tags={"commit": "abc"})
    details = submitted.wait_for_completion(show_output=False)
    submitted.log("accuracy", 0.9)
    submitted.flush()
    downloads = Path(given["folder"], "downloads-v1")
    downloads.mkdir(exist_ok=True)
    submitted.download_file("outputs/model.txt", str(downloads / "model.txt"))
    submitted.download_files(prefix="user_logs", output_directory=str(downloads))
    (Path(folder) / "second.txt").write_text("2")
    again = Experiment(ws, "exp-v1").submit(config)
    again.wait_for_completion(show_output=False)
    return {
        "id": submitted.id,
        "status": details["status"],
        "target": details["target"],
        "script": details["runDefinition"]["script"],
        "tags": submitted.get_tags(),
        "metrics": submitted.get_metrics(),
        "files": submitted.get_file_names(),
        "log": (downloads / "user_logs/std_log.txt").read_text(),
        "model": (downloads / "model.txt").read_text(),
        "second": again.get_status(),
        "second log": again.get_details_with_logs()["logFiles"],
        "listed": [one.id for one in Experiment(ws, "exp-v1").get_runs()] == [again.id, submitted.id],
        "portal": submitted.get_portal_url(),
    }


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"run": run}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
