"""The pipeline of Azure/mlops-v2-gha-demo, by azure-ai-ml and by aml-train. ``nox -s mlops -- FOLDER``.

FOLDER is a checkout. Its environment, of Python 3.7 and conda's packages, is played by an image with newer packages that its
scripts accept.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.e2e.conftest import Local, started
from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator, running

TEMPLATE: Final = Path(os.environ.get("AML_TRAIN_MLOPS", "/nowhere"))
SECONDS: Final = 1200
IMAGE: Final = "aml-train-test-mlops:1"
#: scikit-learn 1.3 refuses ``max_features="auto"``, the default of the template's train.py.
PACKAGES: Final = (
    "azureml-mlflow",
    "mlflow<3",
    "pandas<2.3",
    "numpy<2",
    "scipy<1.14",
    "scikit-learn<1.3",
    "matplotlib",
    "pyarrow",
)
PIPELINE: Final = "mlops/azureml/train/pipeline.yml"
NODES: Final = ("prep_data", "train_model", "evaluate_model", "register_model")

pytestmark = pytest.mark.timeout(SECONDS)


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The image that plays the template's environment."""
    folder = tmp_path_factory.mktemp("image")
    (folder / "Dockerfile").write_text(
        f"FROM {BASE}\nRUN pip install --no-cache-dir {' '.join(map(shlex.quote, PACKAGES))}\n"
    )
    command = ["docker", "build", "--quiet", "--tag", IMAGE, str(folder)]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, timeout=SECONDS)
    return IMAGE


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the checkout."""
    assert TEMPLATE.is_dir(), "nox -s mlops -- FOLDER: a checkout of Azure/mlops-v2-gha-demo"
    folder = tmp_path_factory.mktemp("template") / "taxi"
    shutil.copytree(TEMPLATE, folder, ignore=shutil.ignore_patterns(".git"))
    return folder


@pytest.fixture(scope="module")
def emulator(image: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    """A local AzureML for azure-ai-ml."""
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service


@pytest.fixture(scope="module")
def local() -> Iterator[Local]:
    """A local AzureML for aml-train, with its registry."""
    with started("aml-emulator-mlops") as local:
        yield local


def test_the_pipeline_runs_by_azure_ai_ml(emulator: Emulator, image: str, folder: Path) -> None:
    script = "mlops_steps.py"
    emulator.client("prepare", script=script, folder=str(folder), pipeline=PIPELINE, image=image)
    seen = emulator.client("run", script=script, seconds=SECONDS, folder=str(folder), pipeline=PIPELINE)
    labels = [name.replace("_", "-") for name in NODES]
    assert seen == {"status": "Completed", "nodes": dict.fromkeys(labels, "Completed"), "models": ["1"]}


def test_init_writes_a_configuration_that_runs(local: Local, image: str, folder: Path) -> None:
    command = [sys.executable, "-m", "aml_train", "init", "-C", str(folder)]
    written = subprocess.run(command, env=dict(local.environment), capture_output=True, text=True, check=False)
    assert written.returncode == 0, written.stderr
    config = (folder / "aml-train.yml").read_text()
    assert f"job: {PIPELINE}" in config
    assert "nodes: all" in config
    assert "evaluate_model/test r2" in config
    local.command("data", "upload", str(folder / "data/taxi-data.csv"), "--name", "taxi-data")
    # The template's own environment needs conda's channels: the same configuration, in the image that plays it.
    changes = (
        f"image={{base: '{image}', pull: missing, nodes: all}}",
        "gate={'evaluate_model/test r2': ['>= 0.5']}",
        "model={name: taxi, node: train_model, output: model_output, type: mlflow_model}",
    )
    ended = local.run(folder, *[word for change in changes for word in ("--set", change)])
    assert ended.code == 0, ended.output
    assert {event["node"]: event["status"] for event in ended.of("node-changed")} == dict.fromkeys(NODES, "Completed")
    assert ended.only("model-registered")["model"] == "taxi"
