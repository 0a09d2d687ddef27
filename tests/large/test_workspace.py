"""A workspace in Azure keeps the promises of a job service: `nox -s azure`, docs/azure-check.md.

It runs the cases of `tests.contracts.job_service` but those that make a cluster, log azureml-core's tables, or need an
answer to be lost.
"""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import pytest

from aml_train.azure.models import AzureCatalogue
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.spec import Tested
from tests.contracts import job_service
from tests.contracts.guarded import change_tags
from tests.integration.jobs.contract.worker import CLOCK, ensure_compute, ingredients

#: Azure's SDK is imported in this process, with its warnings.
pytestmark = pytest.mark.filterwarnings("default")
WORKSPACE: Final = re.compile(
    r"/subscriptions/([^/]+)/resourceGroups/([^/]+)/providers/[^/]+/workspaces/([^/]+)", re.I
)
IMAGES: Final = tuple(
    f"mcr.microsoft.com/azureml/{name}:latest" for name in ("openmpi4.1.0-ubuntu22.04", "openmpi5.0-ubuntu24.04")
)
"""Small base images of AzureML: they are pulled, and nothing is built."""
NOT_HERE: Final = (
    job_service.tables_are_whole,
    job_service.clusters_are_found_or_made,
    job_service.an_answer_that_is_lost_changes_nothing,
)
CASES: Final = tuple(case for case in job_service.CASES if case not in NOT_HERE)
API: Final = {"api-version": "2024-01-01-preview"}
#: A node has to start first.
SECONDS: Final = 1500.0

MLFLOW: Final = """\
import json, os, sys, time, urllib.parse, urllib.request
def ask(path, body=None):
    address = os.environ["MLFLOW_TRACKING_URI"].replace("azureml://", "https://") + "/api/2.0/mlflow/runs/" + path
    token = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"], "Content-Type": "application/json"}
    data = json.dumps({**body, "run_id": run}).encode() if body else None
    return json.load(urllib.request.urlopen(urllib.request.Request(address, data, token)))
run, word, name, *rest = os.environ["MLFLOW_RUN_ID"], *sys.argv[1:]
if word == "metric":
    value = "NaN" if rest[1] == "nan" else float(rest[1])
    ask("log-metric", {"key": name, "step": int(rest[0]), "value": value, "timestamp": int(time.time() * 1000)})
elif word == "param":
    ask("log-parameter", {"key": name, "value": rest[0]})
else:
    def tags():
        found = ask("get?" + urllib.parse.urlencode({"run_id": run}))
        return [tag["key"] for tag in found["run"]["data"].get("tags", [])]
    while name not in tags():
        time.sleep(2)
"""
"""What a job does by MLflow's own interface: an image needs Python alone."""


def shell(script: Sequence[str]) -> str:
    """Return the shell commands of a script of `tests.contracts.job_service`."""
    return "\n".join(["set -e", *(_shell(line) for line in script)]) if script else ""


def _shell(line: str) -> str:
    word, _, rest = line.partition(" ")
    match word:
        case "say":
            return f"echo {shlex.quote(rest)}"
        case "write":
            path, _, text = rest.partition(" ")
            return _write(shlex.quote(path), text)
        case "output":
            name, path, text = rest.split(" ", 2)
            return _write(f"${{{{outputs.{name}}}}}/{shlex.quote(path)}", text)
        case "exit":
            return f"exit {int(rest)}"
        case "metric" | "param" | "wait":
            return f"python -c {shlex.quote(MLFLOW)} {word} {rest}"
        case _:
            raise ValueError(f"'{word}' is no word of a script")


def _write(path: str, text: str) -> str:
    return f'mkdir -p "$(dirname {path})" && printf %s {shlex.quote(text)} > {path}'


class InWorkspace(job_service.Subject):
    """See `tests.contracts.job_service.Subject`. All jobs carry one tag, by which they are removed."""

    size = ""
    seconds = SECONDS

    def __init__(self, workspace: WorkspaceId, compute: str, images: Sequence[str]) -> None:
        def service(place: WorkspaceId = workspace, environment: Mapping[str, str] = os.environ) -> AzureV2:
            return AzureV2(place, sign_in_to_azure(environment, subscription=place.subscription_id))

        wrong = {
            "AZURE_TENANT_ID": str(uuid.uuid4()),
            "AZURE_CLIENT_ID": str(uuid.uuid4()),
            "AZURE_CLIENT_SECRET": "wrong",
        }
        nowhere = WorkspaceId(
            subscription_id=workspace.subscription_id, resource_group=workspace.resource_group, name="nowhere"
        )
        self.compute = compute
        self.tags = {f"contract-{uuid.uuid4().hex[:12]}": "1"}
        self.rest = self.service = service()
        self.catalogue = AzureCatalogue(self.rest, CLOCK)
        self.elsewhere = service(nowhere)
        self.signed_out = service(environment={**os.environ, **wrong, "AML_TRAIN_SIGN_IN": "secret"})
        self._images = [_tested(ImageRef.parse(image), str(number) * 64) for number, image in enumerate(images)]

    def command(self, script: Sequence[str]) -> str:
        return shell(script)

    def image(self, digit: str) -> Tested:
        return self._images[int(digit, 16) % len(self._images)]

    def pause(self, seconds: float) -> None:
        time.sleep(max(seconds, 5.0))

    def runconfig(self, document: Mapping[str, Any]) -> None:
        return None

    def ingredients(self, job: str) -> tuple[str, str, str | None]:
        return ingredients(self.rest, job)

    def losing_answers(self) -> AbstractContextManager[object]:
        return contextlib.nullcontext()

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, lock_lost: bool = False
    ) -> int:
        return change_tags(self.catalogue, name, version, changes, lock_lost=lock_lost)

    def ensure_compute(self, cluster: ClusterConfig) -> list[str]:
        return ensure_compute(self.rest, cluster)

    def remove(self) -> list[str]:
        """Remove the jobs, and the models and code of them; return what is left."""
        (tag,) = self.tags
        jobs = {view.name for view in self.service.tagged_jobs(tag)}
        for job in jobs:
            self.service.cancel(job)
        addresses = {self.rest.arm(f"/jobs/{quote(job)}") for job in jobs}
        for job in jobs:
            code, _, _ = self.ingredients(job)
            addresses |= {f"{self.rest.cloud.arm}{code}"} if code else set()
        for name in self.catalogue.names():
            if any(model.tags.get(Tag.JOB) in jobs for model in self.service.models(name)):
                addresses.add(self.rest.arm(f"/models/{quote(name)}"))
        return [address for address in sorted(addresses) if not self._removed(address)]

    def _removed(self, address: str) -> bool:
        deadline = time.monotonic() + 300.0  # a job that is being cancelled cannot be removed yet
        while not (done := self.rest.once("DELETE", address, f"Removing {address}", params=API)).ok:
            if done.status_code == 404:
                return True
            if time.monotonic() > deadline:
                return False
            self.pause(5.0)
        return True


def _tested(reference: ImageRef, address: str) -> Tested:
    registry = RegistryLocation(
        push_name=reference.registry, job_name=reference.registry, url=f"https://{reference.registry}"
    )
    digest = reference.digest
    if digest is None:
        digest = registry.client().head_manifest(reference.repository, reference.tag or "latest")
        assert digest is not None, f"there is no image {reference}"
    named = ImageRef(registry=reference.registry, repository=reference.repository, digest=digest)
    return job_service.tested(named, digest, address=address)


@pytest.fixture(scope="module")
def subject(request: pytest.FixtureRequest) -> Iterator[InWorkspace]:
    given = request.config.getoption
    found = WORKSPACE.fullmatch(given("--workspace") or "")
    if found is None or not given("--compute"):
        pytest.fail("pass --workspace with the id that `az ml workspace show --query id` prints, and --compute NAME")
    subscription, group, name = found.groups()
    place = WorkspaceId(subscription_id=subscription, resource_group=group, name=name)
    made = InWorkspace(place, given("--compute"), given("--image") or IMAGES)
    yield made
    left = made.remove()
    assert not left, "\n".join(["left in the workspace:", *left])


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_contract(case: Callable[..., None], subject: InWorkspace, tmp_path: Path) -> None:
    case(subject, tmp_path)
