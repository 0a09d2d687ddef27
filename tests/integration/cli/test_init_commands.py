"""The commands that `aml-train init` writes, run by this Python as the job and the tests' container would run them."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.config.model import Config
from aml_train.core.files import FileSet

PROJECTS = Path(__file__).parents[2] / "projects"
ENVIRON = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "HOME": "/nonexistent"}


#: The one edit that init asks for: the file, and what is replaced in it by what.
EDITS = {
    "required_argument": ("aml-train.yml", "DATA", "points.csv"),
    "beside": ("train.py", '"model.pkl"', '"outputs/model.pkl"'),
}


def proposed(name: str, folder: Path) -> Config:
    """Return the configuration of a copy of a project, as init writes it, with the edit that init asks for."""
    project = shutil.copytree(PROJECTS / name, folder / name)
    command = [sys.executable, "-m", "aml_train", "init", "-C", str(project)]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stderr
    if name in EDITS:
        file, old, new = EDITS[name]
        assert (old if file == "aml-train.yml" else new.strip('"')) in said
        (project / file).write_text((project / file).read_text().replace(old, new))
    return load_config(None, directory=project)


def run(command: str, folder: Path, variables: Mapping[str, object]) -> str:
    environ = {**ENVIRON, **{name: str(value) for name, value in variables.items()}}
    done = subprocess.run(command, shell=True, cwd=folder, env=environ, capture_output=True, text=True, check=False)  # noqa: S602
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("name", "printed"),
    [
        ("src_layout", "level 2.0"),
        ("flat_script", "3 rows"),
        ("trainer_image", "sum 45"),
        ("beside", "saved"),
        ("required_argument", "points.csv 1"),
    ],
)
def test_the_job_finds_its_modules_and_files_in_the_snapshot(tmp_path: Path, name: str, printed: str) -> None:
    config = proposed(name, tmp_path)
    assert config.job.code is not None
    snapshot = tmp_path / "snapshot"
    FileSet.collect_code(config.job.code).copy_to(snapshot)
    (snapshot / "outputs").mkdir()  # as AzureML makes it
    document = config.job.document
    assert printed in run(str(document["command"]), snapshot, document.get("environment_variables") or {})


def test_the_tests_find_the_package(tmp_path: Path) -> None:
    config = proposed("src_layout", tmp_path)
    assert config.tests is not None
    variables = {name: value.replace("/workspace", str(config.directory)) for name, value in config.tests.env.items()}
    assert "1 passed" in run(config.tests.command, config.directory, variables)
