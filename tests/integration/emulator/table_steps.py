"""Submit the jobs of job_table.py by the plain azure-ai-ml. Run as a program: see client_steps.py."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import yaml
from client_steps import client, wait  # type: ignore[import-not-found]  # they lie beside this script
from job_table import IMAGE, TABLE, Row  # type: ignore[import-not-found]

from tests.integration.emulator.holding import logs_so_far

SECONDS = 3600
FILES = {
    "data/a.csv": "a,1\n",
    "data/b.txt": "b\n",
    "data/deep/c.csv": "c,3\n",
    "table/MLTable": "paths: [{file: ./rows.csv}]\n",
    "model/weights.txt": "weights\n",
    "src/train.py": "print('trained')\n",
    "first.txt": "first\n",
    "second.txt": "second\n",
    "environment.yml": f"name: table-file\nimage: {IMAGE}\n",
    "conda.yml": "dependencies: [python=3.11]\n",
    "context/Dockerfile": "FROM scratch\n",
    "context/docker/Other": f"FROM {IMAGE}\nENV BUILT=otherwise\n",
    "context/docker/Broken": f"FROM {IMAGE}\nRUN exit 7\n",
}


def prepare(given: dict[str, str], ml: Any, folder: Path) -> str:
    """Make the files and the assets that the jobs name; return where the folder ``data`` lies in the datastore."""
    from azure.ai.ml.entities import BuildContext, Data, Environment, Model

    for name, text in FILES.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    ml.environments.create_or_update(Environment(name="table", version="1", image=IMAGE))
    # Here, for two jobs that upload one folder at once get in each other's way.
    ml.environments.create_or_update(Environment(name="built", build=BuildContext(path=str(folder / "context"))))
    for name, version, path, kind in (
        ("table-file", "1", str(folder / "first.txt"), "uri_file"),
        ("table-file", "2", str(folder / "second.txt"), "uri_file"),
        ("table-web", "1", f"{given['web']}/file.txt", "uri_file"),
        ("table-folder", "1", str(folder / "data"), "uri_folder"),
    ):
        data = ml.data.create_or_update(Data(name=name, version=version, path=path, type=kind))
    ml.models.create_or_update(
        Model(name="table-model", version="1", path=str(folder / "model"), type="custom_model")
    )
    return str(data.path.partition("/paths/")[2].strip("/"))


def run(given: dict[str, str]) -> dict[str, Any]:
    """Submit all jobs, the later ones when the others have ended; tell of each how it went, and send it again as it is shown."""
    from azure.ai.ml import load_job

    warnings.simplefilter("ignore")
    ml, folder = client(given), Path(given["folder"], "table")
    store = f"datastores/workspaceblobstore/paths/{prepare(given, ml, folder)}"
    scope = f"subscriptions/{given['subscription']}/resourcegroups/{given['group']}/workspaces/{given['workspace']}"
    words = {"@STORE": f"azureml://{store}", "@LONG": f"azureml://{scope}/{store}", "@WEB": given["web"], "@JOB:": ""}

    def filled(text: str) -> str:
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    def submit(row: Row) -> None:
        own = {"environment": "azureml:table:1", "compute": f"azureml:{given['compute']}"}
        file = folder / f"{row.name}.yml"
        document = {**own, **yaml.safe_load(filled(row.job)), "name": row.name}
        file.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        ml.jobs.create_or_update(load_job(file))

    def seen(row: Row) -> dict[str, Any]:
        status = wait(ml, row.name, seconds=SECONDS)[-1]
        shown = ml.jobs.get(row.name)
        logs = logs_so_far(given, row.name)
        shown.tags["again"] = "yes"
        return {
            "status": status,
            "error": shown.properties.get("errorMessage", ""),
            "log": "".join(text for path, text in sorted(logs.items()) if path.startswith("user_logs/std_log")),
            "notes": logs.get("system_logs/emulator.log", ""),
            "again": ml.jobs.create_or_update(shown).tags["again"],
            "expected": [filled(line) for line in (row.prints or row.contains)],
        }

    found: dict[str, dict[str, Any]] = {}
    with ThreadPoolExecutor(4) as pool:
        for later in (False, True):
            rows = [row for row in TABLE if row.later is later]
            list(pool.map(submit, rows))
            found |= {row.name: one for row, one in zip(rows, pool.map(seen, rows), strict=True)}
    return found


STEPS: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {"run": run}

if __name__ == "__main__":
    print(json.dumps(STEPS[sys.argv[1]](json.loads(sys.argv[2]))))
