"""MLflow's clients of both major versions with azureml-mlflow against the local AzureML: registry, search, logging."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

import pytest

from tests.support.emulator_process import ROOT, Emulator
from tests.support.scheduling import one_at_a_time

MAJORS: Final = ("2", "3")
INSTALL_SECONDS: Final = 1200
"""For a slow package index. Only what hangs takes so long."""


def python_of_mlflow(major: str) -> str:
    """Return the Python of an environment with MLflow of that major version.

    ``AML_TRAIN_CLIENT_MLFLOW_2`` and ``…_3`` name one that is there. Otherwise it is made in .aml-train, and again when its lock
    file has changed.
    """
    given = os.environ.get(f"AML_TRAIN_CLIENT_MLFLOW_{major}")
    if given:
        return given
    folder, lock = ROOT / ".aml-train" / f"client-mlflow-{major}", ROOT / "requirements" / f"mlflow-{major}.txt"
    python, stamp = folder / "bin" / "python", folder / "source"
    wanted = sha256(lock.read_bytes()).hexdigest()
    with one_at_a_time(f"client-mlflow-{major}"):
        if not stamp.exists() or stamp.read_text() != wanted:
            _make(folder, python, lock)
            stamp.write_text(wanted)
    return str(python)


def _make(folder: Path, python: Path, lock: Path) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True, timeout=INSTALL_SECONDS)
    install = [str(python), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(lock)]
    subprocess.run(install, check=True, timeout=INSTALL_SECONDS)


pytestmark = pytest.mark.full


def step(instant: Emulator, major: str, name: str) -> dict[str, Any]:
    info = instant.info
    scope = (
        f"/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
        f"/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}"
    )
    seen = instant.client(
        name,
        script="mlflow_steps.py",
        python=python_of_mlflow(major),
        tracking=f"azureml://{info['api_host']}/mlflow/v1.0{scope}",
        name=f"doubling-{major}",
    )
    assert seen["mlflow"].startswith(f"{major}.")
    return seen


@pytest.mark.parametrize("major", MAJORS)
def test_a_model_is_registered_loaded_and_predicts(instant: Emulator, major: str) -> None:
    seen = step(instant, major, "registry")
    assert seen["versions"] == ["1", "2"]
    addresses = ("/1", "/2", "/latest", "@best", "/Production")
    assert seen["predictions"] == {address: [2.0, 4.0] for address in addresses}
    assert {"MLmodel", "python_model.pkl"} <= set(seen["files"])
    assert seen["found"] == [["2", {"checked": "yes"}, "of this machine"]]
    assert seen["models"] == [[f"doubling-{major}", "a doubling", {"kind": "toy"}]]
    assert seen["left"] == ["2"]


@pytest.mark.parametrize("major", MAJORS)
def test_runs_and_experiments_are_searched(instant: Emulator, major: str) -> None:
    seen = step(instant, major, "search")
    assert seen["up"] == ["low", "high", "nan", "missing"]
    assert seen["down"] == ["high", "low", "nan", "missing"]
    assert seen["stages"] == ["deleted", "active"]
    assert seen["listed"] == ["high", "low"]
    assert seen["experiments"] == [True]


def test_a_logged_model_of_mlflow_3_is_refused_as_by_azureml(instant: Emulator) -> None:
    seen = step(instant, "3", "logged_models")
    assert seen["refused"] == (
        "API request to endpoint /api/2.0/mlflow/logged-models failed with error code 404 != 200. Response body: ''"
    )
