"""A whole release, by its commands, into a local registry and index; the released action runs by its digest."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import docker
import docker.errors
import pytest
import requests
import yaml
from packaging.utils import canonicalize_name

from scripts.release.__main__ import main
from scripts.release.checks import EMULATOR_IMAGE, ISOLATED, install_wheel
from scripts.release.commands import ReleaseError
from scripts.release.commit import commit_release, push_release
from scripts.release.layout import write_layout
from scripts.release.record import Record
from tests.e2e.conftest import ROOT, Local, edit
from tests.e2e.hosted_runner import HostedRunner
from tests.support.ports import free_port
from tests.support.registry_process import serve_registry
from tests.support.saved_images import layer, write_saved

pytestmark = pytest.mark.full

REPOSITORY = "Octo/Train"
VERSION = "1.0.0"
_PATIENCE = 120.0


def git(folder: Path, *args: str) -> str:
    """Run git in *folder*; return what it prints."""
    identity = ["-c", "user.name=test", "-c", "user.email=test@example.com"]
    command = ["git", "-C", str(folder), *identity, *args]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def make_repository(folder: Path) -> Path:
    """Copy this checkout's files into a repository whose one commit has the version 1.0.0."""
    repository = folder / "repository"
    repository.mkdir()
    listed = git(ROOT, "ls-files", "--cached", "--others", "--exclude-standard", "-z").split("\0")
    for name in listed:
        source, target = ROOT / name, repository / name
        if name and source.is_file():
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(source.read_bytes())
            target.chmod(source.stat().st_mode)
    edit(repository / "runner/aml_train/core/version.py", '__version__ = "0.1.0"', f'__version__ = "{VERSION}"')
    git(repository, "init", "-q", "-b", "main")
    git(repository, "add", ".")
    git(repository, "commit", "-q", "-m", f"Set the version {VERSION}")
    return repository


@contextmanager
def serve_index(folder: Path) -> Iterator[str]:
    """Serve a package index that keeps its files in *folder*; give its address, which takes uploads too."""
    folder.mkdir(parents=True, exist_ok=True)
    port = free_port()
    command = [str(Path(sys.executable).with_name("pypi-server")), "run", "-i", "127.0.0.1", "-p", str(port)]
    with (folder.parent / "index.log").open("ab") as log:
        # Without accounts: it listens on loopback, and its files are the test's own.
        process = subprocess.Popen([*command, "-a", ".", "-P", ".", str(folder)], stdout=log, stderr=log)
    address = f"http://127.0.0.1:{port}/"
    try:
        deadline = time.monotonic() + _PATIENCE
        while not _answers(address):
            assert process.poll() is None, (folder.parent / "index.log").read_text()
            assert time.monotonic() < deadline, "the index does not answer"
            time.sleep(0.05)
        yield address
    finally:
        process.terminate()
        process.wait(_PATIENCE)


def _answers(address: str) -> bool:
    try:
        return requests.get(f"{address}simple/", timeout=10).ok
    except requests.RequestException:
        return False


def flip_byte(file: Path) -> None:
    """Change the last byte of *file*, which belongs to a registry's storage or an index."""
    content = file.read_bytes()
    file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))


#: The emulator's image where the package looks for it. No registry within the tests' reach has it.
PUBLISHED = "ghcr.io/octo/train-emulator"
#: Of the tests that the step `test` runs: one of the action, and one of the emulator.
CHOSEN = "test_a_step_passes_and_its_outputs_can_be_used or test_its_life_and_a_users_script"


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


def test_a_version_that_is_published_is_never_replaced(
    released: Released, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    write_saved(tmp_path / "saved", [layer({"name": "another build"})])
    layout = write_layout(tmp_path / "saved", other / "action.oci.tar", epoch=1, base_layers=(), name="x:1")
    image = replace(released.record.image("action"), digest=layout.digest, config=layout.blobs[0].digest)
    replace(released.record, images=(image,)).write(other)
    assert main(["publish", "--output", str(other), "--registry", released.registry]) == 1
    assert "Release another version" in capsys.readouterr().err
    blob = released.record.image("emulator").config.removeprefix("sha256:")
    stored = released.storage / f"data/docker/registry/v2/blobs/sha256/{blob[:2]}/{blob}/data"
    flip_byte(stored)
    assert main(["verify", "--output", str(released.output), "--registry", released.registry]) == 1
    assert "is damaged" in capsys.readouterr().err
    flip_byte(stored)


def test_the_release_commit_names_image_and_action_and_its_tags_never_move(
    released: Released, tmp_path: Path
) -> None:
    repository, record = released.repository, released.record
    made = commit_release(repository, record, released.registry)
    assert git(repository, "rev-parse", f"v{VERSION}") == git(repository, "rev-parse", "v1") == made.release
    assert git(repository, "rev-parse", "v1~1", "v1~2").split() == [made.action, record.commit]
    for name in ("train", "promote"):
        workflow = yaml.safe_load(git(repository, "show", f"v1:.github/workflows/{name}.yml"))
        uses = [one.get("uses", "") for one in workflow["jobs"][name]["steps"]]
        assert f"{REPOSITORY}@{made.action}" in uses
    assert 'REPOSITORY: Final[str] = "Octo/Train"' in git(repository, "show", "v1:runner/aml_train/core/version.py")
    remote = tmp_path / "remote.git"
    git(tmp_path, "init", "-q", "--bare", str(remote))
    push_release(repository, str(remote), made)
    push_release(repository, str(remote), made)
    with pytest.raises(ReleaseError, match=rf"The tag v{VERSION} names {made.release} already"):
        commit_release(repository, record, "elsewhere.example")
    git(repository, "tag", "--force", f"v{VERSION}", record.commit)
    with pytest.raises(ReleaseError, match="git push --atomic failed"):
        push_release(repository, str(remote), made)
    assert git(remote, "rev-parse", "v1", f"v{VERSION}").split() == [made.release] * 2
    git(repository, "tag", "--force", f"v{VERSION}", made.release)


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
