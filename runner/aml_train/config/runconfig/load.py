"""A run configuration of the AzureML SDK v1 → the command job that does the same. What cannot be said so is a fault, by its line."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from aml_train.config.job.grammar import JOB
from aml_train.config.job.load import name_of, read_tree
from aml_train.config.model import CommandJob, RunConfig
from aml_train.config.overrides import Override, apply
from aml_train.config.runconfig.data import data_of
from aml_train.config.runconfig.environment import environment_of
from aml_train.config.runconfig.grammar import ENVIRONMENT, OF_THE_JOB, RUNCONFIG, camel, modernised, normalised
from aml_train.config.yaml.nodes import Entry, Faults, MapNode, ScalarNode, find, place, shown
from aml_train.config.yaml.source import kind_of

FOLDERS: Final = (".azureml", "aml_config")
"""Where azureml-core keeps run configurations, in the project's folder (``get_run_config_dir_name``)."""

SUFFIX: Final = ".runconfig"
_MPI: Final = frozenset({"openmpi", "intelmpi", "mpi"})
_MUST_BE_EMPTY: Final = {
    "datacaches": "data caches are not supported",
    "sourceDirectoryDataStore": "the code is sent as a snapshot",
    "autoClusterComputeSpecification": "name a compute under `target`",
    "applicationEndpoints": "interactive services need a command job: https://learn.microsoft.com/azure/machine-learning/how-to-interactive-jobs",
    "commandReturnCodeConfig": "exit code 0 is success, any other is not",
}
_VARIABLE: Final = re.compile(r"(\$AZUREML_DATAREFERENCE_\w+)")


@dataclass(frozen=True, kw_only=True)
class RunConfigSource:
    """A run configuration's tree, before it is checked.

    Attributes:
        tree: what was read.
        file: the file that it stands in.
        directory: the source directory: what is sent as code, and what its paths start from.
        more: what it does not say of the job, by the words of a command job.
    """

    tree: MapNode
    file: Path
    directory: Path
    more: Mapping[str, Entry] = field(default_factory=dict)


def source_directory(file: Path) -> Path:
    """Return the folder of the code where none is named: the project of a file in ``.azureml``, else the file's own."""
    return file.parent.parent if file.parent.name in FOLDERS else file.parent


def candidates(directory: Path) -> tuple[Path, ...]:
    """Return the run configurations that lie where azureml-core, and the action aml-run, look for them."""
    found = [path for folder in FOLDERS for path in sorted((directory / folder).glob(f"*{SUFFIX}"))]
    others = (directory / "code" / "train" / "run_config.yml", directory / "run_config.yml")
    return (*found, *(path for path in others if kind_of(path)[0] == "file"))


def find_file(directory: Path, text: str) -> Path:
    """Return the file that *text* means: a path, or as ``RunConfiguration.load`` takes it, a name in ``.azureml``."""
    plain = directory / text
    if "/" in text or kind_of(plain)[0] != "missing":
        return plain
    for folder in (*FOLDERS, "."):
        for name in (text, text + SUFFIX):
            if kind_of(directory / folder / name)[0] == "file":
                return directory / folder / name
    return plain


def check_runconfig(
    source: RunConfigSource, overrides: Sequence[Override], *, has_image: bool, project: Path, faults: Faults
) -> CommandJob | None:
    """Check a run configuration, and say it as a command job.

    Args:
        source: where it was read from.
        overrides: changes of ``--set job.…``: by the job's words for what only a job has, else by the configuration's.
        has_image: an image of ours replaces the environment.
        project: the folder that files are named from in complaints.
        faults: takes the complaints.

    Returns:
        The job; None where it is so wrong that there is nothing to check further.
    """
    own = [one for one in overrides if one.keys[0] not in OF_THE_JOB]
    tree = normalised(modernised(source.tree), RUNCONFIG, faults)
    changes = [
        Override(keys=tuple(map(camel, one.keys[:1])) + one.keys[1:], node=one.node, mark=one.mark) for one in own
    ]
    if not isinstance(tree, MapNode):  # pragma: no cover - a mapping stays one
        return None
    tree = _with_environment(apply(tree, changes, faults), source, project, faults)
    before = len(faults)
    values = {key: value for key, value in RUNCONFIG.check(tree, "", faults).items() if value is not None}
    if len(faults) > before:
        return None
    translation = _Translation(tree=tree, values=values, source=source, faults=faults)
    document = translation.document(has_image=has_image)
    more = apply(_tree_of(source), [one for one in overrides if one.keys[0] in OF_THE_JOB], faults)
    for key, entry in more.entries.items():
        document[key] = JOB.keys[key].shape.check(entry.node, key, faults)
    runconfig = RunConfig(values=values, command=translation.command() if not faults else "")
    return CommandJob(
        document=document,
        directory=source.directory,
        file=source.file,
        code=source.directory,
        runconfig=runconfig,
    )


def _tree_of(source: RunConfigSource) -> MapNode:
    return MapNode(mark=source.tree.mark, entries=dict(source.more))


def _with_environment(tree: MapNode, source: RunConfigSource, project: Path, faults: Faults) -> MapNode:
    """Put the environment in that is named by the path of its file."""
    node = find(tree, "environment")
    if not isinstance(node, ScalarNode) or node.kind != "text":
        return tree
    path = source.directory / node.text
    read = read_tree(path, node.mark, name_of(path, project), faults)
    inner = None if read is None else normalised(read, ENVIRONMENT, faults)
    entries = dict(tree.entries)
    if inner is None:
        del entries["environment"]
    else:
        entries["environment"] = Entry(mark=node.mark, node=inner)
    return MapNode(mark=tree.mark, entries=entries)


@dataclass(frozen=True, kw_only=True)
class _Translation:
    """One run configuration on its way to be a command job."""

    tree: MapNode
    values: Mapping[str, Any]
    source: RunConfigSource
    faults: Faults

    def part(self, *keys: str) -> Mapping[str, Any]:
        found: Any = self.values
        for key in keys:
            found = (found or {}).get(key)
        return found or {}

    def fault(self, what: str, *keys: str, why: str = "", remedy: str = "") -> None:
        node = find(self.tree, *keys)
        mark = node.mark if isinstance(node, ScalarNode) else place(self.tree, *keys)
        self.faults.add(mark, what, why=why, remedy=remedy)

    def document(self, *, has_image: bool) -> dict[str, Any]:
        self.refuse()
        data = data_of(self.tree, self.values, self.faults)
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
            found["environment"] = environment_of(self.tree, self.values, self.source.directory, self.faults)
        return {key: value for key, value in found.items() if value}

    def refuse(self) -> None:
        """Complain of what is used and cannot be done."""
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
        found, why = kind_of(self.source.directory / path)
        if found != "file" or path.startswith(".."):
            remedy = "write a path relative to the source directory"
            self.fault(f"`script` names `{shown(script)}`", "script", why=why or "it is no file there", remedy=remedy)
        words = [self.interpreter(), Path(path).as_posix(), *(self.values.get("arguments") or ())]
        return " ".join(self.quoted(words, "arguments"))

    def interpreter(self) -> str:
        python = self.part("environment", "python")
        return (python.get("interpreterPath") or "python") if python.get("userManagedDependencies") else "python"

    def quoted(self, words: Sequence[object], key: str) -> list[str]:
        """Return words for the shell, which fills in the variables of data references, as AzureML does."""
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
            why = f"the framework is {self.values.get('framework') or 'Python'}"
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
