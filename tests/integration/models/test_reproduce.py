"""Trainings repeated for real: in the same workspace, in another one by a recipe, and with planted differences."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.image.push import push_image
from aml_train.image.registry.client import Registry
from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator

if TYPE_CHECKING:
    from docker import DockerClient

SECONDS = 300
PLACE = "octo/points"
TRAIN = """\
import hashlib, os, pathlib, random, sys

data, epochs, seed = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
generator = random.Random(seed)
weights = [generator.random() for _ in range(epochs)]
content = b"".join(path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file())
given = f"{os.environ['MODE']} {os.environ['OMP_NUM_THREADS']}".encode()
folder = pathlib.Path("outputs/model")
folder.mkdir(parents=True)
(folder / "weights.txt").write_text(f"{weights}\\n{hashlib.sha256(content).hexdigest()}\\n")
(folder / "settings.txt").write_bytes(given)
"""


class Workspace:
    """A local AzureML with a project that trains in it."""

    def __init__(self, folder: Path, engine: DockerClient) -> None:
        self.folder = folder
        for name in ("emulator", "src", "data"):
            (folder / name).mkdir()
        self.emulator = Emulator(folder / "emulator")
        self.emulator.start()
        self.base = f"localhost:{self.emulator.registry_port}/base"
        engine.images.get(BASE).tag(self.base, "1")
        push_image(engine, self.base, "1", auth=None, listener=lambda _event: None)
        (folder / "src" / "train.py").write_text(TRAIN)
        (folder / "data" / "points.csv").write_text("1,2\n3,4\n")
        info = self.emulator.info
        (folder / "aml-train.yml").write_text(
            f"""\
job:
  command: python train.py ${{{{inputs.data}}}} ${{{{inputs.epochs}}}} ${{{{inputs.seed}}}}
  code: src
  compute: azureml:local-cluster
  environment_variables: {{MODE: plain, OMP_NUM_THREADS: "2"}}
  inputs:
    data: {{type: uri_folder, path: azureml:points:1}}
    epochs: 3
    seed: 1
image: {{base: "{self.base}:1", repository: {PLACE}, azureml-mlflow: false, tags: []}}
model: {{name: points, path: outputs/model}}
target: azure
targets:
  azure:
    subscription-id: {info["subscription_id"]}
    resource-group: {info["resource_group"]}
    workspace: {info["workspace"]}
    push-registry: localhost:{self.emulator.registry_port}
"""
        )

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run aml-train; return what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", "aml_train", *arguments],
            cwd=self.folder,
            env={**self.emulator.environment(), "AML_TRAIN_SIGN_IN": "secret"},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        assert done.returncode == code, f"{done.stdout}\n{done.stderr}\n{self.emulator.log.read_text()[-2000:]}"
        return done.stdout

    def repeat(self, *arguments: str, code: int = 0) -> dict[str, Any]:
        """Return the result of a repetition."""
        found: dict[str, Any] = json.loads(self.run("reproduce", *arguments, "--json", code=code))
        return found

    def registry(self) -> Registry:
        return Registry(f"http://localhost:{self.emulator.registry_port}", same_machine=True)

    def end(self, engine: DockerClient) -> None:
        self.emulator.admin("POST", "reset?force=1")
        self.emulator.stop()
        engine.images.remove(f"{self.base}:1", noprune=True)


@pytest.fixture(scope="module")
def one(tmp_path_factory: pytest.TempPathFactory, engine: DockerClient) -> Iterator[Workspace]:
    """A workspace with a model."""
    workspace = Workspace(tmp_path_factory.mktemp("one"), engine)
    upload = "azureml://datastores/workspaceblobstore/paths/points/"
    workspace.run("data", "upload", "data/", upload, "--name", "points", "--version", "1")
    workspace.run("run", "--quiet")
    yield workspace
    workspace.end(engine)


@pytest.fixture(scope="module")
def recipe(one: Workspace) -> Path:
    one.run("reproduce", "points", "--export", "recipe")
    return one.folder / "recipe"


@pytest.fixture(scope="module")
def two(tmp_path_factory: pytest.TempPathFactory, engine: DockerClient) -> Iterator[Workspace]:
    """Another workspace, which has nothing."""
    workspace = Workspace(tmp_path_factory.mktemp("two"), engine)
    yield workspace
    workspace.end(engine)


def copy_image(recipe: Path, source: Workspace, target: Workspace) -> None:
    """Copy the recipe's image by its digest from one registry to the other."""
    digest = json.loads((recipe / "training.json").read_text())["image"].partition("@")[2]
    with source.registry() as one, target.registry() as other:
        manifest = one.get_manifest(PLACE, digest)
        assert manifest is not None
        for blob in manifest.blobs:
            other.upload_blob(PLACE, b"".join(one.stream_blob(PLACE, blob)))
        assert other.put_manifest(PLACE, "copied", manifest.content, manifest.media_type) == digest


def planted(recipe: Path, to: Path, *changes: tuple[str, Any]) -> Path:
    """Copy a recipe, and change members of its job."""
    shutil.copytree(recipe, to)
    document = json.loads((to / "training.json").read_text())
    for path, value in changes:
        place = document["job"]
        *above, last = path.split("/")
        for key in above:
            place = place[key]
        assert str(place[last]) != str(value)
        place[last] = value
    (to / "training.json").write_text(json.dumps(document))
    return to


@pytest.mark.full
def test_repeated_in_its_workspace(one: Workspace) -> None:
    assert "points:1" in one.run("reproduce", "points", "--plan")
    found = one.repeat("points")
    assert (found["state"], found["files"], found["causes"]) == ("identical", [], [])


@pytest.mark.full
def test_repeated_in_another_workspace_and_with_planted_differences(
    one: Workspace, recipe: Path, two: Workspace, tmp_path: Path
) -> None:
    lacks = json.loads(two.run("reproduce", "--from", str(recipe), "--plan", "--json", code=6))["missing"]
    assert [part.partition(" ")[0] for part in lacks] == ["image", "data"]
    copy_image(recipe, one, two)
    upload = "azureml://datastores/workspaceblobstore/paths/copied/"
    one.run("data", "download", "azureml:points:1", str(two.folder / "received") + "/")
    two.run("data", "upload", "received/", upload, "--name", "points", "--version", "1")
    assert "can be trained here" in two.run("reproduce", "--from", str(recipe), "--plan")
    assert two.repeat("--from", str(recipe))["state"] == "identical"

    plants: dict[str, list[tuple[str, Any]]] = {
        "parameter epochs was 3, and is 4": [("inputs/epochs", "4")],
        "parameter seed was 1, and is 2": [("inputs/seed", "2")],
        "variable MODE was plain, and is other": [("environment_variables/MODE", "other")],
        "variable OMP_NUM_THREADS was 2, and is 3": [("environment_variables/OMP_NUM_THREADS", "3")],
    }
    kinds = []
    for number, (text, changes) in enumerate(plants.items()):
        found = two.repeat("--from", str(planted(recipe, tmp_path / f"{number}", *changes)), code=6)
        assert [cause["text"] for cause in found["causes"]] == [text]
        kinds.append(found["causes"][0]["kind"])
    assert kinds == ["parameter", "seed", "variable", "threads"]

    changed = planted(recipe, tmp_path / "code")
    (changed / "code" / "train.py").write_text(TRAIN.replace("generator.random()", "generator.gauss()"))
    (cause,) = two.repeat("--from", str(changed), code=6)["causes"]
    assert (cause["kind"], cause["text"].startswith("code train.py was ")) == ("code", True)

    (two.folder / "received" / "points.csv").write_text("1,2\n3,5\n")
    two.run("data", "upload", "received/", upload)
    (cause,) = two.repeat("--from", str(recipe), code=6)["causes"]
    assert (cause["kind"], cause["text"].startswith("data data/points.csv was ")) == ("data", True)
