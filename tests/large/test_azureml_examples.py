"""Command jobs of Azure/azureml-examples, unchanged, by aml-train. ``nox -s azureml_examples -- FOLDER``.

FOLDER is a checkout. Its images are played by one image with the packages of AzureML's curated environments for scikit-learn and LightGBM,
its public data by generated rows.
"""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError
from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator, running

if TYPE_CHECKING:
    from docker import DockerClient

EXAMPLES: Final = Path(os.environ.get("AML_TRAIN_AZUREML_EXAMPLES", "/nowhere"))
SECONDS: Final = 900
IMAGE: Final = "aml-train-test-examples:1"
#: pytorch/iris saves its model as MLflow did before it asked for an example of the input.
PACKAGES: Final = (
    "azureml-mlflow",
    "mlflow<3.5",
    "pandas",
    "scipy",
    "scikit-learn",
    "matplotlib",
    "lightgbm",
    "adlfs",
)
#: From PyTorch's index of builds for processors, or pip's own sources.
TORCH: Final = ("torch==2.13.0+cpu", "torchvision")
TORCH_INDEX: Final = ("--retries=0", "--extra-index-url=https://download.pytorch.org/whl/cpu")
#: Images that jobs name, which are played where Docker Hub cannot be reached.
PLAYED: Final = ("python:latest", "python:3.11.6")
PUBLIC: Final = "https://azuremlexamples.blob.core.windows.net/datasets"
TITANIC: Final = "https://dprepdata.blob.core.windows.net/demo"
DATASTORE: Final = "azureml://datastores/workspaceblobstore/paths/example-data"
CLUSTERS: Final = ("cpu-cluster", "gpu-cluster")
#: Jobs that cannot run here; patterns of their paths, each with what is missing.
ELSEWHERE: Final = {
    "best-practices/.*": "GPUs",
    "cli/jobs/(deepspeed|nebulaml)/.*": "GPUs",
    ".*/(tensorflow|cifar-distributed|word-language-model)/.*": "GPUs",
    ".*/(r|julia|java|spark|dask)/.*": "an image of another registry, with its language",
    ".*/scikit-learn/iris-notebook/job.yml": "Python 3.8 in an image of Docker Hub, which its pinned packages need",
    ".*/scikit-learn/iris/job-docker-context.yml": "Python 3.8 in an image of Docker Hub, which its pinned packages need",
    ".*/hello-interactive.yml": "a person who works in VS Code for ten minutes, in an image with TensorFlow for GPUs",
    ".*/hello-iris-literal.yml": "the internet: the script itself reads an address",
}
_SCHEMA: Final = "commandJob.schema.json"


def jobs() -> list[str]:
    """Return the paths of the checkout's command jobs that can run here."""
    files = (path for pattern in ("*.yml", "*.yaml") for path in EXAMPLES.rglob(pattern))
    found = (str(path.relative_to(EXAMPLES)) for path in files if _SCHEMA in path.read_text(errors="replace"))
    return sorted(path for path in found if not any(re.fullmatch(pattern, path) for pattern in ELSEWHERE))


JOBS: Final = jobs()


@pytest.fixture(scope="module")
def image(engine: DockerClient, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The image that plays those of the examples."""
    folder = tmp_path_factory.mktemp("image")
    wheels = ("--no-deps", "--only-binary=:all:", "--python-version=3.11", "--dest", str(folder / "wheels"))
    command = [sys.executable, "-m", "pip", "download", "--quiet", *wheels, *TORCH_INDEX, *TORCH]
    subprocess.run(command, check=True, timeout=SECONDS)
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nCOPY wheels /wheels\n"
        "RUN apt-get update && apt-get install -y --no-install-recommends libgomp1\n"
        f"RUN pip install --no-cache-dir --find-links=/wheels {' '.join(map(shlex.quote, (*PACKAGES, *TORCH)))}\n"
    )
    command = ["docker", "build", "--quiet", "--tag", IMAGE, str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    present = {tag for found in engine.images.list() for tag in found.tags}
    tagged = [name for name in PLAYED if name not in present]
    for name in tagged:
        engine.images.get(IMAGE).tag(*name.split(":"))
    yield IMAGE
    for name in tagged:
        engine.images.remove(name, noprune=True)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout's jobs and assets."""
    assert EXAMPLES.is_dir(), "nox -s azureml_examples -- FOLDER: a checkout of Azure/azureml-examples"
    folder = tmp_path_factory.mktemp("examples")
    for name in ("jobs", "assets"):
        shutil.copytree(EXAMPLES / "cli" / name, folder / "cli" / name)
    return folder


@pytest.fixture(scope="module")
def emulator(image: str, folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    names = ",".join(f"{pattern}={image}" for pattern in ("AzureML-*", "sklearn-*", "tensorflow-*", "acpt-*"))
    with running(
        Emulator(tmp_path_factory.mktemp("emulator"), environment={"AML_EMULATOR_ENVIRONMENTS": names})
    ) as service:
        info = service.info
        settings = {
            "subscription_id": info["subscription_id"],
            "resource_group": info["resource_group"],
            "workspace_name": info["workspace"],
        }
        (folder / "config.json").write_text(json.dumps(settings))
        fill(service, folder)
        yield service


def fill(emulator: Emulator, folder: Path) -> None:
    """Give the workspace the data and clusters that the examples' own set-up creates."""
    data = folder / "public"
    data.mkdir()
    flowers = [
        f"{5 + row % 7 / 10 + kind},{3 + row % 5 / 10},{1.5 + kind * 2},{0.2 + kind},{name}"
        for kind, name in enumerate(("setosa", "versicolor", "virginica"))
        for row in range(50)
    ]
    names = "sepal_length,sepal_width,petal_length,petal_width,species"
    (data / "iris.csv").write_text("\n".join([names, *flowers]) + "\n")
    columns = ("age", "sex", "bmi", "bp", "s1", "s2", "s3", "s4", "s5", "s6", "target")
    lines = [",".join(str(row * number % 101 / 100) for number in range(3, 14)) for row in range(400)]
    (data / "diabetes.csv").write_text("\n".join([",".join(columns), *lines]) + "\n")
    (data / "Titanic.csv").write_text("PassengerId,Survived\n1,0\n2,1\n")
    made = run(emulator, folder, "aml_train", "data", "upload", "--target", "azure", str(data), DATASTORE)
    assert made.returncode == 0, made.stderr
    emulator.admin("POST", f"data?address={TITANIC}&uri={DATASTORE}/").raise_for_status()
    emulator.admin("POST", f"data?address={PUBLIC}&uri={DATASTORE}/").raise_for_status()
    emulator.client("fill", script="examples_steps.py", folder=str(folder), clusters=" ".join(CLUSTERS))


def run(emulator: Emulator, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a module of this Python as a user of the local AzureML."""
    return subprocess.run(
        [sys.executable, "-m", *arguments],
        cwd=folder,
        env={**emulator.environment(), "AML_TRAIN_SIGN_IN": "secret"},
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )


def test_enough_jobs_count() -> None:
    assert len(JOBS) >= 22, JOBS


@pytest.mark.parametrize("job", JOBS)
def test_by_aml_train(emulator: Emulator, folder: Path, job: str) -> None:
    path = folder / job
    ended = run(emulator, path.parent, "aml_train", "run", "--config", path.name, "--target", "azure")
    assert ended.returncode == 0, ended.stderr


#: Texts of YAML files with nodes that aml-train does not know, and of components.
_OTHER_GRAPHS: Final = re.compile(
    r"type: (?:parallel|spark|automl|import|data_transfer)|data_transfer|[cC]omponent\.schema\.json"
)


def test_every_graph_of_known_nodes_is_valid() -> None:
    found, wrong = 0, []
    for path in sorted((EXAMPLES / "cli/jobs").rglob("*.yml")):
        text = path.read_text(errors="replace")
        if _OTHER_GRAPHS.search(text) or not re.search(r"(?:pipeline|sweep)Job\.schema\.json|type: pipeline", text):
            continue
        found += 1
        try:
            load_config(None, directory=path.parent, job=Path(path.name))
        except InvalidError as error:
            wrong.append(f"{path.relative_to(EXAMPLES)}: {error}")
    assert found >= 40
    assert not wrong, "\n".join(wrong)
