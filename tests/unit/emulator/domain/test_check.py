from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.api.errors import service_error
from aml_emulator.domain.errors import DomainError
from aml_emulator.domain.jobs.check import changed, check_job, essence
from aml_emulator.domain.jobs.types import unknown_members

JOB: dict[str, Any] = {"jobType": "Command", "command": "true", "environmentId": "e", "computeId": "c"}


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"jobType": "command"},
        {"resources": {"instanceCount": 1, "shmSize": "2g", "instanceType": None, "properties": {}}},
        {"limits": {"jobLimitsType": "Command", "timeout": "PT1H"}},
        {"queueSettings": {"jobTier": "Null"}},
        {"distribution": {"distributionType": "PyTorch", "processCountPerInstance": 1}},
        {"identity": None, "services": {}, "status": "Completed", "parameters": {"a": 1}},
        {"services": {"Tracking": {"jobServiceType": "Tracking"}, "Studio": {"jobServiceType": "Studio"}}},
        {"services": {"shell": {"jobServiceType": "SSH"}, "own": {"port": 8080}}},
        {"identity": {"identityType": "AMLToken"}},
        {"identity": {"identityType": "Managed", "clientId": "1"}},
        {"identity": {"identityType": "UserIdentity"}},
        {"queueSettings": {"jobTier": "Spot", "priority": 3}},
        {"computeId": None, "resources": {"instanceType": "Standard_DS3_v2", "locations": ["westeurope"]}},
        {"resources": {"dockerArgs": "--ulimit memlock=-1 --cap-add SYS_PTRACE"}},
        {"distribution": {"distributionType": "PyTorch", "processCountPerInstance": 4}},
        {"distribution": {"distributionType": "Mpi", "processCountPerInstance": 2}},
        {"distribution": {"distributionType": "TensorFlow", "workerCount": 1, "parameterServerCount": 0}},
        {"inputs": {"a": {"jobInputType": "uri_folder", "uri": "x", "mode": "Direct"}}},
        {"outputs": {"o": {"jobOutputType": "mlflow_model", "assetName": "m", "assetVersion": "1"}}},
        {"parentJobName": "parent"},
        {"inputs": {"a": {"jobInputType": "literal", "value": "1"}}, "command": "t ${{inputs.a}}"},
        {"inputs": {"a": {"jobInputType": "literal", "value": None}}, "command": "t $[[${{inputs.a}}]]"},
        {"outputs": {"o": {"jobOutputType": "uri_folder", "mode": "Upload"}}, "command": "t ${{outputs.o}}"},
    ],
)
def test_what_can_be_run_is_accepted(more: dict[str, Any]) -> None:
    check_job({**JOB, **more})


@pytest.mark.parametrize(
    ("more", "status", "message"),
    [
        ({"jobType": "Sweep"}, 501, "jobs of type 'Sweep'"),
        ({"jobType": "Pipeline"}, 501, "jobs of type 'Pipeline'"),
        ({"identity": {"identityType": "Other"}}, 501, "identity of type 'Other'"),
        ({"notificationSetting": {"emails": ["x"]}}, 501, "'notificationSetting'"),
        ({"componentId": "x"}, 501, "'componentId'"),
        ({"somethingNew": 1}, 501, "'somethingNew'"),
        ({"queueSettings": {"jobTier": "Gold"}}, 501, "jobTier 'Gold'"),
        ({"queueSettings": {"priority": 7}}, 501, "priority 7"),
        ({"resources": {"maxInstanceCount": 2}}, 501, "maxInstanceCount 2"),
        ({"resources": {"properties": {"a": {}}}}, 501, r"resources\.properties\.a"),
        ({"resources": {"somethingNew": 1}}, 501, "resources.somethingNew"),
        ({"resources": {"dockerArgs": "--privileged"}}, 501, "docker_args: '--privileged'"),
        ({"resources": {"dockerArgs": "--shm-size 1g", "shmSize": "2g"}}, 400, "say different things"),
        ({"resources": {"shmSize": "lots"}}, 400, "shmSize"),
        ({"limits": {"timeout": "1h"}}, 400, "timeout"),
        ({"distribution": {"distributionType": "Ray"}}, 501, "type 'Ray' .* starts Ray itself runs on one node"),
        ({"distribution": {"distributionType": "PyTorch", "processCountPerInstance": 0}}, 400, "processCount"),
        ({"distribution": {"distributionType": "TensorFlow", "workerCount": 0}}, 400, "workerCount is a number"),
        ({"distribution": {"distributionType": "TensorFlow", "parameterServerCount": -1}}, 400, "parameterServer"),
        ({"resources": {"instanceCount": 0}}, 400, "instanceCount is a number from 1, not 0"),
        ({"resources": {"instanceCount": 2}}, 501, "2 of a job without a distribution: .* or instance_count: 1"),
        ({"resources": {"properties": {"IsLocal": {"IsLocal": True}}}}, 501, "compute: local; .* local-cluster"),
        ({"command": " "}, 400, "no command"),
        ({"environmentId": ""}, 400, "no environment"),
        ({"command": "${{inputs.a}}"}, 400, r"refers to \$\{\{inputs\.a\}\}"),
        ({"command": "${{search_space.a}}"}, 400, "cannot be resolved"),
        ({"inputs": {"a": {"jobInputType": "uri_folder", "uri": "x", "mode": "Strange"}}}, 501, "mode 'Strange'"),
        (
            {"inputs": {"a": {"jobInputType": "mltable", "uri": "x", "mode": "EvalMount"}}},
            501,
            "'EvalMount' of .*'a'",
        ),
        ({"inputs": {"a": {"jobInputType": "uri_file", "uri": "x", "pathOnCompute": "/x"}}}, 501, "pathOnCompute of"),
        ({"inputs": {"a-b": {"jobInputType": "literal", "value": "x"}}}, 400, "name of the input 'a-b'"),
        ({"inputs": {"a": {"jobInputType": "uri_folder"}}}, 400, "'a' has no uri"),
        ({"inputs": {"a": {"jobInputType": "strange"}}}, 501, "type 'strange'"),
        ({"outputs": {"a": {"jobOutputType": "uri_folder", "assetName": "x/y"}}}, 400, "under the name 'x/y'"),
        ({"outputs": {"a": {"jobOutputType": "uri_folder", "assetVersion": "1"}}}, 400, "and no name"),
        ({"outputs": {"a": {"jobOutputType": "uri_folder", "autoDeleteSetting": {"a": 1}}}}, 501, "autoDelete"),
        ({"outputs": {"a": {"jobOutputType": "uri_folder", "mode": "Strange"}}}, 501, "mode 'Strange'"),
    ],
)
def test_what_cannot_be_run_is_refused_by_name(more: dict[str, Any], status: int, message: str) -> None:
    with pytest.raises(DomainError, match=message) as caught:
        check_job({**JOB, **more})
    assert service_error(caught.value).status == status


def test_a_job_as_shown_is_the_same_job_as_submitted() -> None:
    submitted = {**JOB, "outputs": {"m": {"jobOutputType": "uri_folder"}}, "limits": {"timeout": "PT1H"}}
    shown = {
        **submitted,
        "computeId": "C",
        "outputs": {"m": {"jobOutputType": "uri_folder", "uri": "azureml://x", "mode": "Upload"}, "default": {}},
        "status": "Running",
        "limits": {"timeout": "PT60M"},
    }
    assert essence(submitted) == essence(shown)
    assert essence(submitted) != essence({**submitted, "command": "false"})


@pytest.mark.parametrize(
    ("known", "sent", "parts"),
    [
        ({}, {}, []),
        ({}, {"command": "false"}, ["command"]),
        ({"resources": {"dockerArgsList": ["--init"]}}, {}, []),
        ({"resources": {"dockerArgs": "--init"}}, {"resources": {"dockerArgs": "-m 1g"}}, ["docker arguments"]),
        ({"parentJobName": "p"}, {}, []),
        ({"parentJobName": "p"}, {"parentJobName": "q"}, ["parent job"]),
        ({"distribution": {"distributionType": "Mpi"}}, {}, ["distribution"]),
        ({"outputs": {"o": {"jobOutputType": "uri_file", "assetName": "a"}}}, {}, ["outputs"]),
    ],
)
def test_another_submission_of_a_name_is_compared_part_by_part(
    known: dict[str, Any], sent: dict[str, Any], parts: list[str]
) -> None:
    assert changed({**JOB, **known}, {**JOB, **sent}) == parts


_NAMED = {"jobOutputType": "uri_folder", "assetName": "n", "assetVersion": "2", "mode": "Upload"}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        # Recorded in March 2026: Azure/azure-sdk-assets, test_command_job_register_output.
        ({"outputs": {"o": _NAMED}}, ["'assetVersion' on object of type 'UriFolderJobOutput'"]),
        ({"outputs": {"o": {**_NAMED, "assetVersion": None}}}, []),
        ({"jobType": "Command", "somethingNew": 1}, ["'somethingNew' on object of type 'CommandJob'"]),
        ({"jobType": "Sweep", "command": "true"}, ["'command' on object of type 'SweepJob'"]),
        ({"resources": {"memory": 1}}, ["'memory' on object of type 'JobResourceConfiguration'"]),
        (
            {"inputs": {"a": {"jobInputType": "literal", "values": [1]}}},
            ["'values' on object of type 'LiteralJobInput'"],
        ),
        ({"inputs": {"a": {"jobInputType": "strange", "x": 1}}}, []),
        ({"notificationSetting": {"emails": ["x"]}, "parameters": {}, "status": "Running"}, []),
        ({"jobType": "Spark", "x": 1}, []),
    ],
)
def test_members_that_azures_models_do_not_have(more: dict[str, Any], said: list[str]) -> None:
    job = {name: value for name, value in {**JOB, **more}.items() if more.get("jobType") != "Sweep" or name in more}
    found = unknown_members(job, "2025-01-01-preview")
    assert [text.removeprefix("Could not find member ").partition(". Path")[0] for text in found] == said


def test_older_versions_of_the_interface_register_outputs_under_a_version() -> None:
    assert unknown_members({**JOB, "outputs": {"o": _NAMED}}, "2024-01-01-preview") == ()
