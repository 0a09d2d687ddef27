"""A training repeated for real, and compared."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.image.push import push_image
from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator

if TYPE_CHECKING:
    from docker import DockerClient

SECONDS = 300
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
image: {{base: "{self.base}:1", repository: octo/points, azureml-mlflow: false, tags: []}}
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
        found: dict[str, Any] = json.loads(self.run("model", "reproduce", *arguments, "--json", code=code))
        return found

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


@pytest.mark.full
def test_repeated_in_its_workspace(one: Workspace) -> None:
    assert "points:1" in one.run("model", "reproduce", "points", "--plan")
    found = one.repeat("points")
    assert (found["state"], found["files"]) == ("identical", [])
