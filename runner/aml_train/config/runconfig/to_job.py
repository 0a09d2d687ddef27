"""A run configuration of the AzureML SDK v1 → the command job that does the same.

A setting that a command job has not is a fault, with its line.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aml_train.config.yaml.nodes import Faults, MapNode, dotted, place, shown, value_mark
from aml_train.config.yaml.source import kind_of
from aml_train.core.boundary import why_not_sent

DEFAULT_IMAGE: Final = "mcr.microsoft.com/azureml/openmpi4.1.0-ubuntu22.04"
"""azureml-core's image of an environment without one (``DEFAULT_CPU_IMAGE``), without its tag of a date."""

_MPI: Final = frozenset({"openmpi", "intelmpi", "mpi"})
_MUST_BE_EMPTY: Final = {
    "datacaches": "data caches are not supported",
    "sourceDirectoryDataStore": "the code is sent as a snapshot",
    "autoClusterComputeSpecification": "name a compute under `target`",
    "applicationEndpoints": "interactive services need a command job: https://learn.microsoft.com/azure/machine-learning/how-to-interactive-jobs",
    "commandReturnCodeConfig": "exit code 0 is success, any other is not",
}
_VARIABLE: Final = re.compile(r"(\$AZUREML_DATAREFERENCE_\w+)")
_CONDA: Final = ("environment", "python", "condaDependenciesFile")
_PASSWORD: Final = ("environment", "docker", "baseImageRegistry", "password")
_MODES: Final = {"mount": "ro_mount", "download": "download", "direct": "direct", None: "ro_mount"}
_OF_DATASETS: Final = {"mount": "eval_mount", "download": "eval_download", "direct": "direct", None: "eval_mount"}
"""How a command job reads what SDK v1 registered: https://learn.microsoft.com/azure/machine-learning/migrate-to-v2-assets-data."""
_INTO: Final = {"mount": "rw_mount", "upload": "upload", None: "rw_mount"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True, kw_only=True)
class ToJob:
    """Translates one run configuration.

    Attributes:
        tree: the run configuration.
        values: its checked values.
        directory: the folder that its paths start from.
        faults: takes what a command job cannot have.
    """

    tree: MapNode
    values: Mapping[str, Any]
    directory: Path
    faults: Faults

    def part(self, *keys: str) -> Mapping[str, Any]:
        found: Any = self.values
        for key in keys:
            found = (found or {}).get(key)
        return found or {}

    def fault(self, what: str, *keys: str, why: str = "", remedy: str = "") -> None:
        self.faults.add(value_mark(self.tree, *keys), what, why=why, remedy=remedy)

    def document(self, *, has_image: bool) -> dict[str, Any]:
        self.refuse()
        data = _Data(tree=self.tree, values=self.values, faults=self.faults)
        data.read()
        command = "".join(f'export {name}="${{{{{what}}}}}"\n' for name, what in data.variables.items())
        found: dict[str, Any] = {
            "command": command + self.command(),
            "code": ".",
            "environment_variables": {
                **(self.part("environment").get("environmentVariables") or {}),
                **self.part("environmentVariables"),
            },
            "inputs": data.inputs,
            "outputs": data.outputs,
            "compute": self.compute(),
            "distribution": self.distribution(),
            "resources": self.resources(),
            "limits": self.limits(),
        }
        if self.values.get("credentialPassthrough"):
            found["identity"] = {"type": "user_identity"}
        if not has_image:
            found["environment"] = self.environment()
        return {key: value for key, value in found.items() if value}

    def refuse(self) -> None:
        """Add a fault for each setting that a command job has not."""
        for key, why in _MUST_BE_EMPTY.items():
            if self.values.get(key):
                self.fault(f"`{key}` is not supported", key, why=why, remedy="delete it")
        history = self.part("history")
        for key in ("outputCollection", "snapshotProject"):
            if history.get(key) is False:
                why = (
                    "without it there are no logs, metrics and outputs"
                    if key == "outputCollection"
                    else "it is the code"
                )
                self.fault(f"`history.{key}` cannot be false", "history", key, why=why, remedy="delete it")
        if str(self.values.get("framework") or "Python").lower() not in ("python", "pytorch", "tensorflow"):
            what = f"`framework` is `{shown(str(self.values['framework']))}`"
            self.fault(what, "framework", remedy="known are `Python`, `PyTorch` and `TensorFlow`")

    def compute(self) -> str | None:
        target = str(self.values.get("target") or "local")
        if target.lower() == "amlcompute":
            why = "AzureML makes no cluster for a single run any more"
            self.fault("`target` is `amlcompute`", "target", why=why, remedy="name a compute")
        return None if target.lower() in ("local", "amlcompute") else f"azureml:{target}"

    def command(self) -> str:
        script, command = self.values.get("script"), self.values.get("command")
        if command and script:
            self.fault("`script` and `command` exclude each other", "command", remedy="keep one")
        if command:
            return command if isinstance(command, str) else " ".join(self.quoted(command, "command"))
        if not script:
            self.faults.add(self.tree.mark, "`script` or `command` is missing", remedy="give one of them")
            return ""
        path = os.path.normpath(script)
        found, why = kind_of(self.directory / path)
        if found != "file" or path.startswith(".."):
            remedy = "write a path relative to the source directory"
            self.fault(f"`script` names `{shown(script)}`", "script", why=why or "it is no file there", remedy=remedy)
        words = [self.interpreter(), Path(path).as_posix(), *(self.values.get("arguments") or ())]
        return " ".join(self.quoted(words, "arguments"))

    def interpreter(self) -> str:
        python = self.part("environment", "python")
        return (python.get("interpreterPath") or "python") if python.get("userManagedDependencies") else "python"

    def quoted(self, words: Sequence[object], key: str) -> list[str]:
        """Quote words for a shell that expands the variables of data references."""
        done = []
        for word in map(str, words):
            if "${{" in word or "$[[" in word:
                self.fault(f"`{key}` holds `{shown(word)}`", key, why="that is an expression of command jobs")
            parts = _VARIABLE.split(word)
            text = "".join(f'"{p}"' if number % 2 else shlex.quote(p) for number, p in enumerate(parts) if p)
            done.append(text or "''")
        return done

    def nodes(self) -> int:
        section = {"pytorch": "pytorch"}.get(str(self.values.get("framework") or "").lower(), "mpi")
        counts = (self.values.get("nodeCount"), self.part(section).get("nodeCount"))
        return max(count or 1 for count in counts)

    def distribution(self) -> dict[str, Any] | None:
        communicator = str(self.values.get("communicator") or "None").lower()
        framework = str(self.values.get("framework") or "Python").lower()
        if communicator in _MPI:
            return {"type": "mpi", "process_count_per_instance": self.part("mpi").get("processCountPerNode") or 1}
        if framework == "tensorflow" and communicator == "parameterserver":
            tensorflow = self.part("tensorflow")
            return {
                "type": "tensorflow",
                "worker_count": tensorflow.get("workerCount") or 1,
                "parameter_server_count": tensorflow.get("parameterServerCount", 1) or 0,
            }
        if framework == "pytorch" and communicator in ("nccl", "gloo"):
            nodes = self.nodes()
            processes = self.part("pytorch").get("processCount") or nodes
            if processes % nodes:
                what = f"`pytorch.processCount` is {processes}"
                self.fault(what, "pytorch", "processCount", why=f"it is no multiple of the {nodes} nodes")
            return {"type": "pytorch", "process_count_per_instance": processes // nodes}
        if communicator != "none":
            what = f"`communicator` is `{shown(str(self.values['communicator']))}`"
            remedy = (
                "known are `OpenMpi`, `IntelMpi`, with TensorFlow `ParameterServer`, with PyTorch `Nccl` and `Gloo`"
            )
            why = f"the framework is {shown(str(self.values.get('framework') or 'Python'))}"
            self.fault(what, "communicator", why=why, remedy=remedy)
        return None

    def resources(self) -> dict[str, Any]:
        run, of_environment = self.part("docker"), self.part("environment", "docker")
        arguments = run.get("arguments") or of_environment.get("arguments") or ()
        found = {
            "instance_count": self.nodes() if self.nodes() > 1 else None,
            "instance_type": self.part("kubernetescompute").get("instanceType"),
            "shm_size": run.get("shmSize") or of_environment.get("shmSize"),
            "docker_args": " ".join(self.quoted(arguments, "docker.arguments")),
        }
        return {key: value for key, value in found.items() if value}

    def limits(self) -> dict[str, Any]:
        seconds = self.values.get("maxRunDurationSeconds")
        return {"timeout": seconds} if seconds else {}

    def environment(self) -> Any:
        """Return the environment as a command job names it; None after a fault."""
        given = self.part("environment")
        docker, python = self.part("environment", "docker"), self.part("environment", "python")
        for key in ("baseDockerfile", "buildContext"):
            if docker.get(key):
                remedy = "write `image: {dockerfile: Dockerfile}` in aml-train.yml: it is built, tested and recorded"
                what = f"`environment.docker.{key}` is not built"
                self.fault(what, "environment", "docker", key, remedy=remedy)
                return None
        conda = python.get("condaDependenciesFile") or python.get("condaDependencies")
        if not docker.get("baseImage") and not conda:
            if given.get("name") and not python.get("userManagedDependencies"):
                version = given.get("version")
                return f"azureml:{given['name']}" + (f":{version}" if version else "@latest")
            remedy = "write `image: {base: …}` in aml-train.yml, or `environment.docker.baseImage`"
            self.fault("nothing says which image the job runs in", "environment", remedy=remedy)
            return None
        registry = docker.get("baseImageRegistry") or {}
        if registry.get("password"):
            self.fault(
                f"`{'.'.join(_PASSWORD)}` is not sent",
                *_PASSWORD,
                why="a password does not belong in a file",
                remedy="delete it; let the compute's identity pull (AcrPull), or make a connection of the workspace",
            )
        image = docker.get("baseImage") or DEFAULT_IMAGE
        found = {"image": f"{registry['address']}/{image}" if registry.get("address") else image}
        if python.get("userManagedDependencies") or not conda:
            return found
        if isinstance(conda, str):
            missing = kind_of(self.directory / conda)[0] != "file"
            why = "it is no file there" if missing else why_not_sent(self.directory, conda, self.directory)
            if why:
                what, remedy = (
                    f"`{'.'.join(_CONDA)}` names `{shown(conda)}`",
                    "write a path relative to the source directory",
                )
                self.fault(what, *_CONDA, why=why, remedy=remedy)
        return {**found, "conda_file": conda}


@dataclass(frozen=True, kw_only=True)
class _Data:
    """Translates the data of a run configuration.

    Attributes:
        inputs, outputs: what the job reads and writes, as a command job names it.
        variables: the environment variables that hold the paths: name → such as ``inputs.x``.
    """

    tree: MapNode
    values: Mapping[str, Any]
    faults: Faults
    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)

    def read(self) -> None:
        """Fill in the data.

        ``AZUREML_DATAREFERENCE_NAME`` holds a data reference's path; an input's is in the variable that it names, else in
        the one named like the input (azureml-core 1.61, ``DataReferenceConfiguration`` and ``Data``).
        """
        for name, given in (self.values.get("dataReferences") or {}).items():
            mode = str(given.get("mode") or "mount").lower()
            item = {
                "type": "uri_folder",
                "path": _datastore_path(given["dataStoreName"], given.get("pathOnDataStore")),
                "mode": mode if mode == "upload" else _MODES[mode],
            }
            self.refuse(given, "dataReferences", name, "pathOnCompute")
            kind = "outputs" if mode == "upload" else "inputs"
            self.add(kind, item, f"AZUREML_DATAREFERENCE_{name}", "dataReferences", name)
        for name, given in (self.values.get("data") or {}).items():
            location = self.location(given.get("dataLocation") or {}, "data", name, "dataLocation")
            self.refuse(given, "data", name, "pathOnCompute")
            if location is not None:
                modes = _OF_DATASETS if location["type"] == "mltable" else _MODES
                item = {**location, "mode": modes[_lower(given.get("mechanism"))]}
                self.add("inputs", item, given.get("environmentVariableName") or name, "data", name)
        for name, given in (self.values.get("outputData") or {}).items():
            item = {"type": "uri_folder"}
            if given.get("outputLocation"):
                location = self.location(given["outputLocation"], "outputData", name, "outputLocation")
                if location is None:
                    continue
                item |= {"path": location["path"]}
            if _says_something(given.get("additionalOptions")):
                remedy = "delete it; an output is registered by a command job's `outputs.NAME.name`"
                self.fault("is not supported", "outputData", name, "additionalOptions", remedy=remedy)
            item["mode"] = _INTO[_lower(given.get("mechanism"))]
            self.add("outputs", item, given.get("environmentVariableName") or name, "outputData", name)

    def fault(self, what: str, *keys: str, why: str = "", remedy: str = "") -> None:
        """Add a fault of the value under *keys*."""
        self.faults.add(place(self.tree, *keys), f"`{dotted(keys)}` {what}", why=why, remedy=remedy)

    def location(self, location: Mapping[str, Any], *keys: str) -> dict[str, str] | None:
        """Return a location as a job's input names it; None after a fault."""
        dataset, path, uri = (location.get(key) or {} for key in ("dataset", "dataPath", "uri"))
        if dataset.get("name"):
            version = dataset.get("version")
            reference = f"azureml:{dataset['name']}" + (f":{version}" if version else "@latest")
            return {"type": "mltable", "path": reference}
        if path.get("datastoreName"):
            return {"type": "uri_folder", "path": _datastore_path(path["datastoreName"], path.get("relativePath"))}
        if uri.get("path"):
            return {"type": "uri_file" if uri.get("isFile") else "uri_folder", "path": uri["path"]}
        why = "it names the dataset by its id alone" if dataset.get("id") else ""
        remedy = "give it `dataset: {name: …, version: …}`, `dataPath` or `uri`"
        self.fault("has no location of the data", *keys, why=why, remedy=remedy)
        return None

    def refuse(self, given: Mapping[str, Any], *keys: str) -> None:
        """Add a fault if the last of *keys* has a value."""
        if given.get(keys[-1]):
            why = "AzureML chooses the path in the job, and passes it in the variable"
            self.fault("is not supported", *keys, why=why, remedy="delete it")

    def add(self, kind: str, item: Mapping[str, Any], variable: str, *keys: str) -> None:
        """Add an item to the inputs or outputs, with the variable that holds its path."""
        name, where = keys[-1], place(self.tree, *keys)
        for what, text in (("name", name), ("variable", variable)):
            if not _NAME.fullmatch(text):
                self.faults.add(where, f"the {what} of `{dotted(keys)}` must be letters, digits and `_`")
                return
        if name in self.inputs or name in self.outputs:
            self.faults.add(where, f"there are two inputs or outputs named `{name}`", remedy="rename one")
            return
        (self.inputs if kind == "inputs" else self.outputs)[name] = dict(item)
        self.variables[variable] = f"{kind}.{name}"


def _says_something(options: object) -> bool:
    """Return whether any option differs from what azureml-core saves for none."""
    if isinstance(options, Mapping):
        return any(_says_something(value) for value in options.values())
    return bool(options)


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None


def _datastore_path(datastore: str, path: str | None) -> str:
    return f"azureml://datastores/{datastore}/paths/{(path or '').strip('/')}"
