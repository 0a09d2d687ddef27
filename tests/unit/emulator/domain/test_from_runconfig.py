"""From azureml-core's RunConfiguration to a command job, by tables."""

from __future__ import annotations

from typing import Any

import pytest

from aml_emulator.api.errors import service_error
from aml_emulator.domain.errors import DomainError, NotSupportedError
from aml_emulator.domain.jobs import from_runconfig as runconfig
from aml_emulator.domain.jobs.check import check_job
from aml_emulator.domain.jobs.from_runconfig import Dataset
from tests.unit.emulator.parts import WS

USER_MANAGED = {"python": {"userManagedDependencies": True, "interpreterPath": "/opt/py/bin/python"}}


def config(**more: Any) -> dict[str, Any]:
    """Return what azureml-core sends of a plain ScriptRunConfig."""
    return {
        "script": "train.py",
        "arguments": [],
        "target": "local-cluster",
        "framework": "Python",
        "communicator": "None",
        "maxRunDurationSeconds": 2592000,
        "nodeCount": 1,
        "environment": {"environmentVariables": {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE"}, "docker": {"shmSize": "2g"}},
        "docker": {"useDocker": False, "sharedVolumes": True, "arguments": [], "shmSize": "2g"},
        "tensorflow": {"workerCount": 1, "parameterServerCount": 1},
        "mpi": {"processCountPerNode": 1, "nodeCount": 1},
        "pytorch": {"communicationBackend": "nccl", "processCount": None, "nodeCount": 1},
        "command": "",
        "environmentVariables": {},
        **more,
    }


def job(**more: Any) -> dict[str, Any]:
    """Return the job of a configuration."""
    return runconfig.job_of_runconfig(
        config(**more),
        run_id="run-1",
        experiment="exp",
        compute_id=f"{WS}/computes/local-cluster",
        code_id=f"{WS}/codes/abc/versions/1",
        environment_id=f"{WS}/environments/env/versions/1",
        parent=None,
    )


def test_a_plain_configuration_becomes_a_job_that_is_accepted() -> None:
    found = job(environmentVariables={"A": "1"})
    check_job(found)
    assert found["command"] == "python train.py"
    assert found["limits"] == {"timeout": "PT2592000S", "jobLimitsType": "Command"}
    assert found["resources"] == {"instanceCount": 1, "shmSize": "2g"}
    assert found["environmentVariables"] == {"EXAMPLE_ENV_VAR": "EXAMPLE_VALUE", "A": "1"}
    assert "distribution" not in found


@pytest.mark.parametrize(
    ("given", "command"),
    [
        ({"arguments": ["--lr", 0.1, "--name", "it's"]}, "python train.py --lr 0.1 --name 'it'\"'\"'s'"),
        ({"arguments": ["$HOME", ""]}, "python train.py '$HOME' ''"),
        (
            {"arguments": ["--data", "$AZUREML_DATAREFERENCE_in_1/a b"]},
            "python train.py --data \"$AZUREML_DATAREFERENCE_in_1\"'/a b'",
        ),
        ({"environment": USER_MANAGED}, "/opt/py/bin/python train.py"),
        # A conda environment has a separate python, which leads the path.
        ({"environment": {"python": {"interpreterPath": "/opt/py/bin/python"}}}, "python train.py"),
        ({"script": "a b.py"}, "python 'a b.py'"),
        ({"script": "", "command": "python -m train && echo ok"}, "python -m train && echo ok"),
        ({"script": "", "command": ["python", "-c", "print(1)"]}, "python -c 'print(1)'"),
    ],
)
def test_the_command(given: dict[str, Any], command: str) -> None:
    assert job(**given)["command"] == command


@pytest.mark.parametrize("first", "0a")
def test_the_name_that_azureml_core_gives_to_a_mounted_path_is_taken(first: str) -> None:
    # `datastore.path(p).as_mount()` is named by a UUID's digits.
    name = f"{first}27d86fcd2724b3a8c0b4cd2e24dfca4"
    reference = {"dataStoreName": "workspaceblobstore", "mode": "mount", "pathOnDataStore": "p"}
    found = job(dataReferences={name: reference}, arguments=[f"$AZUREML_DATAREFERENCE_{name}"])
    check_job(found)
    (given,) = found["inputs"]
    assert found["command"].startswith(f'export AZUREML_DATAREFERENCE_{name}="${{{{inputs.{given}}}}}"; ')


def test_arguments_of_docker_and_shared_memory_come_from_the_run_before_the_environment() -> None:
    of_environment = {"docker": {"arguments": ["--ipc=host"], "shmSize": "1g"}}
    assert job(environment=of_environment, docker={})["resources"] == {
        "instanceCount": 1,
        "shmSize": "1g",
        "dockerArgsList": ["--ipc=host"],
    }
    own = {"arguments": ["--cap-add", "SYS_NICE"], "shmSize": "4g"}
    assert job(environment=of_environment, docker=own)["resources"]["shmSize"] == "4g"
    assert job(environment=of_environment, docker=own)["resources"]["dockerArgsList"] == ["--cap-add", "SYS_NICE"]


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": ""}, "has no target"),
        ({"script": ""}, "neither a script nor a command"),
        ({"arguments": ["${{inputs.x}}"]}, "cannot hold an expression"),
        ({"framework": "PyTorch", "communicator": "Nccl", "nodeCount": 2, "pytorch": {"processCount": 3}},
         "3\\) is no multiple of the number of nodes \\(2"),
    ],
)  # fmt: skip
def test_what_azureml_would_refuse_too(given: dict[str, Any], words: str) -> None:
    with pytest.raises(DomainError, match=words) as caught:
        job(**given)
    assert service_error(caught.value).status == 400


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"target": "amlcompute"}, "the compute target 'amlcompute'; name a cluster"),
        ({"framework": "PySpark"}, "runs of the framework 'PySpark'"),
        ({"communicator": "Horovod"}, "the communicator 'Horovod'"),
        ({"sourceDirectoryDataStore": "store"}, "'sourceDirectoryDataStore'"),
        ({"datacaches": [{}]}, "'datacaches'"),
        ({"data": {"in_1": {}}}, "'data.in_1', which is neither a dataset nor a path of a datastore nor an address"),
        ({"outputData": {"out": {"outputLocation": {"uri": {}}}}}, "'outputData.out', which is no path"),
        ({"outputData": {"out": {"mechanism": "link"}}}, "'out' in the mode 'link'"),
        ({"dataReferences": {"a": {"mode": "upload"}}}, "'a' in the mode 'upload'"),
        ({"dataReferences": {"a": {"pathOnCompute": "/data"}}}, "with a path on the compute"),
        ({"kubernetescompute": {"instanceType": "gpu"}}, "'kubernetescompute.instanceType'"),
    ],
)
def test_what_cannot_be_played_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(NotSupportedError, match=words):
        job(**given)


def test_data_references_are_inputs_and_variables() -> None:
    given = {"dataStoreName": "store", "pathOnDataStore": "a/b", "mode": "download", "pathOnCompute": None}
    found = job(dataReferences={"in_1": given}, arguments=["$AZUREML_DATAREFERENCE_in_1"])
    check_job(found)
    assert found["inputs"] == {
        "in_1": {"jobInputType": "uri_folder", "uri": "azureml://datastores/store/paths/a/b", "mode": "Download"}
    }
    assert found["command"] == (
        'export AZUREML_DATAREFERENCE_in_1="${{inputs.in_1}}"; python train.py "$AZUREML_DATAREFERENCE_in_1"'
    )


def test_a_reference_with_the_name_that_azureml_core_makes_up_is_an_input() -> None:
    given = {"dataStoreName": "store", "pathOnDataStore": "a", "mode": "mount"}
    found = job(dataReferences={"0c4f": given}, arguments=["$AZUREML_DATAREFERENCE_0c4f"])
    check_job(found)
    assert found["command"] == (
        'export AZUREML_DATAREFERENCE_0c4f="${{inputs._0c4f}}"; python train.py "$AZUREML_DATAREFERENCE_0c4f"'
    )


def test_datasets_and_addresses_are_inputs() -> None:
    reference = {"dataLocation": {"dataset": {"id": "x"}}}
    known = Dataset(uri=f"{WS}/data/digits/versions/1", kind="uri_file", saved_id="x")
    given = config(
        data={
            "mounted": {**reference, "mechanism": "Mount", "environmentVariableName": "DIGITS"},
            "plain": {**reference, "mechanism": "Direct"},
            "address": {"dataLocation": {"uri": {"path": "azureml://datastores/s/paths/a", "isFile": True}}},
        },
        arguments=["DatasetConsumptionConfig:mounted"],
    )
    assert runconfig.dataset_references(given) == {"mounted": {"id": "x"}, "plain": {"id": "x"}}
    assert runconfig.inputs_of_runconfig(given, {"mounted": known, "plain": known}) == {
        "mounted": {"jobInputType": "uri_file", "uri": known.uri, "mode": "ReadOnlyMount"},
        "plain": {"jobInputType": "literal", "value": "x"},
        "address": {"jobInputType": "uri_file", "uri": "azureml://datastores/s/paths/a", "mode": "ReadOnlyMount"},
    }
    assert runconfig.exports_of_runconfig(given) == (
        'export DIGITS="${{inputs.mounted}}"; export plain="${{inputs.plain}}"; export address="${{inputs.address}}"; '
        'export AZUREML_DATASET_ENVIRONMENT_VARS="DIGITS:mount,plain:direct"; '
    )
    assert runconfig.command_of_runconfig(given) == 'python train.py "${{inputs.mounted}}"'
