"""The whole command, as a user runs it, against a local AzureML of the tests' own."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.docker import buildkit_cli
from aml_train.local.settings import IMAGE, EmulatorSettings
from scripts.release.checks import ACTION_IMAGE
from tests.e2e.azure import Azure, address_of, bridge
from tests.e2e.hosted_runner import HostedRunner
from tests.support.oidc_stand_in import Provider, serving
from tests.support.ports import free_port
from tests.support.scheduling import one_at_a_time

ROOT = Path(__file__).parents[2]
#: Which local AzureML is meant.
EMULATOR = (
    "AML_TRAIN_EMULATOR_NAME",
    "AML_TRAIN_EMULATOR_PORT",
    "AML_TRAIN_EMULATOR_REGISTRY_PORT",
    "AML_TRAIN_EMULATOR_IMAGE",
)
TIMEOUT = 900.0


@dataclass(frozen=True)
class Ended:
    """How one `aml-train run` ended."""

    code: int
    output: str
    events: list[dict[str, Any]]

    def of(self, name: str) -> list[dict[str, Any]]:
        """Return the events of one name."""
        return [event for event in self.events if event["event"] == name]

    def only(self, name: str) -> dict[str, Any]:
        """Return the one event of a name."""
        (event,) = self.of(name)
        return event


@dataclass(frozen=True)
class Local:
    """A local AzureML, and the command that uses it, run by *python*."""

    environment: Mapping[str, str]
    python: str = sys.executable

    @property
    def which(self) -> dict[str, str]:
        """The variables by which others find it."""
        return {name: self.environment[name] for name in EMULATOR}

    def start(self, project: Path, *args: str) -> subprocess.Popen[str]:
        """Start `aml-train run` in *project*, its events recorded beside it."""
        events = project.with_suffix(".events")
        events.unlink(missing_ok=True)
        return subprocess.Popen(
            [self.python, "-m", "aml_train", "run", "-C", str(project), "--events", str(events), *args],
            env=dict(self.environment),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def finish(self, process: subprocess.Popen[str], project: Path) -> Ended:
        """Wait for the end of what :meth:`start` began."""
        output, _ = process.communicate(timeout=TIMEOUT)
        events = project.with_suffix(".events")
        lines = events.read_text().splitlines() if events.exists() else []
        return Ended(process.returncode, output, [json.loads(line) for line in lines])

    def run(self, project: Path, *args: str) -> Ended:
        """Run `aml-train run` in *project* to its end."""
        return self.finish(self.start(project, *args), project)

    def command(self, *args: str) -> str:
        """Run another `aml-train` command that must succeed; return what it prints."""
        done = subprocess.run(
            [sys.executable, "-m", "aml_train", *args],
            env=dict(self.environment),
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@contextlib.contextmanager
def started(name: str, **more: str) -> Iterator[Local]:
    """Give a local AzureML whose container's name begins with *name*; *more* are variables. Nothing of it is left."""
    environment = {
        "AML_TRAIN_EMULATOR_IMAGE": IMAGE,
        **os.environ,
        **more,
        "AML_TRAIN_EMULATOR_NAME": f"{name}-{secrets.token_hex(3)}",
        "AML_TRAIN_EMULATOR_PORT": str(free_port()),
        "AML_TRAIN_EMULATOR_REGISTRY_PORT": str(free_port()),
    }
    local = Local(environment)
    local.command("emulator", "start")
    try:
        yield local
    finally:
        local.command("emulator", "reset", "--yes")


@pytest.fixture(scope="session")
def local() -> Iterator[Local]:
    with started("aml-emulator-e2e") as local:
        yield local


@pytest.fixture(scope="session")
def action_image() -> str:
    """The action, built as the runner and act build it: by the classic builder where there is one. Its id.

    A release's tests name the image that was built for it.
    """
    if ACTION_IMAGE in os.environ:
        return os.environ[ACTION_IMAGE]
    cli = buildkit_cli(os.environ)
    environment = {**cli.environ, "DOCKER_BUILDKIT": "0"} if not cli.buildx else dict(cli.environ)
    argv = [cli.path, "build", "--quiet", "--tag", "aml-train-action:e2e", str(ROOT)]
    with one_at_a_time("action-image"):
        done = subprocess.run(argv, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip()


@pytest.fixture
def runner(action_image: str, local: Local, tmp_path: Path) -> HostedRunner:
    """A hosted runner whose steps find the tests' own local AzureML."""
    return HostedRunner(action_image, tmp_path, local.which)


@pytest.fixture(scope="session")
def azure(local: Local) -> Azure:
    """The local AzureML in Azure's place."""
    return Azure(local)


@pytest.fixture
def github(azure: Azure) -> Iterator[Provider]:
    """GitHub's OIDC provider, whose tokens for the main branch Azure trusts."""
    with serving(Provider(), bridge()) as provider:
        azure.trust(provider)
        yield provider
    azure.admin("DELETE", "federated-credentials")


@pytest.fixture
def azure_runner(action_image: str, azure: Azure, github: Provider, tmp_path: Path) -> HostedRunner:
    """A hosted runner whose job may have OIDC tokens, and whose way to Azure leads to the local AzureML."""
    settings = EmulatorSettings.from_environment(azure.local.environment)
    made = HostedRunner(action_image, tmp_path, github.environment(), inputs=azure.inputs(), network=settings.network)
    made.home.mkdir(parents=True)
    proxy = f"http://{address_of(settings.name, settings.network)}:7380"
    made.environment |= azure.variables(made.home / "ca-bundle.pem", "/github/home/ca-bundle.pem", host=proxy)
    return made


@pytest.fixture
def digits(tmp_path: Path) -> Path:
    """A copy of the example, free to be changed, with an experiment of its own: no test attaches to another's job."""
    project = tmp_path / "digits"
    ignored = shutil.ignore_patterns("__pycache__", "mlruns*", "outputs", ".pytest_cache")
    shutil.copytree(ROOT / "examples" / "digits", project, ignore=ignored)
    edit(project / "job.yml", "experiment_name: digits", f"experiment_name: digits-{secrets.token_hex(3)}")
    return project


def line_of(file: Path, text: str) -> int:
    """Return the number of the one line of *file* that holds *text*."""
    (number,) = [number for number, line in enumerate(file.read_text().splitlines(), 1) if text in line]
    return number


def edit(file: Path, old: str, new: str) -> None:
    """Replace the one place of *old* in *file*."""
    text = file.read_text()
    assert text.count(old) == 1, f"{old!r} stands {text.count(old)} times in {file.name}"
    file.write_text(text.replace(old, new))
