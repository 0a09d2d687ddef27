"""What examples/distributed does, by its own script and the real SDK. Run as a program, as client_steps.py is."""

from __future__ import annotations

import importlib
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

EXAMPLE = Path(__file__).parents[3] / "examples" / "distributed"


def run(given: dict[str, str]) -> dict[str, Any]:
    """Submit the example twice, once with a rank that fails, and return of each how it ended, and its logs and outputs."""
    sys.path.insert(0, str(EXAMPLE))
    names = {"AZURE_SUBSCRIPTION_ID": "subscription", "AML_RESOURCE_GROUP": "group", "AML_WORKSPACE": "workspace"}
    os.environ.update({name: given[key] for name, key in {**names, "AML_COMPUTE": "compute"}.items()})
    submit = importlib.import_module("submit")

    ml, image = submit.client(), given.get("image")
    variables: dict[str, dict[str, str]] = {"well": {}, "failing": {"FAIL_ON_RANK": "3"}}
    jobs = {
        name: submit.submit(ml, given["kind"], image=image, variables=value).name for name, value in variables.items()
    }
    return {name: _ended(ml, job, Path(given["folder"], name)) for name, job in jobs.items()}


def _ended(ml: Any, job: str, folder: Path) -> dict[str, Any]:
    while (status := ml.jobs.get(job).status) not in ("Completed", "Failed", "Canceled"):
        time.sleep(0.5)
    ml.jobs.download(job, download_path=str(folder), all=True)
    files = {path.name: path.read_bytes().decode(errors="replace") for path in folder.rglob("*") if path.is_file()}
    return {"status": status, "files": files}


if __name__ == "__main__":
    print(json.dumps({"run": run}[sys.argv[1]](json.loads(sys.argv[2]))))
