"""Pipelines in parallel: submit, follow, read metrics, register.

``python -m benchmarks.soak.pipelines``, with its work as JSON on stdin; the results are JSON on stdout.

Submissions and registrations are the requests of azure-ai-ml without azure-ai-ml, which would be most of the load. All else is the
product's own code. Images are not built: this is a load on the services.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final, cast

from aml_train.azure.http import HttpWay, WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import AmlTrainError
from aml_train.core.events import Event, LogLines
from aml_train.core.tags import TAG_JOB
from aml_train.jobs.pace import Limits
from aml_train.jobs.workspace import Workspace
from aml_train.local.target import LOCAL_PACE
from tests.support.emulator_client import Client, LostError
from tests.support.log_follower import Token
from tests.support.watching import watch

_MOST_ERRORS: Final = 20
_READS: Final = 6
#: Versions of each model that stay.
_VERSIONS: Final = 10


class Pipelines:
    """All pipelines, and what became of them.

    Args:
        given: ``info`` and ``environment`` of the emulator, ``pipelines`` (how many at once), ``seconds``, ``job`` (its body), ``bytes`` (of
            its log), ``prefix`` of the names, and ``keep``, whether all versions of models stay.
    """

    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._end = time.monotonic() + float(given["seconds"])
        self._lock = threading.Lock()
        self.done = 0
        self.lost = 0
        self.jobs: list[str] = []
        self.models: list[str] = []
        self.errors: Counter[str] = Counter()

    def run(self) -> None:
        """Run pipelines until the time is over."""
        threads = [
            threading.Thread(target=self._repeat, args=(number,)) for number in range(int(self._given["pipelines"]))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def as_json(self) -> dict[str, Any]:
        """Return what became of them."""
        return {
            "done": self.done,
            "lost": self.lost,
            "errors": dict(self.errors),
            "jobs": self.jobs,
            "models": self.models,
        }

    def _repeat(self, number: int) -> None:
        environment, info = self._given["environment"], self._given["info"]
        client = Client(environment, info)
        way = HttpWay(proxy=environment["HTTPS_PROXY"], ca_bundle=environment["REQUESTS_CA_BUNDLE"])
        workspace = WorkspaceId(
            subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
        )
        service = AzureRest(workspace, SignIn(Token(environment), way="secret"), session=way.session())
        turn = 0
        while time.monotonic() < self._end:
            name = f"{self._given['prefix']}-{number:02}-{turn:05}"
            turn += 1
            try:
                self._one(client, service, name, f"{self._given['prefix']}-model-{number:02}", turn)
            except (LostError, AmlTrainError) as error:
                with self._lock:
                    self.lost += 1
                if not self._given.get("kills"):
                    self._wrong(repr(error))
                client.close()
                client = Client(environment, info)
                time.sleep(0.5)
            except (AssertionError, KeyError, ValueError) as error:
                self._wrong(repr(error))
        client.close()

    def _one(self, client: Client, service: AzureRest, name: str, model: str, version: int) -> None:
        """Run one pipeline to its end."""
        answer = client.ask("PUT", client.arm(f"jobs/{name}"), json={"properties": self._given["job"]})
        _check(answer.status_code in (200, 201), f"submitting: {answer.status_code} {answer.text[:200]}")
        with self._lock:
            self.jobs.append(name)
        heard = 0

        def listener(event: Event) -> None:
            nonlocal heard
            if isinstance(event, LogLines):
                heard += len(event.text) + 1

        view, error = watch(
            cast(Workspace, service), name, clock=SYSTEM_CLOCK, pace=LOCAL_PACE, limits=Limits(), listener=listener
        )
        _check(error is None, f"{name} ended as {view.status.value}: {error}")
        if not self._given.get("kills"):
            _check(heard >= int(self._given["bytes"]), f"of the log of {name}, {heard} bytes were read")
        last: Mapping[str, float] | None = None
        for _ in range(_READS):
            found = service.last_metrics(name)
            if found == last:
                break
            last = found
        _check(bool(last) or not self._given["metrics"], f"{name} has no metrics")
        for metric in last or {}:
            _check(bool(service.metric_history(name, metric)), f"{name} has no history of {metric}")
        properties = {
            "modelUri": f"azureml://jobs/{name}/outputs/artifacts/paths/outputs/model",
            "modelType": "custom_model",
            "tags": {TAG_JOB: name},
        }
        answer = client.ask("PUT", client.arm(f"models/{model}/versions/{version}"), json={"properties": properties})
        _check(answer.status_code in (200, 201), f"registering: {answer.status_code} {answer.text[:200]}")
        with self._lock:
            self.models.append(f"{model}/{version}")
        service.tag(name, {"aml-train.gate": "met"})
        _check(any(one.version == str(version) for one in service.models(model)), f"{model}/{version} is not listed")
        found_job = service.find(name)
        _check(found_job is not None and found_job.tags.get("aml-train.gate") == "met", f"{name} has lost a tag")
        if not self._given["keep"] and version > _VERSIONS:
            self._delete(client, model, version - _VERSIONS)
        with self._lock:
            self.done += 1

    def _delete(self, client: Client, model: str, version: int) -> None:
        answer = client.ask("DELETE", client.arm(f"models/{model}/versions/{version}"))
        with self._lock:
            # One whose pipeline was interrupted was never registered.
            if f"{model}/{version}" in self.models:
                _check(answer.status_code in (200, 202, 204), f"deleting: {answer.status_code} {answer.text[:200]}")
                self.models.remove(f"{model}/{version}")

    def _wrong(self, text: str) -> None:
        with self._lock:
            self.errors[text if text in self.errors or len(self.errors) < _MOST_ERRORS else "others"] += 1


def _check(holds: bool, text: str) -> None:
    if not holds:
        raise AssertionError(text)


def main() -> int:
    """Read the work from stdin, and write the results to stdout."""
    # Elsewhere, clients have other machines: here they must not take the processor from what is measured.
    os.nice(10)
    pipelines = Pipelines(json.load(sys.stdin))
    pipelines.run()
    json.dump(pipelines.as_json(), sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main())
