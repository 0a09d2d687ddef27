"""Command jobs → run configurations of the SDK v1.

The cases are in v1_of_jobs.txt; those that v1 cannot run in bad_input.txt.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from aml_train.config.job.grammar import snake
from aml_train.config.load import load_config

SAME_IN_BOTH = ("compute", "tags", "experiment_name", "code", "command", "inputs")
"""Keys that a run configuration has not, or under another name."""


def read_cases() -> dict[str, tuple[str, Any]]:
    """Read v1_of_jobs.txt: name → the job, and the run configuration."""
    text = Path(__file__).with_name("v1_of_jobs.txt").read_text(encoding="utf-8")
    cases = {}
    for section in re.split(r"(?m)^=== ", text)[1:]:
        head, _, expected = section.partition("\n>>>\n")
        name, _, job = head.partition("\n")
        cases[name] = (job, yaml.safe_load(expected))
    return cases


CASES = read_cases()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/train.py").write_text("")
    (tmp_path / "conda.yml").write_text("dependencies: [python=3.11]\n")
    (tmp_path / "aml-train.yml").write_text("job: job.yml\nsdk: v1\n")
    return tmp_path


@pytest.mark.parametrize("name", CASES)
def test_the_run_configuration_that_does_the_same(name: str, project: Path) -> None:
    job, expected = CASES[name]
    (project / "job.yml").write_text(job)
    config = load_config(None, directory=project)
    assert config.job.runconfig is not None
    assert config.job.runconfig.values == expected
    assert config.job.runconfig.command == expected["command"]

    # And back again: what we make of that run configuration is the job.
    (project / "back.runconfig").write_text(yaml.safe_dump({**expected, "history": {}}))
    back = load_config(Path("back.runconfig"), directory=project)
    kept = [
        {key: value for key, value in document.items() if key not in SAME_IN_BOTH}
        for document in (config.job.document, back.job.document)
    ]
    normal = [_words(document) for document in kept]
    assert normal[0] == normal[1]


def _words(document: dict[str, Any]) -> dict[str, Any]:
    """Return a job without the freedom that YAML and defaults leave."""
    found = yaml.safe_load(yaml.safe_dump(document))
    resources = found.get("resources") or {}
    if isinstance(resources.get("docker_args"), list):
        resources["docker_args"] = " ".join(resources["docker_args"])
    for part, fold in (("distribution", str.lower), ("identity", snake)):
        if part in found:
            found[part]["type"] = fold(found[part]["type"])
    if (found.get("distribution") or {}).get("type") == "tensorflow":
        count = resources["instance_count"]
        found["distribution"] = {"worker_count": count, "parameter_server_count": 0, **found["distribution"]}
    return dict(found)


def test_an_image_of_ours_replaces_the_environment(project: Path) -> None:
    (project / "job.yml").write_text("command: x\nenvironment: {build: {path: src}}\n")
    (project / "aml-train.yml").write_text("job: job.yml\nsdk: v1\nimage: {base: python}\n")
    config = load_config(None, directory=project)
    assert config.job.runconfig is not None
    assert config.job.runconfig.values == {"command": "x"}


def test_changes_of_the_command_line_are_in_it(project: Path) -> None:
    (project / "job.yml").write_text("command: x ${{inputs.a}}\ninputs: {a: 1}\nenvironment: azureml:mine:3\n")
    config = load_config(None, directory=project, sets=["job.inputs.a=2", "job.limits.timeout=60"])
    assert config.job.runconfig is not None
    assert config.job.runconfig.command == "x 2"
    assert config.job.runconfig.values["maxRunDurationSeconds"] == 60


def test_without_sdk_v1_a_command_job_has_none(project: Path) -> None:
    (project / "job.yml").write_text("command: x\nenvironment: azureml:mine:3\n")
    assert load_config(None, directory=project, sets=["sdk=v2"]).job.runconfig is None
