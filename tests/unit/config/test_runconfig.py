"""Run configurations of the SDK v1 → command jobs.

The cases are in good_runconfigs.txt; bad ones in bad_input.txt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aml_train.config.load import load_config
from aml_train.core.errors import InvalidError

HERE = Path(__file__).parent


def read_cases() -> dict[str, tuple[dict[str, str], Any]]:
    """Read good_runconfigs.txt: name → the files, and the job."""
    cases = {}
    for section in re.split(r"(?m)^=== ", (HERE / "good_runconfigs.txt").read_text(encoding="utf-8"))[1:]:
        head, _, job = section.partition("\n>>>\n")
        name, _, text = head.partition("\n")
        first, *parts = re.split(r"(?m)^@@@ (.+)\n", f"{text}\n")
        files = dict(zip(parts[::2], parts[1::2], strict=True))
        if first.strip():
            files[".azureml/train.runconfig"] = first
        cases[name] = (files, yaml.safe_load(job))
    return cases


CASES = read_cases()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    for name in ("train.py", "src/train.py"):
        (tmp_path / name).write_text("print(1)\n")
    return tmp_path


def write(project: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(text, encoding="utf-8")


@pytest.mark.parametrize("name", CASES)
def test_the_job_that_does_the_same(name: str, project: Path) -> None:
    files, job = CASES[name]
    write(project, files)
    config = load_config(None, directory=project)
    assert dict(config.job.document) == job
    assert config.job.code == config.job.directory


def test_what_azureml_core_saves(project: Path) -> None:
    saved = (HERE / "runconfigs/saved.runconfig").read_text()
    write(project, {".azureml/full.runconfig": saved})
    config = load_config(None, directory=project)
    assert dict(config.job.document) == {
        "command": "python train.py --rate 0.1",
        "code": ".",
        "environment_variables": {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"},
        "compute": "azureml:cpu-cluster",
        "resources": {"shm_size": "2g"},
        "environment": {"image": "python:3.11-slim-bookworm"},
    }
    assert config.directory == project


def test_changes_of_the_command_line_reach_the_job_and_the_run_configuration(project: Path) -> None:
    write(project, {".azureml/a.runconfig": "script: train.py\nenvironment: {docker: {baseImage: x}}\n"})
    sets = ["job.experiment_name=digits", "job.nodeCount=2", "job.max_run_duration_seconds=60", "job.tags.a=b"]
    document = load_config(None, directory=project, sets=sets).job.document
    assert document["experiment_name"] == "digits"
    assert document["tags"] == {"a": "b"}
    assert document["resources"] == {"instance_count": 2}
    assert document["limits"] == {"timeout": 60}


def test_one_is_named_by_a_change_alone(project: Path) -> None:
    write(project, {"conf/a.yml": "script: a.py\nenvironment: {docker: {baseImage: x}}\n", "conf/a.py": ""})
    config = load_config(None, directory=project, sets=['runconfig="conf/a.yml"'])
    assert config.job.file == project / "conf/a.yml"
    assert config.directory == project


def test_several_must_be_told_apart(project: Path) -> None:
    write(project, {".azureml/a.runconfig": "script: train.py\n", "aml_config/b.runconfig": "script: train.py\n"})
    with pytest.raises(
        InvalidError, match=r"there are several run configurations: `\.azureml/a\.runconfig`, `aml_config/b"
    ):
        load_config(None, directory=project)
