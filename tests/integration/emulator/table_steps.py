"""Submit the jobs of job_table.py, by the plain azure-ai-ml or by aml-train. Run as a program: see client_steps.py."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import requests
import yaml
from azure.ai.ml._artifacts._artifact_utilities import download_artifact_from_aml_uri
from client_steps import client  # type: ignore[import-not-found]  # they lie beside this script
from job_table import IMAGE, TABLE, Row  # type: ignore[import-not-found]

SECONDS = 3600
FOLLOWED = ("output", "exit-code", "file-missing", "limit-reached", "pytorch-one-fails")
FILES = {
    "data/a.csv": "a,1\n",
    "data/b.txt": "b\n",
    "data/deep/c.csv": "c,3\n",
    "table/MLTable": "paths: [{file: ./rows.csv}]\n",
    "table/rows.csv": "r,1\n",
    "model/weights.txt": "weights\n",
    "src/train.py": "print('trained')\n",
    "src/sub/helper.py": "",
    "first.txt": "first\n",
    "second.txt": "second\n",
    "environment.yml": f"name: table-file\nimage: {IMAGE}\n",
    "conda.yml": "dependencies: [python=3.11]\n",
    "context/Dockerfile": f"FROM {IMAGE}\nENV BUILT=yes\n",
    "context/docker/Other": f"FROM {IMAGE}\nENV BUILT=otherwise\n",
    "context/docker/Broken": f"FROM {IMAGE}\nRUN exit 7\n",
}


class Places:
    """What stands for the words with ``@`` in a job's text."""

    def __init__(self, given: dict[str, str], who: str) -> None:
        self._given = given
        self._who = who
        self.jobs: dict[str, str] = {}

    def filled(self, text: str) -> str:
        scope = f"subscriptions/{self._given['subscription']}/resourcegroups/{self._given['group']}"
        path = self._given["store"]
        words = {
            "@STORE": f"azureml://datastores/workspaceblobstore/paths/{path}",
            "@LONG": f"azureml://{scope}/workspaces/{self._given['workspace']}/datastores/workspaceblobstore/paths/{path}",
            "@WEB": self._given["web"],
            "@CLIENT": self._who,
            "@WS": (
                f"/subscriptions/{self._given['subscription']}/resourceGroups/{self._given['group']}/providers"
                f"/Microsoft.MachineLearningServices/workspaces/{self._given['workspace']}"
            ),
        }
        # Longer names first, for one may begin with another.
        words |= {f"@JOB:{row}": self.jobs[row] for row in sorted(self.jobs, key=len, reverse=True)}
        for word, value in words.items():
            text = text.replace(word, value)
        return text

    def document(self, row: Row) -> dict[str, Any]:
        document: dict[str, Any] = yaml.safe_load(self.filled(row.job))
        own = {"environment": "azureml:table:1", "compute": f"azureml:{self._given['compute']}"}
        return {**own, **document, "name": f"{self._who}-{row.name}"}


def prepare(given: dict[str, str]) -> dict[str, Any]:
    """Make the files and the assets that the jobs name; return where the folder ``data`` lies in the datastore."""
    from azure.ai.ml.entities import BuildContext, Data, Environment, Model

    folder = Path(given["folder"], "table")
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    ml = client(given)
    ml.environments.create_or_update(Environment(name="table", version="1", image=IMAGE))
    context = BuildContext(path=str(folder / "context"))
    ml.environments.create_or_update(Environment(name="table-built", version="1", build=context))
    ml.data.create_or_update(Data(name="table-file", version="1", path=str(folder / "first.txt"), type="uri_file"))
    ml.data.create_or_update(Data(name="table-file", version="2", path=str(folder / "second.txt"), type="uri_file"))
    ml.data.create_or_update(Data(name="table-table", version="1", path=str(folder / "table"), type="mltable"))
    ml.data.create_or_update(Data(name="table-web", version="1", path=f"{given['web']}/file.txt", type="uri_file"))
    ml.models.create_or_update(
        Model(name="table-model", version="1", path=str(folder / "model"), type="custom_model")
    )
    data = ml.data.create_or_update(
        Data(name="table-folder", version="1", path=str(folder / "data"), type="uri_folder")
    )
    return {"store": data.path.partition("/paths/")[2].strip("/")}


def by_sdk(given: dict[str, str]) -> dict[str, Any]:
    """Submit by azure-ai-ml, several at once."""
    from azure.ai.ml import load_job

    ml, folder = client(given), Path(given["folder"], "table")

    def submit(_row: Row, document: dict[str, Any]) -> str:
        file = folder / f"{document['name']}.yml"
        file.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        name: str = ml.jobs.create_or_update(load_job(file)).name
        return name

    found = run(given, "sdk", submit, workers=4)

    def change(name: str) -> dict[str, Any]:
        job = ml.jobs.get(name)
        job.tags["again"] = "yes"
        return attempt(lambda _row, _document: str(ml.jobs.create_or_update(job).tags["again"]), None, {})

    taken = [seen for seen in found.values() if "job" in seen]
    with ThreadPoolExecutor(4) as pool:
        for seen, again in zip(taken, pool.map(change, [seen["job"] for seen in taken]), strict=True):
            seen["again"] = again
    return found


def by_aml_train(given: dict[str, str]) -> dict[str, Any]:
    """Submit by the pipeline of aml-train, as ``aml-train run --no-wait`` does, and follow some as ``attach`` does."""
    from aml_train.config.load import load_config
    from aml_train.pipeline.execute import run_prepared
    from aml_train.pipeline.prepare import prepare_run
    from aml_train.pipeline.result import RunOptions
    from aml_train.pipeline.target import Host

    folder = Path(given["folder"], "table")
    target = {
        "subscription-id": given["subscription"],
        "resource-group": given["group"],
        "workspace": given["workspace"],
    }
    config = folder / "aml-train.yml"
    config.write_text(json.dumps({"job": "job.yml", "target": "azure", "targets": {"azure": target}}))

    plans = {}

    def submit(row: Row, document: dict[str, Any]) -> str:
        file = folder / f"{document['name']}.yml"
        file.write_text(yaml.safe_dump(document, allow_unicode=True), encoding="utf-8")
        loaded = load_config(config, directory=folder, job=file)
        prepared = prepare_run(loaded, Host(environ=dict(os.environ)))
        outcome = run_prepared(prepared, RunOptions(wait=False), listeners=())
        if outcome.job is None:
            raise ValueError(f"{outcome.status}: {outcome.message}")
        plans[row.name] = prepared
        return str(outcome.job.name)

    found = run(given, "ours", submit, workers=1)
    for name in FOLLOWED:
        if name in plans:
            outcome = run_prepared(plans[name], RunOptions(attach=True, job=found[name]["job"]), listeners=())
            found[name] |= {"verdict": outcome.status, "message": outcome.message}
    return found


def others(given: dict[str, str]) -> dict[str, Any]:
    """What cannot be said in a command job's YAML: a mount for writing, and jobs of other types."""
    from azure.ai.ml import Input, automl, command, spark

    folder = Path(given["folder"], "table")
    (folder / "shared").mkdir()
    (folder / "shared/old.txt").write_text("old\n")
    ml = client(given)
    common: dict[str, Any] = {"environment": "azureml:table:1", "compute": given["compute"]}
    path = str(folder / "shared")
    writing = ml.jobs.create_or_update(
        command(
            command="echo new > ${{inputs.d}}/new.txt; rm ${{inputs.d}}/old.txt",
            inputs={"d": Input(type="uri_folder", path=path, mode="rw_mount")},
            name="writes",
            **common,
        )
    )
    ended(given, ["writes"])
    kept = writing.inputs["d"].path
    ml.jobs.create_or_update(
        command(
            command="cd ${{inputs.d}}; ls",
            inputs={"d": Input(type="uri_folder", path=kept)},
            name="reads",
            **common,
        )
    )
    ended(given, ["reads"])
    training = Input(type="mltable", path="azureml:table-table:1")
    learning = automl.classification(
        training_data=training, target_column_name="y", primary_metric="accuracy", compute=given["compute"]
    )
    counting = spark(
        code=str(folder),
        entry={"file": "first.txt"},
        resources={"instance_type": "standard_e4s_v3", "runtime_version": "3.4"},
        driver_cores=1,
        driver_memory="2g",
        executor_cores=1,
        executor_memory="2g",
        executor_instances=1,
    )
    refusals = {
        what: attempt(lambda _row, made: str(ml.jobs.create_or_update(made["job"]).name), None, {"job": made})
        for what, made in (("automl", learning), ("spark", counting))
    }
    return {
        "writes": shown(ml, given, "writes"),
        "reads": shown(ml, given, "reads"),
        **refusals,
        "listed": sorted(job.name for job in ml.jobs.list()),
        "of_type": [arm(given, f"jobs?jobType={kind}").json()["value"] for kind in ("AutoML", "Spark")],
    }


def kept(given: dict[str, str]) -> dict[str, Any]:
    """Fetch what the table's jobs have left, as users do; to be asked for after the step ``sdk``."""
    ml, target = client(given), Path(given["folder"], "kept")
    ml.models.download("model-by-sdk", "1", download_path=str(target))
    ml.jobs.download("sdk-registers", output_name="o", download_path=str(target / "registers"))
    # By name, azure-ai-ml 1.35.2 looks for outputs in the default place only (azure-sdk-for-python#48941).
    placed = "azureml://datastores/workspaceblobstore/paths/placed/sdk-output-placed/o/"
    download_artifact_from_aml_uri(placed, str(target / "output-placed"), ml.datastores)
    data = ml.data.get("made-by-sdk", label="latest")
    return {
        "files": {str(path.relative_to(target)): path.read_text() for path in target.rglob("*") if path.is_file()},
        "data": [data.version, data.type, data.path.partition("/paths/")[2]],
        "versions": [item.version for item in ml.data.list("versioned-by-sdk")],
        "model": ml.models.get("model-by-sdk", "1").job_name,
    }


def run(
    given: dict[str, str], who: str, submit: Callable[[Row, dict[str, Any]], str], *, workers: int
) -> dict[str, Any]:
    """Submit all jobs, the later ones when the others have ended; tell of each how it went and what is shown of it."""
    warnings.simplefilter("ignore")
    places = Places(given, who)
    found: dict[str, dict[str, Any]] = {}
    rows = [row for row in TABLE if row.name in given["rows"].split(",")] if given.get("rows") else TABLE
    ml = client(given)
    for later in (False, True):
        chosen = [(row, places.document(row)) for row in rows if row.later is later]
        with ThreadPoolExecutor(workers) as pool:
            answers = pool.map(lambda item: attempt(submit, *item), chosen)
            for (row, document), answer in zip(chosen, answers, strict=True):
                found[row.name] = {**answer, "document": document}
        taken = {row.name: found[row.name]["job"] for row, _ in chosen if "job" in found[row.name]}
        places.jobs |= taken
        ended(given, taken.values())
        for row, _ in chosen:
            expected = [places.filled(line) for line in (row.prints or row.contains)]
            found[row.name] |= {"expected": expected}
            if row.name in taken:
                found[row.name] |= shown(ml, given, taken[row.name])
    return found


def attempt(
    submit: Callable[[Any, dict[str, Any]], str], row: Row | None, document: dict[str, Any]
) -> dict[str, Any]:
    """Submit one job; return its name or why it was refused."""
    try:
        return {"job": submit(row, document)}
    except Exception as error:  # noqa: BLE001  a refusal of whatever kind is what the test looks at
        return {"refused": f"{type(error).__name__}: {error}"}


def arm(given: dict[str, str], path: str) -> Any:
    """Ask Azure Resource Manager about the workspace, as it is without an SDK."""
    return _session(given, "https://management.azure.com").get(
        f"https://management.azure.com/subscriptions/{given['subscription']}/resourceGroups/{given['group']}/providers"
        f"/Microsoft.MachineLearningServices/workspaces/{given['workspace']}/{path}",
        params={"api-version": "2025-01-01-preview"},
        timeout=300,
    )


_SESSIONS: dict[str, requests.Session] = {}


def _session(given: dict[str, str], audience: str) -> requests.Session:
    if audience not in _SESSIONS:
        from azure.identity import EnvironmentCredential

        session = requests.Session()
        token = EnvironmentCredential().get_token(f"{audience}/.default").token
        session.headers["Authorization"] = f"Bearer {token}"
        _SESSIONS[audience] = session
    return _SESSIONS[audience]


def ended(given: dict[str, str], names: Iterable[str]) -> None:
    """Wait for the end of these jobs."""
    left = set(names)
    deadline = time.monotonic() + SECONDS
    while left:
        assert time.monotonic() < deadline, sorted(left)
        for name in sorted(left):
            status = arm(given, f"jobs/{name}").json()["properties"]["status"]
            if status not in ("Completed", "Failed", "Canceled"):
                break
            left.remove(name)
        time.sleep(0.2)


def shown(ml: Any, given: dict[str, str], name: str) -> dict[str, Any]:
    """Return what there is of a job that has ended: its status, log, error, and how it reads back."""
    answer = arm(given, f"jobs/{name}").json()["properties"]
    scope = (
        f"/subscriptions/{given['subscription']}/resourceGroups/{given['group']}/providers"
        f"/Microsoft.MachineLearningServices/workspaces/{given['workspace']}"
    )
    history = _session(given, "https://management.azure.com").get(
        f"https://{given['api']}/history/v1.0{scope}/runs/{name}/details", timeout=300
    )
    logs = {path: _read(url) for path, url in history.json()["logFiles"].items()}
    error = (history.json().get("error") or {}).get("error") or {}
    return {
        "status": answer["status"],
        "error": error.get("message") or "",
        "log": "".join(text for path, text in sorted(logs.items()) if path.startswith("user_logs/std_log")),
        "notes": logs.get("system_logs/emulator.log", ""),
        "raw": answer,
        "back": json.loads(json.dumps(ml.jobs.get(name)._to_job()._to_dict(), default=str)),
    }


def _read(url: str) -> str:
    answer = requests.get(url, timeout=300)
    answer.encoding = "utf-8"
    return answer.text


if __name__ == "__main__":
    steps: dict[str, Callable[[dict[str, str]], dict[str, Any]]] = {
        "prepare": prepare,
        "sdk": by_sdk,
        "ours": by_aml_train,
        "others": others,
        "kept": kept,
    }
    print(json.dumps(steps[sys.argv[1]](json.loads(sys.argv[2]))))
