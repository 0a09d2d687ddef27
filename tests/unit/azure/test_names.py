"""Which workspace is meant, and what a plan knows of it without signing in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.azure.names import azure_names, find_workspace
from aml_train.config.load import load_config
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.errors import InvalidError

SUB = "00000000-0000-0000-0000-00000000000a"
FILE = {"subscription_id": SUB, "resource_group": "group", "workspace_name": "space"}
VARIABLES = {"AZURE_SUBSCRIPTION_ID": "var-sub", "AML_RESOURCE_GROUP": "var-group", "AML_WORKSPACE": "var-space"}


def found(folder: Path, environment: Mapping[str, str] | None = None, **target: Any) -> tuple[str, str, str]:
    where = find_workspace(TargetConfig(name="azure", kind="azure", **target), folder, environment or {})
    return where.subscription_id, where.resource_group, where.name


@pytest.mark.parametrize(
    "place", ["config.json", ".azureml/config.json", "../config.json", "../.azureml/config.json"]
)
def test_config_json_is_found_where_the_sdk_finds_it(place: str, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    file = project / place
    file.parent.mkdir(exist_ok=True)
    file.write_text(json.dumps(FILE))
    assert found(project, VARIABLES) == (SUB, "group", "space")


def test_the_target_comes_first_then_config_json_then_variables(tmp_path: Path) -> None:
    assert found(tmp_path, VARIABLES) == ("var-sub", "var-group", "var-space")
    assert found(tmp_path, VARIABLES, workspace="mine") == ("var-sub", "var-group", "mine")
    (tmp_path / "config.json").write_text(json.dumps(FILE))
    assert found(tmp_path, workspace="SPACE") == (SUB, "group", "SPACE")
    assert found(tmp_path, VARIABLES, workspace="mine") == ("var-sub", "var-group", "mine")
    with pytest.raises(InvalidError, match=r"does not say its subscription-id, resource-group\. .*another workspace"):
        found(tmp_path, workspace="mine")


def test_a_broken_config_json_is_told(tmp_path: Path) -> None:
    (tmp_path / ".azureml").mkdir()
    (tmp_path / ".azureml" / "config.json").write_text('{"workspace_name": 5}')
    with pytest.raises(InvalidError, match=r"is not a workspace's config\.json: it must say subscription_id"):
        found(tmp_path)


def names(folder: Path, target: str, job: str = "{command: x, environment: 'azureml:e:1'}") -> tuple[str, str, str]:
    text = f"job: {job}\ntarget: azure\ntargets: {{azure: {{{target}}}}}\n"
    (folder / "aml-train.yml").write_text(text)
    made = azure_names(load_config(None, directory=folder), VARIABLES)
    return made.scope, made.registry_for_jobs, made.registry_for_engine


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ("run.runconfig", "Neither the target 'azure' nor the job says on which compute"),
        ("{command: x, environment: 'azureml:e:1', compute: local}", "The job's compute is 'local'"),
        ("{command: x, environment: 'azureml:e:1', compute: 'azureml:local'}", "The job's compute is 'local'"),
    ],
)
def test_a_compute_is_needed(job: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "run.runconfig").write_text("script: train.py\nenvironment: {docker: {baseImage: x}}\n")
    (tmp_path / "train.py").write_text("")
    with pytest.raises(InvalidError, match=message):
        names(tmp_path, "", job)


@pytest.mark.parametrize(
    "more", ["compute: cpu", "resources: {instance_type: Standard_DS3_v2}", "compute: serverless", "tags: {}"]
)
def test_a_job_may_bring_its_compute_or_be_serverless(more: str, tmp_path: Path) -> None:
    assert (
        names(tmp_path, "", f"{{command: x, environment: 'azureml:e:1', {more}}}")[0] == "var-sub/var-group/var-space"
    )
