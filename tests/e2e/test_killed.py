"""kill -9 at each stage, under the hosted runner's contract, and the step run again: one job, one model, nothing left over.

A stage that is too short to be hit is held from outside: the job waits for a moment, and where the pipeline talks to the
local AzureML, that is paused, or answers late.
"""

from __future__ import annotations

import contextlib
import re
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.image.leftovers import LABEL_OWNER
from aml_train.local.admin import emulator_info
from aml_train.local.settings import EmulatorSettings
from tests.e2e.conftest import Local, started
from tests.e2e.hosted_runner import HostedRunner, Step
from tests.integration.conftest import BASE, engine
from tests.support.emulator_client import signed_in

if TYPE_CHECKING:
    from docker import DockerClient

__all__ = ["engine"]  # a fixture

pytestmark = pytest.mark.kills

CONFIG = """\
job: job.yml
image:
  base: {base}
  azureml-mlflow: "1.62.0.post6"
  pip: requirements.txt
  env: {{CASE: "{name}"}}
tests:
  command: pytest -q -s tests
gate:
  score: [">= 0.5"]
model:
  name: {name}
  path: outputs/model
  type: custom_model
"""
JOB = """\
experiment_name: {name}
code: src
command: python train.py
environment_variables:
  GIT_PYTHON_REFRESH: quiet
"""
TRAIN = """\
import pathlib, time
print("the job holds", flush=True)
time.sleep({hold})
import mlflow
mlflow.log_metric("score", 0.9)
pathlib.Path("outputs/model").mkdir(parents=True)
pathlib.Path("outputs/model/weights").write_text("w")
"""
SOON = 500.0
#: Seconds, more than :data:`SOON`.
LATE = 600
PAUSE = 0.002


@dataclass(frozen=True)
class Case:
    """A project, the step that runs it, and the local AzureML that it runs on."""

    name: str
    runner: HostedRunner
    local: Local
    engine: DockerClient

    @property
    def emulator(self) -> str:
        return self.local.environment["AML_TRAIN_EMULATOR_NAME"]

    def kill(self, when: Callable[[str], bool], then: Callable[[], None] = lambda: None) -> tuple[str, str]:
        """Start the step, and kill its container with SIGKILL when it has written a line of which *when* is true.

        Args:
            then: is waited for between that line and the kill.

        Returns:
            the id of the container that was killed, and the whole log.
        """
        process = self.runner.start({})
        assert process.stdout is not None
        log: list[str] = []
        for line in process.stdout:
            log.append(line)
            if when(line):
                break
        else:
            pytest.fail("the step ended before it came to that:\n" + "".join(log))
        container = self.engine.containers.get(self.runner.container)
        then()
        container.kill("SIGKILL")
        log.append(process.stdout.read())
        process.stdout.close()
        assert process.wait(timeout=SOON) == 137, "".join(log)
        return str(container.id), "".join(log)

    @contextlib.contextmanager
    def paused(self) -> Iterator[Callable[[], None]]:
        """Give what pauses the local AzureML; it goes on after the block."""
        container = self.engine.containers.get(self.emulator)
        try:
            yield container.pause
        finally:
            container.reload()
            if container.status == "paused":
                container.unpause()

    @contextlib.contextmanager
    def late(self, method: str, path: str, *more: str) -> Iterator[None]:
        """Let the local AzureML's answers to these requests come after this test's patience has ended; *more* are options of ``fault add``."""
        delay = ("delay", "--delay", str(LATE), "--method", method, "--path", path, *more)
        self.local.command("emulator", "fault", "add", *delay)
        try:
            yield
        finally:
            self.local.command("emulator", "fault", "clear")

    def run_again(self, killed: str) -> Step:
        """Run the step again, which must pass, with one job and one model, and with nothing left of *killed*."""
        step = self.runner.run()
        assert step.code == 0, step.log
        assert step.outputs["status"] == "passed"
        self.assert_one_of_each(step.outputs["job-name"])
        assert step.outputs["model-version"] == "1"
        self.assert_nothing_left(killed)
        return step

    def assert_one_of_each(self, job: str) -> None:
        """The workspace has this one job of the project, and one version of its model."""
        workspace = Workspace(self.local)
        assert [found["name"] for found in workspace.list("jobs") if found["name"].startswith(f"{self.name}-")] == [
            job
        ]
        assert job.endswith("-1"), "no other attempt was needed"
        assert [model["name"] for model in workspace.list(f"models/{self.name}/versions")] == ["1"]

    def assert_nothing_left(self, killed: str) -> None:
        api = self.engine.api
        owners = {
            item["Id"]: item["Labels"][LABEL_OWNER]
            for item in api.containers(all=True, filters={"label": LABEL_OWNER})
        }
        assert not [identity for identity, owner in owners.items() if owner.endswith(killed[:12])]
        names = {item["Id"]: item["Names"] for item in api.containers(all=True)}
        assert killed not in names
        assert not [name for name in names.values() if f"/{self.runner.container}" in name]
        tags = [tag for image in api.images() for tag in image["RepoTags"] or ()]
        assert not [tag for tag in tags if killed[:12] in tag or (self.name in tag and "candidate" in tag)]
        instance = Workspace(self.local).info.instance
        of_jobs = {"label": f"org.aml-train.emulator.instance={instance}"}
        deadline = time.monotonic() + SOON  # the local AzureML tidies up after the job has ended
        while left := [*api.networks(filters=of_jobs), *api.containers(all=True, filters=of_jobs)]:
            assert time.monotonic() < deadline, left
            time.sleep(0.1)
        volumes = api.volumes(filters={"label": f"org.aml-train.emulator.name={self.emulator}"})["Volumes"]
        assert [volume["Name"] for volume in volumes] == [f"{self.emulator}-data"]


class Workspace:
    """What the local AzureML has, asked over the service's REST interface."""

    def __init__(self, local: Local) -> None:
        found = emulator_info(EmulatorSettings.from_environment(local.environment))
        assert found is not None
        self.info = found
        authorities = Path(local.environment["TMPDIR"]) / "ca.pem"
        authorities.write_text(found.ca_pem)
        self._session = signed_in(
            {
                "HTTPS_PROXY": f"http://{found.host}:{found.port}",
                "REQUESTS_CA_BUNDLE": str(authorities),
                "AZURE_TENANT_ID": found.tenant_id,
                "AZURE_CLIENT_ID": found.client_id,
                "AZURE_CLIENT_SECRET": found.client_secret,
            }
        )

    def list(self, what: str) -> Sequence[dict[str, Any]]:
        """Return all of a collection of the workspace."""
        found = self.info
        url: str | None = (
            f"https://management.azure.com/subscriptions/{found.subscription_id}/resourceGroups/{found.resource_group}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{found.workspace}/{what}?api-version=2024-10-01"
        )
        items: list[dict[str, Any]] = []
        while url:
            answer = self._session.get(url, timeout=60)
            if answer.status_code == 404:
                break
            answer.raise_for_status()
            items += answer.json()["value"]
            url = answer.json().get("nextLink")
        return items


def write(project: Path, name: str, *, requirements: str = "", job: float = 0) -> None:
    """Write a project whose job holds for so many seconds."""
    files = {
        "aml-train.yml": CONFIG.format(base=BASE, name=name),
        "requirements.txt": f"pytest==9.0.1\n{requirements}",
        "job.yml": JOB.format(name=name),
        "src/train.py": TRAIN.format(hold=job),
        "tests/test_one.py": "def test_one():\n    pass\n",
    }
    for path, text in files.items():
        (project / path).parent.mkdir(parents=True, exist_ok=True)
        (project / path).write_text(text)


@pytest.fixture(scope="session")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Local]:
    """A local AzureML of these tests' own, for they stop and pause it."""
    with started("aml-emulator-killed", TMPDIR=str(tmp_path_factory.mktemp("killed"))) as local:
        yield local


@pytest.fixture
def make(action_image: str, local: Local, engine: DockerClient, tmp_path: Path) -> Callable[..., Case]:
    def prepare(**settings: Any) -> Case:
        """Make a project, and a runner for it."""
        name = f"killed-{secrets.token_hex(4)}"
        write(tmp_path / "project", name, **settings)
        runner = HostedRunner(action_image, tmp_path, local.which)
        runner.checkout(tmp_path / "project")
        return Case(name, runner, local, engine)

    return prepare


def begins(stage: str) -> Callable[[str], bool]:
    return lambda line: line.startswith(f"::group::{stage}: ")


def says(pattern: str) -> Callable[[str], bool]:
    return lambda line: re.search(pattern, line) is not None


def done(log: str) -> list[str]:
    """Return the stages that had ended."""
    return re.findall(r"^✓ (\w+): ", log, re.MULTILINE)


@pytest.mark.full
def test_while_the_image_is_pushed(make: Callable[..., Case]) -> None:
    case = make(requirements=f"# {secrets.token_hex(8)}: no cache has this, so that the build takes a while\n")
    with case.paused() as pause:
        building, pushing = says(r"│ .*\bpackages of the requirements"), begins("push")
        paused = False

        def when(line: str) -> bool:
            nonlocal paused
            if not paused and building(line):
                paused = True
                pause()
            return pushing(line)

        killed, log = case.kill(when, then=lambda: time.sleep(0.3))
    assert "push" not in done(log)
    assert done(log)[:2] == ["target", "image"]
    case.run_again(killed)


@pytest.mark.full
def test_while_the_submission_is_in_flight(make: Callable[..., Case]) -> None:
    """The service has the job, and the run does not know it yet."""
    case = make(job=2)
    workspace = Workspace(case.local)

    def accepted() -> None:
        deadline = time.monotonic() + SOON
        while not [job for job in workspace.list("jobs") if job["name"].startswith(case.name)]:
            assert time.monotonic() < deadline, "nothing is submitted"
            time.sleep(PAUSE)

    # The job is made at once, and the answer that says so is late.
    with case.late("PUT", f"*/jobs/{case.name}*", "--after"):
        killed, log = case.kill(begins("submit"), then=accepted)
    assert "submit" not in done(log)
    step = case.run_again(killed)
    assert "(attached)" in step.log


@pytest.mark.full
def test_with_the_local_azureml_at_once(make: Callable[..., Case]) -> None:
    """As where the machine goes down: the job runs on or has ended when the local AzureML is back."""
    case = make(job=6)
    emulator = case.engine.containers.get(case.emulator)
    killed, log = case.kill(says("│ .*the job holds"), then=lambda: emulator.kill("SIGKILL"))
    assert done(log)[-1] == "submit"
    step = case.run_again(killed)
    assert "Starting the local AzureML" in step.log
    assert "(attached)" in step.log
