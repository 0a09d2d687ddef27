"""Environments of MLflow's clients, one for each major version, as requirements/ locks them."""

from __future__ import annotations

import os
import subprocess
import sys
from hashlib import sha256
from pathlib import Path
from typing import Final

from tests.support.emulator_process import ROOT
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
