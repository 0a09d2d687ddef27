"""What examples/distributed does, by its own scripts and the real SDKs. Run as a program, as client_steps.py is.

The step is the SDK: ``v1`` runs in the Python that has azureml-core, ``v2`` in the one that has azure-ai-ml.
"""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "distributed"
ENDS = ("Completed", "Failed", "Canceled")
ENDINGS: dict[str, dict[str, str]] = {"well": {}, "failing": {"FAIL_ON_RANK": "3"}, "killed": {"KILL_RANK": "2"}}
"""The example's job, and the same with a process that fails: by itself, and by a signal."""


def run(given: dict[str, str], script: Any, scope: Any, ended: Callable[[Any, Path], dict[str, Any]]) -> Any:
    """Submit all jobs, and return of each how it ended, and its logs and outputs."""
    kind, image = given["kind"], given.get("image")
    jobs = {
        name: script.submit(scope, kind, image=image, variables=ENDINGS[name]) for name in given["endings"].split()
    }
    return {name: ended(job, Path(given["folder"], f"{given['sdk']}-{name}")) for name, job in jobs.items()}


def v2(given: dict[str, str]) -> Any:
    """By azure-ai-ml."""
    from azure.ai.ml.exceptions import JobException

    script = importlib.import_module("submit")
    ml = script.client()

    def ended(job: Any, folder: Path) -> dict[str, Any]:
        while (status := ml.jobs.get(job.name).status) not in ENDS:
            time.sleep(0.5)
        error = ""
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                ml.jobs.stream(job.name)
        except JobException as failure:
            error = str(failure)
        ml.jobs.download(job.name, download_path=str(folder), all=True)
        return {"status": status, "files": _files(folder), "error": error}

    return run(given, script, ml, ended)


def v1(given: dict[str, str]) -> Any:
    """By azureml-core."""
    script = importlib.import_module("submit_v1")

    def ended(job: Any, folder: Path) -> dict[str, Any]:
        while (status := job.get_status()) not in ENDS:
            time.sleep(0.5)
        details = job.get_details()
        job.download_files(output_directory=str(folder))
        error = details.get("error", {}).get("error", {}).get("message", "")
        return {"status": status, "files": _files(folder), "error": error, "target": details["target"]}

    return run(given, script, script.workspace(), ended)


def _files(folder: Path) -> dict[str, str]:
    return {path.name: path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()}


if __name__ == "__main__":
    sys.path.insert(0, str(EXAMPLE))
    sdk, arguments = sys.argv[1], json.loads(sys.argv[2])
    names = {"AZURE_SUBSCRIPTION_ID": "subscription", "AML_RESOURCE_GROUP": "group", "AML_WORKSPACE": "workspace"}
    os.environ.update({name: arguments[key] for name, key in {**names, "AML_COMPUTE": "compute"}.items()})
    print(json.dumps({"v1": v1, "v2": v2}[sdk]({**arguments, "sdk": sdk})))
