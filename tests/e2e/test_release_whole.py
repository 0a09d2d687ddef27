"""A whole release, by its commands, into a local registry and index; the released action runs by its digest."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import docker.errors
import pytest
import yaml
from packaging.utils import canonicalize_name

from scripts.act_demo import run_act
from scripts.release.checks import EMULATOR_IMAGE, ISOLATED, install_wheel
from scripts.release.record import Record
from tests.e2e.conftest import ROOT, Local
from tests.e2e.hosted_runner import HostedRunner
from tests.e2e.released import REPOSITORY, VERSION, git, make_repository, serve_index
from tests.support.ports import free_port
from tests.support.registry_process import serve_registry

pytestmark = pytest.mark.full

#: The emulator's image where the package looks for it. No registry within the tests' reach has it.
PUBLISHED = "ghcr.io/octo/train-emulator"
#: Of the tests that the step `test` runs: one of the action, and one of the emulator.
CHOSEN = "(test_a_step_passes_and_its_outputs_can_be_used and local) or test_its_life_and_a_users_script"


@dataclass(frozen=True)
class Released:
    """What the steps have left.

    Attributes:
        repository: the git repository.
        output: the build.
        registry: host and port, as the engine on this machine names it.
        storage: the registry's folder.
        index: the index's address.
    """

    repository: Path
    output: Path
    registry: str
    storage: Path
    index: str

    @property
    def record(self) -> Record:
        return Record.read(self.output)

    @property
    def action(self) -> str:
        """The action's image in the registry."""
        image = self.record.image("action")
        return f"{self.registry}/{image.repository}@{image.digest}"


def step(command: str, *args: str, output: Path) -> str:
    """Run a command of the release as a person does; return what it prints."""
    argv = [sys.executable, "-m", "scripts.release", command, "--output", str(output), *args]
    environment = {**os.environ, "UV_PUBLISH_USERNAME": "test", "UV_PUBLISH_PASSWORD": "test"}
    done = subprocess.run(argv, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-6000:]
    return done.stdout


def build(repository: Path, output: Path) -> str:
    """Build the release; the bases are the engine's, whatever registry is within reach."""
    wanted = ("--repository", REPOSITORY, "--tag", f"release/v{VERSION}", "--bases", "engine")
    return step("build", "--source", str(repository), *wanted, output=output)


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Released]:
    """A release that was built, published, verified and committed."""
    folder = tmp_path_factory.mktemp("release")
    repository, output, storage = make_repository(folder), folder / "release", folder / "registry"
    storage.mkdir()
    build(repository, output)
    with serve_registry(storage) as port, serve_index(folder / "index") as index:
        made = Released(repository, output, f"localhost:{port}", storage, index)
        step("publish", "--registry", made.registry, "--index", index, output=output)
        said = step("verify", "--registry", made.registry, "--index", f"{index}simple", output=output)
        assert said.count("is the build, byte for byte") == 4
        step("commit", "--source", str(repository), "--registry", made.registry, output=output)
        try:
            yield made
        finally:
            remove_images("octo/train", f"{made.registry}/octo/train", PUBLISHED)


def remove_images(*prefixes: str) -> None:
    """Remove the engine's names of images that begin with one of *prefixes*."""
    with contextlib.closing(docker.from_env()) as engine:
        for image in engine.images.list():
            names = [*image.tags, *(image.attrs.get("RepoDigests") or ())]
            for name in names:
                if name.startswith(prefixes):
                    with contextlib.suppress(docker.errors.ImageNotFound):
                        engine.images.remove(name, force=True)


def inside(image: str, *command: str) -> str:
    argv = ["docker", "run", "--rm", f"--entrypoint={command[0]}", image, *command[1:]]
    return subprocess.run(argv, check=True, capture_output=True, text=True).stdout


def test_the_built_artefacts_pass_their_tests(released: Released) -> None:
    said = step("test", "--", "-k", CHOSEN, output=released.output)
    assert "is installed in an empty environment" in said
    assert "2 passed" in said
    assert "The artefacts pass" in said


def test_a_second_build_of_the_commit_gives_the_same_digests(released: Released, tmp_path: Path) -> None:
    build(released.repository, tmp_path / "again")
    assert "the same, byte for byte" in step_compare(released.output, tmp_path / "again")
    assert Record.read(tmp_path / "again") == released.record


def test_the_installed_package_builds_the_emulators_image_if_it_cannot_be_pulled(
    released: Released, tmp_path: Path
) -> None:
    wheel = released.output / released.record.wheel.file
    command = str(install_wheel(ROOT, wheel, tmp_path, VERSION).with_name("aml-train"))
    environment = {name: value for name, value in os.environ.items() if name != EMULATOR_IMAGE}
    environment |= {
        **ISOLATED,
        "AML_TRAIN_EMULATOR_NAME": f"aml-emulator-wheel-{secrets.token_hex(3)}",
        "AML_TRAIN_EMULATOR_PORT": str(free_port()),
        "AML_TRAIN_EMULATOR_REGISTRY_PORT": str(free_port()),
    }

    def run(*args: str) -> str:
        argv = [command, "emulator", *args]
        done = subprocess.run(argv, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout + done.stderr

    try:
        said = run("start")
        assert f"{PUBLISHED}:{VERSION} cannot be pulled" in said
        assert f"Building {PUBLISHED}:{VERSION} from this installation" in said
        assert "running" in run("status")
        assert "Building" not in run("start"), "the image is there"
    finally:
        run("reset", "--yes")


def step_compare(one: Path, other: Path) -> str:
    argv = [sys.executable, "-m", "scripts.release", "compare", str(one), str(other)]
    return subprocess.run(argv, cwd=ROOT, capture_output=True, text=True, check=False).stdout


@pytest.mark.parametrize("name", ["action", "emulator"])
def test_the_list_of_packages_has_those_that_the_image_reports(released: Released, name: str) -> None:
    image = released.record.image(name)
    reference = f"{released.registry}/{image.repository}@{image.digest}"
    listed = json.loads((released.output / image.sbom).read_text())["packages"]
    found = {(canonicalize_name(one["name"]), one.get("versionInfo")) for one in listed}
    apt = inside(reference, "dpkg-query", "--show", "--showformat=${Package} ${Version}\n").splitlines()
    assert len(apt) > 80
    assert {(canonicalize_name(name), version) for name, version in map(str.split, apt)} <= found
    python = f"/opt/aml-{'train' if name == 'action' else 'emulator'}/bin/python"
    script = "import importlib.metadata as m\nfor d in m.distributions(): print(d.name, d.version)"
    pip = inside(reference, python, "-I", "-c", script).splitlines()
    assert len(pip) > 10
    assert {(canonicalize_name(name), version) for name, version in map(str.split, pip)} <= found
    if name == "action":
        assert {"docker-cli", "docker-buildx"} <= {one for one, _ in found}
    else:
        lock = json.loads((ROOT / "runner/aml_emulator/package-lock.json").read_text())["packages"]
        wanted = [(path.rpartition("node_modules/")[2], one) for path, one in lock.items() if not one.get("dev")]
        assert {(canonicalize_name(name), one["version"]) for name, one in wanted if name} <= found


def test_the_released_action_runs_by_its_digest_as_on_a_hosted_runner(
    released: Released, local: Local, digits: Path, tmp_path: Path
) -> None:
    action = yaml.safe_load(git(released.repository, "show", f"v{VERSION}:action.yml"))
    assert action["runs"]["image"] == f"docker://{released.action}"
    subprocess.run(["docker", "pull", "--quiet", released.action], check=True, capture_output=True)
    runner = HostedRunner(released.action, tmp_path / "runner", local.which)
    runner.checkout(digits)
    done = runner.run()
    assert done.code == 0, done.log
    assert done.outputs["status"] == "passed"
    assert f"aml-train/{VERSION}" in inside(
        released.action,
        "/opt/aml-train/bin/python",
        "-I",
        "-c",
        "from aml_train.core.version import *; print(PRODUCT)",
    )


def test_the_released_action_runs_under_act(released: Released, local: Local, digits: Path, tmp_path: Path) -> None:
    folder = tmp_path / "released"
    git(released.repository, "worktree", "add", "-q", "--detach", str(folder), f"v{VERSION}")
    subprocess.run(["docker", "pull", "--quiet", released.action], check=True, capture_output=True)
    done = run_act(digits, local.which, capture=True, action=folder)
    assert done.returncode == 0, done.stdout
    assert "Job succeeded" in done.stdout
    assert released.action in done.stdout, "act uses the image, and builds none"
