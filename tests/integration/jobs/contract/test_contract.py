"""Both SDKs' adapters keep what the Protocol of jobs promises, over TLS: see `tests.contracts.job_service`."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from aml_train.config.sections.targets import ClusterConfig
from tests.contracts.job_service import CASES, Subject
from tests.integration.jobs.contract.remote import Worker, catalogue_of, service_of
from tests.support.emulator_process import Emulator, python_of_v1

WRITES = (
    ("PUT", "*/jobs/*"),
    ("POST", "*/snapshotrun*"),
    ("PATCH", "*/runs/*"),
    ("PUT", "*/models/*/versions/*"),
)
"""The requests that make jobs, by SDK, that tag them, and that register models."""


class Workers(dict[str, Worker]):
    """The workers by SDK."""

    def __init__(self, emulator: Emulator) -> None:
        super().__init__()
        self._emulator = emulator

    def __missing__(self, sdk: str) -> Worker:
        python, sdks = (sys.executable, ("v2",)) if sdk == "v2" else (python_of_v1(), ("v1", "v2"))
        return self.setdefault(sdk, Worker(self._emulator, python, sdks, self._emulator.folder / f"{sdk}.log"))


class InAzure(Subject):
    """See `tests.contracts.job_service.Subject`."""

    size = "Standard_DS3_v2"
    #: Of which of `WRITES` an answer is lost.
    lost: Sequence[str] = ("PATCH", "PUT", "PUT")

    def __init__(self, worker: Worker, emulator: Emulator) -> None:
        self._worker = worker
        self._emulator = emulator
        self.compute = emulator.info["compute"]
        self.service = service_of(worker, "service")
        self.catalogue = catalogue_of(worker)
        self.elsewhere = service_of(worker, "elsewhere")
        self.signed_out = service_of(worker, "signed_out")

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def runconfig(self, document: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None

    def ingredients(self, job: str) -> tuple[str, str, str | None]:
        found: tuple[str, str, str | None] = self._worker.ask("service", "ingredients", job)
        return found

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, lock_lost: bool = False
    ) -> int:
        return int(self._worker.ask("service", "change_tags", name, version, changes, lock_lost=lock_lost))

    @contextlib.contextmanager
    def losing_answers(self) -> Iterator[None]:
        for method, path in WRITES:
            rule = {"kind": "reset", "after": "1", "count": "1", "method": method, "path": path}
            self._emulator.admin("POST", f"faults?{urlencode(rule)}").raise_for_status()
        yield
        listed = self._emulator.admin("GET", "faults").json()["faults"]
        self._emulator.admin("DELETE", "faults").raise_for_status()
        lost = sorted(rule["method"] for rule in listed if rule["injected"])
        assert tuple(lost) == self.lost, listed

    def ensure_compute(self, cluster: ClusterConfig) -> list[str]:
        return list(self._worker.ask("service", "ensure_compute", cluster))


class BySdkV1(InAzure):
    """The jobs are run configurations, which azureml-core submits."""

    lost = ("PATCH", "POST", "PUT")

    def runconfig(self, document: Mapping[str, Any]) -> Mapping[str, Any]:
        values: dict[str, Any] = {
            "command": document["command"],
            "target": document["compute"],
            "environment": {"environmentVariables": dict(document["environment_variables"])},
        }
        if "outputs" in document:
            values["outputData"] = {name: {} for name in document["outputs"]}
        return values


@pytest.fixture(scope="module")
def workers(instant: Emulator) -> Iterator[Mapping[str, Worker]]:
    """A process for each SDK, started at its first use: azureml-core has a separate Python."""
    started = Workers(instant)
    yield started
    for worker in started.values():
        worker.close()


@pytest.fixture(scope="module", params=["v2", pytest.param("v1", marks=pytest.mark.full)])
def subject(request: pytest.FixtureRequest, instant: Emulator, workers: Mapping[str, Worker]) -> Subject:
    return (BySdkV1 if request.param == "v1" else InAzure)(workers[request.param], instant)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[[Subject, Path], None], subject: Subject, tmp_path: Path) -> None:
    case(subject, tmp_path)
