"""From a RunConfiguration of azureml-core to a job: what runs is a command job, whichever SDK submitted it. Pure.

Fields are those that azureml-core 1.61 sends to the execution service (``azureml.core.runconfig.RunConfiguration``).
Whatever is set and cannot be played is refused by name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.jobs.from_runconfig_data import Dataset, exports, inputs, outputs

MPI = frozenset({"mpi", "openmpi", "intelmpi"})
"""Communicators whose processes are started by mpirun."""

UNSUPPORTED = ("sourceDirectoryDataStore", "datacaches", "applicationEndpoints", "autoClusterComputeSpecification")
"""Fields that have to be empty."""

OWN_TARGETS = frozenset({"amlcompute", "local"})
"""Targets that are no names of computes: a cluster for one run, and the client's own machine."""

DURATION = "PT{:d}S"
_VARIABLE = re.compile(r"(\$AZUREML_DATAREFERENCE_\w+)")
_DATA = re.compile(r"Dataset(Consumption|Output)Config:([A-Za-z_][A-Za-z0-9_]*)")


def check(config: Mapping[str, Any]) -> None:
    """Return if a run of this configuration can be played.

    Raises:
        NotSupportedError: what is not supported, by the name of its field.
        InvalidError: what AzureML would refuse as well.
    """
    target = str(config.get("target") or "")
    if not target:
        raise InvalidError("The run configuration has no target.")
    if target in OWN_TARGETS:
        raise NotSupportedError(f"the compute target '{target}' (only computes of the workspace)")
    framework = str(config.get("framework") or "Python")
    if framework.lower() not in ("python", "pytorch", "tensorflow"):
        raise NotSupportedError(f"runs of the framework '{framework}'")
    for name in UNSUPPORTED:
        if config.get(name):
            raise NotSupportedError(f"the run configuration's field '{name}'")
    if (config.get("kubernetescompute") or {}).get("instanceType"):
        raise NotSupportedError("the run configuration's field 'kubernetescompute.instanceType'")


def command(config: Mapping[str, Any]) -> str:
    """Return the shell command of a run: its own, or its script with its arguments."""
    given = config.get("command")
    if given:
        return given if isinstance(given, str) else " ".join(quoted(str(word)) for word in given)
    script = str(config.get("script") or "")
    if not script:
        raise InvalidError("The run configuration has neither a script nor a command.")
    words = (_interpreter(config), script, *map(str, config.get("arguments") or ()))
    return " ".join(quoted(word) for word in words)


def quoted(word: str) -> str:
    """Return a word for the shell; the variables of data references in it are filled in by the shell, as by AzureML.

    A word that stands for data becomes its path.

    Raises:
        InvalidError: what would be taken for an expression.
    """
    if match := _DATA.fullmatch(word):
        return f'"${{{{{"inputs" if match[1] == "Consumption" else "outputs"}.{match[2]}}}}}"'
    if "${{" in word or "$[[" in word:
        raise InvalidError(f"An argument cannot hold an expression: '{word}'")
    parts = _VARIABLE.split(word)
    return (
        "".join(f'"{part}"' if number % 2 else shlex.quote(part) for number, part in enumerate(parts) if part) or "''"
    )


def _interpreter(config: Mapping[str, Any]) -> str:
    python = (config.get("environment") or {}).get("python") or {}
    return str(python.get("interpreterPath") or "python") if python.get("userManagedDependencies") else "python"


def resources(config: Mapping[str, Any]) -> dict[str, Any]:
    """Return how many nodes a run has, and what its containers are given."""
    docker, of_environment = config.get("docker") or {}, (config.get("environment") or {}).get("docker") or {}
    arguments: Sequence[Any] = docker.get("arguments") or of_environment.get("arguments") or ()
    shm = docker.get("shmSize") or of_environment.get("shmSize")
    found: dict[str, Any] = {"instanceCount": int(config.get("nodeCount") or 1)}
    if shm:
        found["shmSize"] = str(shm)
    if arguments:
        found["dockerArgsList"] = [str(argument) for argument in arguments]
    return found


def distribution(config: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return how a run's processes are started: None for one process."""
    communicator = str(config.get("communicator") or "None").lower()
    framework = str(config.get("framework") or "Python").lower()
    nodes = int(config.get("nodeCount") or 1)
    if communicator in MPI:
        processes = int((config.get("mpi") or {}).get("processCountPerNode") or 1)
        return {"distributionType": "Mpi", "processCountPerInstance": processes}
    if communicator == "parameterserver" or (framework == "tensorflow" and communicator != "none"):
        of_tensorflow = config.get("tensorflow") or {}
        return {
            "distributionType": "TensorFlow",
            "workerCount": int(of_tensorflow.get("workerCount") or 1),
            "parameterServerCount": int(of_tensorflow.get("parameterServerCount") or 0),
        }
    if framework == "pytorch" and communicator in ("nccl", "gloo"):
        processes = int((config.get("pytorch") or {}).get("processCount") or nodes)
        if processes % nodes:
            raise InvalidError(f"pytorch.processCount ({processes}) is no multiple of the number of nodes ({nodes}).")
        return {"distributionType": "PyTorch", "processCountPerInstance": processes // nodes}
    if communicator != "none":
        raise NotSupportedError(
            f"the communicator '{config['communicator']}' of the framework '{config['framework']}'"
        )
    return None


def variables(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the variables of a run: its environment's, then its own."""
    given = (config.get("environment") or {}).get("environmentVariables") or {}
    own = config.get("environmentVariables") or {}
    return {str(key): str(value) for key, value in {**given, **own}.items()}


def limits(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the run's limit, if it has one."""
    seconds = config.get("maxRunDurationSeconds")
    return {"timeout": DURATION.format(int(seconds)), "jobLimitsType": "Command"} if seconds else {}


def job(
    config: Mapping[str, Any],
    *,
    run_id: str,
    experiment: str,
    compute_id: str,
    code_id: str | None,
    environment_id: str,
    parent: str | None,
    datasets: Mapping[str, Dataset] | None = None,
) -> dict[str, Any]:
    """Return the properties of the command job that plays a run.

    Args:
        config: the RunConfiguration.
        run_id: the run's id.
        experiment: the experiment's name.
        compute_id: ARM id of the compute.
        code_id: ARM id of the snapshot's version; None where nothing was sent.
        environment_id: ARM id of the environment's version.
        parent: the run that this one belongs to.
        datasets: those that it reads, by the name of the data.

    Raises:
        DomainError: as :func:`check`.
    """
    check(config)
    found: dict[str, Any] = {
        "jobType": "Command",
        "inputs": inputs(config, datasets or {}),
        "outputs": outputs(config, run_id),
        "command": exports(config) + command(config),
        "codeId": code_id,
        "computeId": compute_id,
        "environmentId": environment_id,
        "environmentVariables": variables(config),
        "experimentName": experiment,
        "distribution": distribution(config),
        "limits": limits(config) or None,
        "resources": resources(config),
        "parentJobName": parent,
    }
    if config.get("credentialPassthrough"):
        found["identity"] = {"identityType": "UserIdentity"}
    return {key: value for key, value in found.items() if value not in (None, {})}
