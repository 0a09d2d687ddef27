"""A command job → the run configuration with which the SDK v1 submits it.

The fields are those of azureml-core 1.61 (``azureml.core.runconfig.RunConfiguration``), filled in as ``ScriptRunConfig`` does
for MpiConfiguration, PyTorchConfiguration and TensorflowConfiguration. A key without a field is a fault, with its line.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.job.grammar import snake
from aml_train.config.job.model import RunConfiguration
from aml_train.config.yaml.nodes import Faults, MapNode, dotted, shown, value_mark

_BY_V2: Final = "write `sdk: v2`"
_REFUSED: Final = {
    ("services",): ("its runs have no interactive services", _BY_V2),
    ("queue_settings",): ("it knows no tiers and priorities", _BY_V2),
    ("parent_job_name",): ("it makes child runs from inside the parent", _BY_V2),
    ("resources", "max_instance_count"): ("its runs are not elastic", _BY_V2),
    ("resources", "locations"): ("it has no serverless compute", "name a cluster under `compute`"),
    ("resources", "properties"): ("its run configurations have no such field", _BY_V2),
    ("outputs",): (
        "it passes the path of an output to the arguments of a script, and not to a command",
        "write into `./outputs`, which every run keeps, and name it by `model.path`; or write `sdk: v2`",
    ),
}
"""Keys that v1 has no field for: the reason, and the remedy."""

_MODES: Final = {"ro_mount": "mount", "download": "download"}
_DATASTORE_PATH: Final = re.compile(r"azureml://datastores/([A-Za-z0-9_]+)/paths/(.*)", re.DOTALL)
_NAMED: Final = re.compile(r"azureml:([A-Za-z0-9_][A-Za-z0-9._-]*)(?:([:@])([A-Za-z0-9._-]+))?")
_REFERENCE: Final = re.compile(r"\$\{\{\s*inputs\.([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_OPTIONAL: Final = re.compile(r"\$\[\[(.*?)\]\]", re.DOTALL)


def runconfig_of(
    tree: MapNode, document: Mapping[str, Any], prefix: str, *, has_image: bool, faults: Faults
) -> RunConfiguration:
    """Return the run configuration that does what a command job does.

    Args:
        tree: the job, with its overrides.
        document: what it says, checked.
        prefix: the dotted name of the job in its file.
        has_image: an image of ours replaces the environment.
        faults: takes keys that v1 has no field for.
    """
    return _Translation(tree=tree, document=document, prefix=prefix, faults=faults).run(has_image=has_image)


@dataclass(frozen=True, kw_only=True)
class _Translation:
    tree: MapNode
    document: Mapping[str, Any]
    prefix: str
    faults: Faults

    def part(self, key: str) -> Mapping[str, Any]:
        return self.document.get(key) or {}

    def fault(self, *keys: str, why: str, remedy: str = _BY_V2, what: str = "") -> None:
        name = dotted((*([self.prefix] if self.prefix else []), *keys))
        self.faults.add(
            value_mark(self.tree, *keys), f"`{name}`{what} cannot be submitted by the SDK v1", why=why, remedy=remedy
        )

    def run(self, *, has_image: bool) -> RunConfiguration:
        for keys, (why, remedy) in _REFUSED.items():
            found: Any = self.document
            for key in keys:
                found = (found or {}).get(key)
            if found:
                self.fault(*keys, why=why, remedy=remedy)
        self.code()
        references = self.references()
        command = self.command(references)
        nodes = int(self.part("resources").get("instance_count") or 1)
        docker = self.docker()
        values: dict[str, Any] = {
            "command": command,
            "nodeCount": nodes if nodes > 1 else None,
            "environmentVariables": dict(self.part("environment_variables")),
            "environment": None if has_image else self.environment(),
            "docker": {"useDocker": True, **docker} if docker else None,
            "maxRunDurationSeconds": self.part("limits").get("timeout"),
            "dataReferences": references,
            "credentialPassthrough": self.passes_credentials(),
            **self.distribution(nodes),
        }
        instance_type = self.part("resources").get("instance_type")
        if instance_type:
            values["kubernetescompute"] = {"instanceType": instance_type}
        return RunConfiguration(values={key: value for key, value in values.items() if value}, command=command)

    def code(self) -> None:
        if str(self.document.get("code") or "").startswith(("azureml:", "git+", "https://", "http://")):
            self.fault("code", why="it sends a local folder", remedy="name one, or write `sdk: v2`")

    def references(self) -> dict[str, Any]:
        """Return the data references that bring the inputs which are data."""
        found = {}
        for name, given in self.part("inputs").items():
            if not isinstance(given, dict) or "value" in given:
                continue
            path, mode = _DATASTORE_PATH.fullmatch(str(given["path"])), str(given.get("mode") or "ro_mount").lower()
            kind = str(given.get("type") or "uri_folder").lower()
            if path is None:
                remote = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", str(given["path"]))
                why = "an asset or an address need not be a dataset of v1" if remote else "it uploads no data"
                remedy = "write azureml://datastores/NAME/paths/PATH, or `sdk: v2`"
                self.fault("inputs", name, "path", why=why, remedy=remedy, what=f" (`{shown(str(given['path']))}`)")
            elif kind != "uri_folder":
                why = "its data references are folders"
                remedy = "give the folder as `uri_folder`, or write `sdk: v2`"
                self.fault("inputs", name, "type", why=why, remedy=remedy, what=f" (`{kind}`)")
            elif mode not in _MODES:
                remedy = "write `ro_mount` or `download`, or `sdk: v2`"
                self.fault("inputs", name, "mode", why="it mounts or downloads", remedy=remedy, what=f" (`{mode}`)")
            else:
                found[name] = {
                    "dataStoreName": path[1],
                    "pathOnDataStore": path[2].strip("/"),
                    "mode": _MODES[mode],
                    "overwrite": False,
                }
        return found

    def command(self, references: Mapping[str, Any]) -> str:
        """Return the command with its literal inputs, and with variables for paths."""
        inputs = self.part("inputs")

        def filled(match: re.Match[str]) -> str:
            given = inputs[match[1]]
            if match[1] in references:
                return f"${{AZUREML_DATAREFERENCE_{match[1]}}}"
            if isinstance(given, dict):
                return str(given["value"]) if "value" in given else ""
            return str(given)

        def kept(match: re.Match[str]) -> str:
            return match[1] if all(name in inputs for name in _REFERENCE.findall(match[1])) else ""

        text = _OPTIONAL.sub(kept, str(self.document["command"]))
        quoted = next((name for name in references if _in_single_quotes(text, name)), None)
        if quoted is not None:
            why = f"the shell puts in the path of `{quoted}`, and does not do so inside single quotes"
            self.fault("command", why=why, remedy="use double quotes, or write `sdk: v2`")
        return _REFERENCE.sub(filled, text)

    def environment(self) -> dict[str, Any] | None:
        """Return the environment that the job itself names."""
        given = self.document.get("environment")
        if isinstance(given, str):
            named = _NAMED.fullmatch(given)
            if named is None or (named[2] == "@" and named[3] != "latest"):
                why = "it knows environments of the workspace by name and version"
                remedy = "write azureml:NAME:VERSION, or `sdk: v2`"
                if given.startswith("file:"):
                    remedy = "write what the file says here, or `sdk: v2`"
                self.fault("environment", why=why, remedy=remedy, what=f" (`{shown(given)}`)")
                return None
            return {"name": named[1], "version": named[3] if named[2] == ":" else None}
        if not isinstance(given, dict):
            return None
        if "build" in given:
            remedy = "write `image: {dockerfile: …}` in aml-train.yml: it is built, tested and recorded"
            self.fault("environment", "build", why="it takes no folder with a Dockerfile", remedy=remedy)
            return None
        conda = given.get("conda_file")
        if isinstance(conda, str) and re.match(r"[A-Za-z][A-Za-z0-9+.-]+:", conda):
            remedy = "name a file of the project, or write `sdk: v2`"
            self.fault("environment", "conda_file", why="it reads a local file", remedy=remedy)
        python: dict[str, Any] = {"userManagedDependencies": conda is None}
        if conda is None:
            python["interpreterPath"] = "python"
        else:
            python["condaDependenciesFile" if isinstance(conda, str) else "condaDependencies"] = conda
        return {"docker": {"baseImage": given["image"]}, "python": python}

    def docker(self) -> dict[str, Any]:
        resources = self.part("resources")
        arguments = resources.get("docker_args") or ()
        try:
            words = shlex.split(arguments) if isinstance(arguments, str) else list(arguments)
        except ValueError as error:
            why = f"it takes single words, and the quotes do not match ({error})"
            self.fault("resources", "docker_args", why=why, remedy="write a list of words")
            words = []
        found = {"shmSize": resources.get("shm_size"), "arguments": words}
        return {key: value for key, value in found.items() if value}

    def distribution(self, nodes: int) -> dict[str, Any]:
        """Return the fields that say how processes start."""
        given = self.part("distribution")
        each = int(given.get("process_count_per_instance") or 1)
        match str(given.get("type") or "").lower():
            case "":
                return {}
            case "mpi":
                mpi = {"processCountPerNode": each, "nodeCount": nodes}
                return {"framework": "Python", "communicator": "IntelMpi", "mpi": mpi}
            case "pytorch":
                pytorch = {"communicationBackend": "Nccl", "processCount": each * nodes, "nodeCount": nodes}
                return {"framework": "PyTorch", "communicator": "Nccl", "pytorch": pytorch}
            case "tensorflow":
                tensorflow = {
                    "workerCount": int(given.get("worker_count") or nodes),
                    "parameterServerCount": int(given.get("parameter_server_count") or 0),
                }
                return {"framework": "TensorFlow", "communicator": "ParameterServer", "tensorflow": tensorflow}
            case kind:
                why = "it starts processes by MPI, PyTorch and TensorFlow"
                self.fault("distribution", "type", why=why, what=f" (`{kind}`)")
                return {}

    def passes_credentials(self) -> bool:
        kind = snake(str(self.part("identity").get("type") or ""))
        if kind and kind != "user_identity":
            why = "its runs have the compute's identity, or that of the user who submits them"
            remedy = "delete it, write `user_identity`, or `sdk: v2`"
            self.fault("identity", why=why, remedy=remedy, what=f" (`{kind}`)")
        return kind == "user_identity"


def _in_single_quotes(text: str, name: str) -> bool:
    """Return whether a reference to the input *name* is in single quotes."""
    quote, position, starts_word = "", 0, True
    while position < len(text):
        match = _REFERENCE.match(text, position)
        if match is not None:
            if quote == "'" and match[1] == name:
                return True
            position, starts_word = match.end(), False
            continue
        character = text[position]
        if character == "#" and starts_word and not quote:
            position = (text + "\n").index("\n", position)
            continue
        if character == "\\" and quote != "'":
            position += 1
        elif character in "'\"" and quote in ("", character):
            quote = "" if quote else character
        starts_word = character.isspace() or character in ";&|("
        position += 1
    return False
