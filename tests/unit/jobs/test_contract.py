"""The workspace in memory keeps what the Protocol of jobs promises: see `tests.contracts.job_service`."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.errors import ServiceError
from aml_train.testing.memory import MemoryJob, MemoryService, TrainingFailedError
from aml_train.testing.override import MemoryCatalogue
from tests.contracts.guarded import change_tags
from tests.contracts.job_service import CASES, Subject, clusters_are_found_or_made


def perform(job: MemoryJob) -> Iterator[None]:
    """Do what a script of the suite says."""
    for line in str(job.spec.document["command"]).splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "say":
                job.say(rest)
            case "metric":
                name, step, value = rest.split(" ")
                job.log_metric(name, float(value), int(step))
            case "param":
                name, _, value = rest.partition(" ")
                job.log_parameter(name, value)
            case "row":
                table, _, columns = rest.partition(" ")
                job.log_row(table, **json.loads(columns))
            case "write":
                path, _, text = rest.partition(" ")
                job.write(path, text.encode())
            case "output":
                output, path, text = rest.split(" ", 2)
                job.write_output(output, path, text.encode())
            case "wait":
                while rest not in job.tags:
                    yield
            case "exit":
                raise TrainingFailedError(f"Execution failed. The job's command exited with status code {rest}.")
            case _:
                raise ValueError(f"'{word}' is no word of a script")


class InMemory(Subject):
    """See `tests.contracts.job_service.Subject`."""

    compute = "cpu-cluster"
    size = "Standard_DS3_v2"

    def __init__(self) -> None:
        self.service = MemoryService(training=perform)
        self.catalogue = MemoryCatalogue(self.service)
        self.elsewhere = MemoryService(
            fault=ServiceError("There is no workspace 'nowhere'.", hint="Check the target's workspace.")
        )
        self.signed_out = MemoryService(
            fault=ServiceError("Sign-in to Azure failed.", hint="The client's secret is wrong.")
        )

    def pause(self, seconds: float) -> None:
        """Each look lets a job go on: nothing is to be waited for."""

    def runconfig(self, document: Mapping[str, Any]) -> None:
        return None

    def ingredients(self, job: str) -> tuple[str, str, str | None]:
        spec = self.service.work[job].spec
        image = self.catalogue.environment_image(job)
        return spec.code.digest() if spec.code is not None else "", str(image), image

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, lock_lost: bool = False
    ) -> int:
        return change_tags(self.catalogue, name, version, changes, lock_lost=lock_lost)

    def losing_answers(self) -> AbstractContextManager[object]:
        """No answer can be lost here."""
        return contextlib.nullcontext()

    def ensure_compute(self, cluster: ClusterConfig) -> list[str]:
        raise NotImplementedError


#: Targets make clusters, and no jobs in memory need one.
HERE = [case for case in CASES if case is not clusters_are_found_or_made]


@pytest.mark.parametrize("case", HERE, ids=lambda case: case.__name__)
def test_contract(case: Callable[..., None], tmp_path: Path) -> None:
    case(InMemory(), tmp_path)
