"""Command jobs as the service shows them, and their documents in the grammar of the CLI v2."""

from __future__ import annotations

from typing import Any

import pytest

from aml_train.azure.job_documents import command_document
from aml_train.core.errors import InvalidError
from aml_train.pipeline.recipe import portable
from tests.support.plain_answers import answered

PLACE = "/subscriptions/s/resourceGroups/g/providers/Microsoft.MachineLearningServices/workspaces/w"
JOB: dict[str, Any] = {
    "jobType": "Command",
    "command": "python train.py ${{inputs.data}} ${{inputs.rate}}",
    "codeId": f"{PLACE}/codes/c/versions/1",
    "environmentId": f"{PLACE}/environments/e/versions/1",
    "computeId": f"{PLACE}/computes/gpu",
    "experimentName": "digits",
    "displayName": "Digits",
    "tags": {"who": "me"},
    "environmentVariables": {"SEED": "1"},
    "status": "Completed",
    "inputs": {
        "data": {"jobInputType": "uri_folder", "uri": f"{PLACE}/data/digits/versions/3", "mode": "ReadOnlyMount"},
        "more": {
            "jobInputType": "uri_file",
            "uri": f"azureml:/{PLACE}/datastores/d/paths/a/b.csv",
            "mode": "Download",
        },
        "open": {"jobInputType": "uri_file", "uri": "https://example.org/x.csv"},
        "rate": {"jobInputType": "literal", "value": "0.5"},
        "none": None,
    },
    "outputs": {
        "default": {"jobOutputType": "uri_folder", "uri": "azureml://datastores/d/ExperimentRun/dcid.j"},
        "own": {"jobOutputType": "uri_folder", "mode": "ReadWriteMount", "uri": "azureml://datastores/d/paths/azureml/j/own/"},
        "named": {"jobOutputType": "custom_model", "mode": "Upload", "assetName": "m", "assetVersion": "4"},
        "elsewhere": {"jobOutputType": "uri_folder", "uri": f"azureml:/{PLACE}/datastores/d/paths/there"},
    },
    "resources": {"instanceCount": 2, "instanceType": None, "shmSize": "2g", "dockerArgs": "--ipc=host", "properties": {}},
    "queueSettings": {"jobTier": "Spot"},
    "distribution": {"distributionType": "PyTorch", "processCountPerInstance": 4},
    "limits": {"jobLimitsType": "Command", "timeout": "P1DT2H3M4S"},
    "identity": {"identityType": "UserIdentity"},
}  # fmt: skip


def test_a_job_of_every_part() -> None:
    assert portable(command_document("j", answered(JOB))) == {
        "type": "command",
        "command": JOB["command"],
        "compute": "azureml:gpu",
        "experiment_name": "digits",
        "display_name": "Digits",
        "tags": {"who": "me"},
        "environment_variables": {"SEED": "1"},
        "inputs": {
            "data": {"type": "uri_folder", "path": "azureml:digits:3", "mode": "ro_mount"},
            "more": {"type": "uri_file", "path": "azureml://datastores/d/paths/a/b.csv", "mode": "download"},
            "open": {"type": "uri_file", "path": "https://example.org/x.csv"},
            "rate": "0.5",
        },
        "outputs": {
            "own": {"type": "uri_folder", "mode": "rw_mount"},
            "named": {"type": "custom_model", "mode": "upload", "name": "m"},
            "elsewhere": {"type": "uri_folder", "path": "azureml://datastores/d/paths/there"},
        },
        "resources": {"instance_count": 2, "shm_size": "2g", "docker_args": "--ipc=host"},
        "queue_settings": {"job_tier": "Spot"},
        "distribution": {"type": "pytorch", "process_count_per_instance": 4},
        "limits": {"timeout": 93_784},
        "identity": {"type": "user_identity"},
    }


def test_the_least_job() -> None:
    assert portable(command_document("j", answered({"jobType": "Command", "command": "true"}))) == {
        "type": "command",
        "command": "true",
    }


@pytest.mark.parametrize("text", ["PT" + "9" * 5000 + "S", "P\u00b2D", "soon", "1:00:00"])
def test_a_limit_that_is_no_duration_is_left_out(text: str) -> None:
    job = {"jobType": "Command", "command": "true", "limits": {"jobLimitsType": "Command", "timeout": text}}
    assert "limits" not in portable(command_document("j", answered(job)))


def test_another_kind_of_job() -> None:
    with pytest.raises(InvalidError, match="The job j is of type Pipeline: only command jobs"):
        command_document("j", answered({"jobType": "Pipeline"}))
