"""Turns a RunConfiguration of azureml-core into a command job. Pure.

Fields are those that azureml-core 1.61 sends to the execution service (``azureml.core.runconfig.RunConfiguration``).
Whatever is set and cannot be played is refused by name.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aml_emulator.domain.errors import InvalidError, NotSupportedError

MPI = frozenset({"mpi", "openmpi", "intelmpi"})
"""Communicators whose processes are started by mpirun."""

UNSUPPORTED = ("sourceDirectoryDataStore", "datacaches", "applicationEndpoints", "autoClusterComputeSpecification")
"""Fields that have to be empty."""

OWN_TARGETS = frozenset({"amlcompute", "local"})
"""Targets that are no names of computes: a cluster for one run, and the client's own machine."""

DURATION = "PT{:d}S"
_VARIABLE = re.compile(r"(\$AZUREML_DATAREFERENCE_\w+)")
_DATA = re.compile(r"Dataset(Consumption|Output)Config:([A-Za-z_][A-Za-z0-9_]*)")


def check_runconfig(config: Mapping[str, Any]) -> None:
    """Return if a run of this configuration can be played.

    Raises:
        NotSupportedError: what is not supported, by the name of its field.
        InvalidError: what AzureML would refuse as well.
    """
    target = str(config.get("target") or "")
    if not target:
        raise InvalidError("The run configuration has no target.")
    if target in OWN_TARGETS:
        raise NotSupportedError(
            f"the compute target '{target}'; name a cluster, such as local-cluster, whose jobs run on this machine"
        )
    framework = str(config.get("framework") or "Python")
    if framework.lower() not in ("python", "pytorch", "tensorflow"):
        raise NotSupportedError(f"runs of the framework '{framework}'")
    for name in UNSUPPORTED:
        if config.get(name):
            raise NotSupportedError(f"the run configuration's field '{name}'")
    if (config.get("kubernetescompute") or {}).get("instanceType"):
        raise NotSupportedError("the run configuration's field 'kubernetescompute.instanceType'")


def command_of_runconfig(config: Mapping[str, Any]) -> str:
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
    """Return a word for the shell, which fills in variables of data references.

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


def job_of_runconfig(
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
        code_id: ARM id of the snapshot's version; None where nothing was sent.
        parent: the run that this one belongs to.
        datasets: those that it reads, by the name of the data.

    Raises:
        DomainError: as :func:`check_runconfig`.
    """
    check_runconfig(config)
    found: dict[str, Any] = {
        "jobType": "Command",
        "inputs": inputs_of_runconfig(config, datasets or {}),
        "outputs": outputs_of_runconfig(config, run_id),
        "command": exports_of_runconfig(config) + command_of_runconfig(config),
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


NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_REFERENCE = re.compile(r"[A-Za-z0-9_]+")

INPUT_MODES = {"mount": "ReadOnlyMount", "download": "Download", "direct": "Direct"}
"""How data gets into a run, and how that is called in a job."""

REFERENCE_MODES = {"mount": "ReadWriteMount", "download": "Download"}
"""The same of a data reference, which can be written to when it is mounted."""

OUTPUT_MODES = {"mount": "ReadWriteMount", "upload": "Upload"}
"""How data gets out of a run."""

DEFAULT_PLACE = "dataset/{run-id}/{output-name}"
"""The place of an output without one, in azureml-core's documentation."""


DATASETS = "AZUREML_DATASET_ENVIRONMENT_VARS"
"""The variable by which ``Run.input_datasets`` finds a run's datasets: ``NAME:MODE``, with commas between."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset of a run: the data asset's ARM id, its type, and azureml-core's id."""

    uri: str
    kind: str
    saved_id: str


def dataset_references(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return a run's references to datasets, id or name and version, by data name."""
    found = {}
    for name, given in (config.get("data") or {}).items():
        dataset = (given.get("dataLocation") or {}).get("dataset") or {}
        if dataset.get("id") or dataset.get("name"):
            found[name] = dataset
    return found


def inputs_of_runconfig(config: Mapping[str, Any], datasets: Mapping[str, Dataset]) -> dict[str, Any]:
    """Return the inputs that play a run's data references and data.

    Args:
        datasets: what :func:`dataset_references` mean.

    Raises:
        NotSupportedError: what cannot be played, by its name.
        InvalidError: a name that is none.
    """
    found = {}
    for name, given in (config.get("dataReferences") or {}).items():
        _check(name, given.get("pathOnCompute"), _REFERENCE)
        mode = _mode(name, given.get("mode"), REFERENCE_MODES)
        found[_input_name(name)] = _input(given.get("dataStoreName"), given.get("pathOnDataStore"), mode)
    for name, given in (config.get("data") or {}).items():
        _check(name, given.get("pathOnCompute"))
        mode = _mode(name, given.get("mechanism"), INPUT_MODES)
        location = given.get("dataLocation") or {}
        path, uri = location.get("dataPath") or {}, location.get("uri") or {}
        if name in datasets:
            found[name] = _dataset(datasets[name], mode)
        elif path.get("datastoreName"):
            found[name] = _input(path["datastoreName"], path.get("relativePath"), mode)
        elif uri.get("path"):
            kind = "uri_file" if uri.get("isFile") else "uri_folder"
            found[name] = {"jobInputType": kind, "uri": str(uri["path"]), "mode": mode}
        else:
            what = "which is neither a dataset nor a path of a datastore nor an address"
            raise NotSupportedError(f"the run configuration's 'data.{name}', {what}")
    return found


def _dataset(dataset: Dataset, mode: str) -> dict[str, Any]:
    """Return the input of a dataset; in the mode ``direct`` the run gets its id."""
    if mode == "Direct":
        return {"jobInputType": "literal", "value": dataset.saved_id}
    return {"jobInputType": dataset.kind, "uri": dataset.uri, "mode": mode}


def outputs_of_runconfig(config: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return the outputs of a run; a registered one becomes a data asset.

    Raises:
        DomainError: as `inputs_of_runconfig`.
    """
    found = {}
    for name, given in (config.get("outputData") or {}).items():
        options = given.get("additionalOptions") or {}
        _check(name, options.get("pathOnCompute"))
        location = given.get("outputLocation") or {}
        path = location.get("dataPath") or {}
        if location and not path.get("datastoreName"):
            raise NotSupportedError(f"the run configuration's 'outputData.{name}', which is no path of a datastore")
        relative = str(path.get("relativePath") or DEFAULT_PLACE).strip("/")
        relative = relative.replace("{run-id}", run_id).replace("{output-name}", name)
        uri = f"azureml://datastores/{path.get('datastoreName') or 'workspaceblobstore'}/paths/{relative}/"
        found[name] = {
            "jobOutputType": "uri_folder",
            "uri": uri,
            "mode": _mode(name, given.get("mechanism"), OUTPUT_MODES),
        }
        registered = (options.get("registrationOptions") or {}).get("name")
        if registered:
            found[name]["assetName"] = str(registered)
    return found


def exports_of_runconfig(config: Mapping[str, Any]) -> str:
    """Return the shell code that sets the variables by which a run finds its data."""
    given = [(f"AZUREML_DATAREFERENCE_{name}", _input_name(name)) for name in config.get("dataReferences") or {}]
    for name, item in (config.get("data") or {}).items():
        given.append((str(item.get("environmentVariableName") or name), name))
    for variable, _ in given:
        if not NAME.fullmatch(variable):
            raise InvalidError(f"'{variable}' cannot be the name of a variable.")
    lines = "".join(f'export {variable}="${{{{inputs.{name}}}}}"; ' for variable, name in given)
    read = [
        f"{item.get('environmentVariableName') or name}:{str(item.get('mechanism') or 'mount').lower()}"
        for name, item in (config.get("data") or {}).items()
        if name in dataset_references(config)
    ]
    return lines + (f'export {DATASETS}="{",".join(read)}"; ' if read else "")


def _input(datastore: Any, path: Any, mode: str) -> dict[str, Any]:
    uri = f"azureml://datastores/{datastore}/paths/{str(path or '').strip('/')}"
    return {"jobInputType": "uri_folder", "uri": uri, "mode": mode}


def _mode(name: str, given: Any, modes: Mapping[str, str]) -> str:
    mode = str(given or "mount").lower()
    if mode not in modes:
        raise NotSupportedError(f"the data '{name}' in the mode '{mode}' (it has: {', '.join(sorted(modes))})")
    return modes[mode]


def _input_name(reference: str) -> str:
    """Return the input of a data reference; azureml-core names one by a UUID, which may begin with a digit."""
    return f"_{reference}" if reference[0].isdigit() else reference


def _check(name: str, path_on_compute: Any, pattern: re.Pattern[str] = NAME) -> None:
    if not pattern.fullmatch(name):
        raise InvalidError(f"'{name}' cannot be the name of data.")
    if path_on_compute:
        raise NotSupportedError(f"the data '{name}' with a path on the compute")
