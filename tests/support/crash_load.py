"""Clients that keep an emulator busy while it is killed, and remember what it acknowledged."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from typing import Any

import requests

from tests.support.emulator_client import TERMINAL, Client, LostError
from tests.support.emulator_process import Emulator

IMAGE = "python:3.11-slim-bookworm"
COMMAND = "mkdir -p outputs; echo $AZUREML_RUN_ID > outputs/name.txt"


def kill(emulator: Emulator, *, children: bool) -> None:
    """Kill the emulator's process; with *children* its storage and registry as well, as the end of a container does."""
    process = emulator.process
    assert process is not None
    assert process.stdout is not None
    found = subprocess.run(["pgrep", "-P", str(process.pid)], capture_output=True, text=True, check=True)
    process.kill()
    if children:
        for pid in map(int, found.stdout.split()):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                # The kernel has told it of its parent's end, and it has gone.
                continue
    process.wait()
    process.stdout.close()


class Load:
    """Busy clients, each in a thread, and what was acknowledged to them.

    Args:
        command: of the jobs that they submit.

    Attributes:
        kept: by kind, the names of what was acknowledged.
        wrong: answers that are neither right nor an error of the connection.
        lost: how many requests had no answer.
    """

    def __init__(self, emulator: Emulator, *, command: str = COMMAND) -> None:
        self._command = command
        self._environment, self._info = emulator.environment(), emulator.info
        self.kept: dict[str, set[str]] = {kind: set() for kind in ("jobs", "metrics", "models", "artifacts", "blobs")}
        self.wrong: list[str] = []
        self.lost = 0
        self._ended: dict[str, str] = {}
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        client = self.client()
        made = client.ask("POST", client.mlflow("experiments/create"), json={"name": "load"}).json()
        run = client.ask("POST", client.mlflow("runs/create"), json={"experiment_id": made["experiment_id"]}).json()
        self.run = str(run["run"]["info"]["run_id"])
        client.ask("PUT", client.arm("environments/load/versions/1"), json={"properties": {"image": IMAGE}})
        client.close()

    def client(self) -> Client:
        """Return another client."""
        return Client(self._environment, self._info)

    def start(self) -> None:
        """Let the clients work."""
        for work in (self._submit, self._log, self._log, self._register, self._upload, self._upload, self._watch):
            thread = threading.Thread(target=self._repeat, args=(work, f"{work.__name__}{len(self._threads)}"))
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """Let them end."""
        self._stop.set()
        for thread in self._threads:
            thread.join(timeout=600)
            assert not thread.is_alive(), f"{thread.name} does not end"

    def least(self) -> int:
        """Return how many of a kind were acknowledged, of the kind with the fewest."""
        return min(len(names) for names in self.kept.values())

    def missing(self, client: Client) -> list[str]:
        """Return what was acknowledged and is not there."""
        names = {
            "jobs": {item["name"] for item in _pages(client, client.arm("jobs"))},
            "models": {item["name"] for item in _pages(client, client.arm("models/load/versions"))},
            "metrics": {
                f"{one['step']}:{one['value']:.0f}"
                for one in client.ask(
                    "GET", client.mlflow(f"metrics/get-history?run_id={self.run}&metric_key=m&max_results=25000")
                ).json()["metrics"]
            },
        }
        gone = [f"{kind}/{name}" for kind, found in names.items() for name in self.kept[kind] - found]
        for path in self.kept["artifacts"]:
            answer = client.ask("GET", self._history(client, f"contentinfo?path={path}"))
            if answer.status_code != 200:
                gone.append(f"artifacts/{path}: {answer.status_code}")
                continue
            content = client.blob("GET", answer.json()["contentUri"])
            if path in self.kept["blobs"] and content.content != _content(path):
                gone.append(f"blobs/{path}: {content.status_code} {content.content[:200]!r}")
        return gone

    def statuses(self, client: Client) -> dict[str, str]:
        """Return the status of every job."""
        return {item["name"]: item["properties"]["status"] for item in _pages(client, client.arm("jobs"))}

    def _repeat(self, work: Callable[[Client, str, int], None], name: str) -> None:
        client = self.client()
        for number in range(1_000_000):
            if self._stop.is_set():
                break
            try:
                work(client, name.strip("_"), number)
            except LostError:
                self.lost += 1
                time.sleep(0.1)
            except (AssertionError, KeyError, ValueError) as error:
                self.wrong.append(f"{name} {number}: {error!r}")
        client.close()

    def _expect(self, answer: requests.Response, what: str, *statuses: int) -> bool:
        if answer.status_code in statuses:
            return True
        self.wrong.append(f"{what}: {answer.status_code} {answer.text[:300]}")
        return False

    def _submit(self, client: Client, name: str, number: int) -> None:
        job = {
            "jobType": "Command",
            "command": self._command,
            "environmentId": f"{client.scope}/environments/load/versions/1",
            "computeId": f"{client.scope}/computes/{self._info['compute']}",
            "experimentName": "load",
        }
        job_name = f"job-{name}-{number}"
        # The same again after a lost answer, as the SDKs do.
        for _ in range(200):
            try:
                answer = client.ask("PUT", client.arm(f"jobs/{job_name}"), json={"properties": job})
            except LostError:
                self.lost += 1
                time.sleep(0.1)
                continue
            if self._expect(answer, f"PUT {job_name}", 200, 201):
                self.kept["jobs"].add(job_name)
            break
        # A job takes a container; the load is not to be theirs alone.
        self._stop.wait(4)

    def _log(self, client: Client, name: str, number: int) -> None:
        value = number + 1_000_000 * int(name[-1])
        metric = {"key": "m", "value": value, "timestamp": number, "step": number}
        answer = client.ask("POST", client.mlflow("runs/log-batch"), json={"run_id": self.run, "metrics": [metric]})
        if self._expect(answer, f"metric {number}", 200):
            self.kept["metrics"].add(f"{number}:{value}")

    def _register(self, client: Client, name: str, number: int) -> None:
        del name
        model = {"modelUri": f"azureml://datastores/workspaceblobstore/paths/m/{number}", "modelType": "custom_model"}
        answer = client.ask("PUT", client.arm(f"models/load/versions/{number}"), json={"properties": model})
        if self._expect(answer, f"model {number}", 200, 201):
            self.kept["models"].add(str(number))
        self._stop.wait(0.05)

    def _upload(self, client: Client, name: str, number: int) -> None:
        path = f"{name}/{number}.txt"
        answer = client.ask("POST", self._history(client, "batch/metadata"), json={"paths": [{"path": path}]})
        if not self._expect(answer, f"artifact {path}", 200):
            return
        self.kept["artifacts"].add(path)
        address = answer.json()["artifactContentInformation"][path]["contentUri"]
        stored = client.blob("PUT", address, data=_content(path), headers={"x-ms-blob-type": "BlockBlob"})
        if self._expect(stored, f"blob {path}", 201):
            self.kept["blobs"].add(path)

    def _watch(self, client: Client, name: str, number: int) -> None:
        del name, number
        known = set(self.kept["jobs"])
        statuses = self.statuses(client)
        for job in known:
            if job not in statuses:
                self.wrong.append(f"{job} was acknowledged and is not listed")
            elif self._ended.get(job, statuses[job]) != statuses[job]:
                self.wrong.append(f"{job} was {self._ended[job]} and is {statuses[job]}")
            elif statuses[job] in TERMINAL:
                self._ended[job] = statuses[job]
        self._stop.wait(0.1)

    def _history(self, client: Client, tail: str) -> str:
        return f"{client.api}/history/v1.0{client.scope}/experiments/load/runs/{self.run}/artifacts/{tail}"


def _content(path: str) -> bytes:
    return f"{path}\n".encode() * 50


def _pages(client: Client, url: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    while url:
        answer = client.ask("GET", url)
        if answer.status_code != 200:
            raise AssertionError(f"{url}: {answer.status_code} {answer.text[:300]}")
        value = json.loads(answer.content)
        found += value["value"]
        url = value.get("nextLink") or ""
    return found
