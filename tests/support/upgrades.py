"""State that an earlier version of the local AzureML left: how it is made, what it holds, and how today's answers are compared.

Whatever is asked here, every version answers: the interfaces are Azure's.
"""

from __future__ import annotations

import json
import tarfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.support.emulator_client import TERMINAL, Client
from tests.support.emulator_process import ROOT, Emulator

FOLDER = ROOT / "tests" / "upgrades"
GO = "go"
WAITING = "waiting"
SECONDS = 120.0
#: A script of the instant executor, in the words that its first version has.
TRAINING = """
say epoch 1
say epoch 2
metric val/accuracy 0 0.5
metric val/accuracy 1 0.75
metric loss 0 1.5
write outputs/model/weights.bin 0123456789
exit 0
"""


class Conversation:
    """What users do with a workspace: jobs, runs, models, data, datastores.

    Args:
        schema: of the emulator's database; what a version did not have is left out.
        instant: whether jobs are executed.
        waits: whether the executor's scripts can wait.
    """

    def __init__(self, emulator: Emulator, *, schema: int, instant: bool, waits: bool) -> None:
        self._emulator = emulator
        self._schema = schema
        self._instant = instant
        self._waits = waits
        self._info = emulator.info
        self._client = Client(emulator.environment(), self._info)
        self.names: dict[str, Any] = {"jobs": [], "runs": [], "models": ["digits"], "data": ["images"]}

    def hold(self) -> None:
        """Do all of it."""
        self._put("environments/old/versions/1", {"image": "nothing:1"}, 200, 201)
        if self._instant:
            self._job("trained", TRAINING.strip(), {"aml-train.commit": "0123abcd", "aml-train.gate": "passed"})
            self._job("failed", "say it goes wrong\nexit 3", {})
            for name in ("trained", "failed"):
                self._until(name, TERMINAL)
        if self._waits or not self._instant:
            # One executes when the service is killed, or is queued.
            self._job(WAITING, f"say begun\nwait {GO}\nsay done", {"owner": "octo"})
            self._until(WAITING, ("Running",) if self._instant else ("Queued", "Starting", "Preparing"))
        self._run()
        self._models()

    def _run(self) -> None:
        """Make a run as MLflow does, with parameters, metrics and a file."""
        client = self._client
        experiment = client.ask("POST", client.mlflow("experiments/create"), json={"name": "by-hand"}).json()
        made = client.ask(
            "POST", client.mlflow("runs/create"), json={"experiment_id": experiment["experiment_id"]}
        ).json()
        run = str(made["run"]["info"]["run_id"])
        self.names["runs"].append(run)
        values: list[dict[str, Any]] = [
            {"key": "m", "value": 0.5 * step, "timestamp": 1000 + step, "step": step} for step in range(4)
        ]
        body: dict[str, Any] = {"run_id": run, "metrics": values, "params": [{"key": "rate", "value": "0.1"}]}
        _expect(client.ask("POST", client.mlflow("runs/log-batch"), json=body), 200)
        history = f"{client.api}/history/v1.0{client.scope}/experiments/by-hand/runs/{run}/artifacts"
        answer = client.ask("POST", f"{history}/batch/metadata", json={"paths": [{"path": "notes/a.txt"}]})
        _expect(answer, 200)
        address = answer.json()["artifactContentInformation"]["notes/a.txt"]["contentUri"]
        _expect(client.blob("PUT", address, data=b"kept\n", headers={"x-ms-blob-type": "BlockBlob"}), 201)
        body = {"run_id": run, "status": "FINISHED", "end_time": 2000}
        _expect(client.ask("POST", client.mlflow("runs/update"), json=body), 200)

    def _models(self) -> None:
        """Register versions of a model and of data, and a datastore."""
        path = "azureml://datastores/workspaceblobstore/paths/m"
        for version, stage in (("1", "archived"), ("2", "production")):
            tags = {"aml-train.stage": stage, "aml-train.job": "trained", "aml-train.version": "0.1.0"}
            model = {"modelUri": f"{path}/{version}", "modelType": "custom_model", "tags": tags}
            self._put(f"models/digits/versions/{version}", model, 200, 201)
        data = {"dataUri": f"{path}/images/", "dataType": "uri_folder", "tags": {"source": "camera"}}
        self._put("data/images/versions/7", data, 200, 201)
        if self._schema >= 2:
            store = {
                "datastoreType": "AzureBlob",
                "accountName": self._info["storage_account"],
                "containerName": "own",
                "credentials": {"credentialsType": "None"},
            }
            # Its container is made with the first file.
            url = f"{self._client.arm('datastores/own')}&skipValidation=true"
            _expect(self._client.ask("PUT", url, json={"properties": store}), 200, 201)

    def _job(self, name: str, command: str, tags: Mapping[str, str]) -> None:
        scope = self._client.scope
        job = {
            "jobType": "Command",
            "command": command,
            "environmentId": f"{scope}/environments/old/versions/1",
            "computeId": f"{scope}/computes/{self._info['compute']}",
            "experimentName": "old",
            "displayName": f"the {name} one",
            "tags": dict(tags),
        }
        self._put(f"jobs/{name}", job, 200, 201)
        self.names["jobs"].append(name)

    def _until(self, name: str, statuses: tuple[str, ...]) -> None:
        end = time.monotonic() + SECONDS
        while (status := status_of(self._client, name)) not in statuses:
            if time.monotonic() > end:
                raise RuntimeError(f"{name} is {status}: {self._emulator.log.read_text()[-4000:]}")
            time.sleep(0.05)

    def _put(self, path: str, properties: Mapping[str, Any], *statuses: int) -> None:
        _expect(self._client.ask("PUT", self._client.arm(path), json={"properties": properties}), *statuses)


def status_of(client: Client, name: str) -> str:
    """Return the status of a job."""
    answer = client.ask("GET", client.arm(f"jobs/{name}"))
    _expect(answer, 200)
    return str(answer.json()["properties"]["status"])


def observe(emulator: Emulator, names: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a version answers about what these names mean, without what changes by itself."""
    client = Client(emulator.environment(), emulator.info)
    found = {
        "names": dict(names),
        "jobs": {name: _job(client, name) for name in names["jobs"]},
        "runs": {name: _logged(client, name) for name in (*names["jobs"], *names["runs"])},
        "artifacts": {name: _artifacts(client, "by-hand", name, ("notes/a.txt",)) for name in names["runs"]},
        "models": {name: _versions(client, f"models/{name}", "modelUri") for name in names["models"]},
        "data": {name: _versions(client, f"data/{name}", "dataUri") for name in names["data"]},
        "datastores": sorted(one["name"] for one in _listed(client, "datastores")),
        "computes": sorted(one["name"] for one in _listed(client, "computes")),
        "instance": emulator.info["instance"],
    }
    client.close()
    return found


def _job(client: Client, name: str) -> dict[str, Any]:
    answer = client.ask("GET", client.arm(f"jobs/{name}"))
    _expect(answer, 200)
    shown = answer.json()["properties"]
    details = client.ask("GET", f"{client.api}/history/v1.0{client.scope}/runs/{name}/details")
    _expect(details, 200)
    logs = {path: client.blob("GET", url).text for path, url in details.json()["logFiles"].items()}
    kept = {key: shown.get(key) for key in ("status", "displayName", "experimentName", "tags", "command")}
    return {**kept, "logs": logs}


def _logged(client: Client, run: str) -> dict[str, Any]:
    """Return the values of all metrics of a run, and its parameters."""
    answer = client.ask("GET", client.mlflow(f"runs/get?run_id={run}"))
    _expect(answer, 200)
    data = answer.json()["run"]["data"]
    histories = {}
    for one in data.get("metrics", []):
        history = client.ask("GET", client.mlflow(f"metrics/get-history?run_id={run}&metric_key={one['key']}"))
        _expect(history, 200)
        histories[one["key"]] = [[value.get("step", 0), value["value"]] for value in history.json()["metrics"]]
    return {
        "metrics": histories,
        "last": {one["key"]: one["value"] for one in data.get("metrics", [])},
        "params": {one["key"]: one["value"] for one in data.get("params", [])},
    }


def _artifacts(client: Client, experiment: str, run: str, paths: tuple[str, ...]) -> dict[str, str]:
    found = {}
    for path in paths:
        url = f"{client.api}/history/v1.0{client.scope}/experiments/{experiment}/runs/{run}/artifacts/contentinfo"
        answer = client.ask("GET", f"{url}?path={path}")
        _expect(answer, 200)
        found[path] = client.blob("GET", answer.json()["contentUri"]).text
    return found


def _versions(client: Client, path: str, place: str) -> dict[str, Any]:
    listed = _listed(client, f"{path}/versions")
    return {
        one["name"]: {"tags": one["properties"].get("tags"), "place": one["properties"].get(place)} for one in listed
    }


def _listed(client: Client, path: str) -> list[dict[str, Any]]:
    answer = client.ask("GET", client.arm(path))
    _expect(answer, 200)
    found: list[dict[str, Any]] = answer.json()["value"]
    return found


def _expect(answer: Any, *statuses: int) -> None:
    if answer.status_code not in statuses:
        raise RuntimeError(f"{answer.request.method} {answer.url}: {answer.status_code} {answer.text[:500]}")


def unpack(schema: int, folder: Path) -> dict[str, Any]:
    """Unpack the state of a version into *folder*, as ``data``; return what that version answered about it."""
    with tarfile.open(FOLDER / f"state-{schema}.tar.xz") as archive:
        archive.extractall(folder, filter="data")
    facts: dict[str, Any] = json.loads((folder / "facts.json").read_text())
    return facts
