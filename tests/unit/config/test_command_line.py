"""A job from the command line: its words, what it takes from the project, and what is refused."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.job.command_line import CommandLine, quoted
from aml_train.config.load import load_command
from aml_train.config.model import Config
from aml_train.core.errors import InvalidError

JOB = "command: other\nenvironment: azureml:sklearn:1\ncompute: azureml:cpu\nexperiment_name: mine\ninputs: {a: 1}\n"


def load(
    folder: Path, *arguments: str, target: str | None = None, sets: tuple[str, ...] = (), **given: Any
) -> Config:
    command = CommandLine(arguments=arguments or ("true",), **given)
    return load_command(None, command, directory=folder, target=target, sets=sets)


@pytest.mark.parametrize("text", ["${{inputs.x}}", "a ${{ b $[[c]] it's ${{d}}", "$[[x]]", "$${{", "'${{"])
def test_what_azureml_would_replace_is_taken_apart(text: str) -> None:
    command = quoted(["echo", text])
    assert "${{" not in command
    assert "$[[" not in command
    assert shlex.split(command) == ["echo", text]


def test_nothing_but_an_image_is_needed(tmp_path: Path) -> None:
    config = load(tmp_path, "python", "-c", "print(1)", image="python:3.11", tags={"a": "b"}, shm_size="2g")
    assert config.job.document == {
        "command": "python -c 'print(1)'",
        "code": str(tmp_path),
        "environment": {"image": "python:3.11"},
        "display_name": "python -c 'print(1)'",
        "tags": {"a": "b"},
        "resources": {"shm_size": "2g"},
    }
    assert (config.target.name, config.image, config.job.code) == ("local", None, tmp_path)


def test_the_projects_job_lends_its_place(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs/train.yml").write_text(JOB)
    (tmp_path / "aml-train.yml").write_text("job: jobs/train.yml\ngate: {a: '> 1'}\nmodel: {name: m, output: o}\n")
    config = load(tmp_path)
    document = config.job.document
    assert (document["environment"], document["compute"]) == ("azureml:sklearn:1", "azureml:cpu")
    assert (document["experiment_name"], document["command"]) == ("mine", "true")
    assert "inputs" not in document
    assert (config.gate, config.model, config.target.compute) == ((), None, None)
    assert [rule.metric for rule in load(tmp_path, gate=True).gate] == ["a"]
    other = load(tmp_path, compute="azureml:gpu", experiment="yours", environment="azureml:e:2")
    assert other.target.compute == "gpu"
    assert other.job.document["experiment_name"] == "yours"
    assert other.job.document["environment"] == "azureml:e:2"


def test_a_bare_job_lends_its_place_too(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text(JOB)
    assert load(tmp_path).job.document["environment"] == "azureml:sklearn:1"


def test_the_configured_image_is_used_unless_another_is_given(tmp_path: Path) -> None:
    (tmp_path / "aml-train.yml").write_text("image: {base: python}\ntests: {command: pytest}\nsetup: [echo]\n")
    config = load(tmp_path)
    assert config.image is not None
    assert config.tests is not None
    other = load(tmp_path, image="alpine")
    assert (other.image, other.tests) == (None, None)
    assert [item.command for item in other.setup] == ["echo"]


def test_overrides_reach_the_job(tmp_path: Path) -> None:
    config = load(tmp_path, image="x", sets=("job.limits.timeout=60", "watch.on-cancel=detach"))
    assert config.job.document["limits"] == {"timeout": 60}
    assert config.watch.on_cancel == "detach"


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({}, "command line: nothing says where the command runs: give --image IMAGE or --environment NAME"),
        ({"image": "x", "shm_size": "much"}, "command line: `resources.shm_size` must be a size such as `2g`"),
        ({"image": "x", "variables": {"a b": "c"}}, "command line: .*environment_variables"),
        ({"environment": ""}, "command line: `environment` is empty"),
    ],
)
def test_what_cannot_be_is_refused(tmp_path: Path, given: dict[str, Any], what: str) -> None:
    with pytest.raises(InvalidError, match=what):
        load(tmp_path, **given)


def test_an_argument_that_is_no_text_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match=r"command line: the argument `a.` is not UTF-8"):
        load(tmp_path, "a\udcff", image="x")
