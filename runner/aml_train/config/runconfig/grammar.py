"""The grammar of a run configuration of the AzureML SDK v1 (a ``.runconfig`` file).

The facts are those of azureml-core 1.61 (``azureml.core.runconfig.RunConfiguration`` and the classes of its fields; what
``RunConfiguration.save`` writes is all of them, with their defaults). Every field may be null there. Keys may be written in
camelCase, snake_case or TitleCase, as ``RunConfiguration.load`` takes them (``_check_camel_case_keys``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.yaml.nodes import Entry, Faults, ListNode, MapNode, Node, ScalarNode, shown
from aml_train.config.yaml.shapes import Anything, Choice, Flag, Literal, Number, Shape, Text, Variable
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table

ANYTHING: Final = Anything()


@dataclass(frozen=True, kw_only=True)
class Nullable:
    """A shape, or null."""

    shape: Shape

    @property
    def noun(self) -> str:
        return self.shape.noun

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if isinstance(node, ScalarNode) and node.kind == "null":
            return None
        return self.shape.check(node, name, faults)

    def schema(self) -> dict[str, Any]:
        return {"anyOf": [self.shape.schema(), {"type": "null"}]}


def _lower(text: str) -> str:
    return text.lower()


def _maybe(shape: Shape, text: str) -> Key:
    return Key(Nullable(shape=shape), text)


def _record(noun: str, keys: Mapping[str, Key]) -> Record:
    return Record(noun=noun, keys=keys)


def _count(noun: str, minimum: int = 1) -> Number:
    return Number(noun=noun, minimum=minimum, digits=True)


TEXT: Final = Text(blank=True)
FLAG: Final = Flag(words=True)
_WORDS: Final = Items(item=Literal(), noun="a list of words")
_VARIABLES: Final = Table(
    noun="a mapping of names to text", value=Variable(), key=Text(noun="a name", pattern=r"[^=\x00-\x20]+")
)
_SHM: Final = Text(noun="a size such as `2g`", pattern="0*[1-9][0-9]*[bkmgBKMG]", remedy="use the units b, k, m, g")
_DATASTORE: Final = Text(noun="a datastore's name", pattern=r"[A-Za-z0-9_]+")

DOCKER_RUN: Final = {
    "sharedVolumes": _maybe(FLAG, "Without effect on clusters."),
    "shmSize": _maybe(_SHM, "Shared memory of the container."),
    "arguments": _maybe(_WORDS, "More arguments of `docker run`."),
}
_DATA_PATH: Final = _record(
    "a mapping with `datastoreName`",
    {
        "datastoreName": _maybe(_DATASTORE, "The datastore."),
        "relativePath": _maybe(TEXT, "A path in it."),
    },
)
_LOCATION: Final = _record(
    "a mapping with `dataset`, `dataPath` or `uri`",
    {
        "dataset": _maybe(
            _record(
                "a mapping with `name` and `version`",
                {
                    "id": _maybe(TEXT, "The dataset's id."),
                    "name": _maybe(TEXT, "Its name."),
                    "version": _maybe(Variable(noun="a version", secret=False, fractions=False), "Its version."),
                },
            ),
            "A registered dataset.",
        ),
        "dataPath": _maybe(_DATA_PATH, "A path on a datastore."),
        "uri": _maybe(
            _record("a mapping with `path`", {"path": _maybe(TEXT, "An address."), "isFile": _maybe(FLAG, "")}),
            "An address.",
        ),
    },
)
DATA_REFERENCE: Final = _record(
    "a data reference",
    {
        "dataStoreName": Key(_DATASTORE, "The datastore.", required=True),
        "pathOnDataStore": _maybe(TEXT, "A path in it."),
        "mode": _maybe(Choice(words=("mount", "download", "upload"), fold=_lower), "How the job gets it."),
        "overwrite": _maybe(FLAG, ""),
        "pathOnCompute": _maybe(TEXT, ""),
    },
)
DATA: Final = _record(
    "an input",
    {
        "dataLocation": Key(_LOCATION, "Where the data is.", required=True),
        "mechanism": _maybe(Choice(words=("mount", "download", "direct"), fold=_lower), "How the job gets it."),
        "environmentVariableName": _maybe(TEXT, "The variable that tells the path."),
        "createOutputDirectories": _maybe(FLAG, ""),
        "pathOnCompute": _maybe(TEXT, ""),
        "overwrite": _maybe(FLAG, ""),
        "options": _maybe(ANYTHING, ""),
    },
)
OUTPUT_DATA: Final = _record(
    "an output",
    {
        "outputLocation": _maybe(_LOCATION, "Where the output is stored."),
        "mechanism": _maybe(Choice(words=("mount", "upload"), fold=_lower), "How it gets there."),
        "additionalOptions": _maybe(ANYTHING, ""),
        "environmentVariableName": _maybe(TEXT, "The variable that tells the path."),
    },
)
PYTHON: Final = _record(
    "a mapping",
    {
        "userManagedDependencies": _maybe(FLAG, "Whether the image has all packages."),
        "interpreterPath": _maybe(TEXT, "The Python in the image."),
        "condaDependenciesFile": _maybe(Text(noun="a path"), "A conda file, relative to the project."),
        "condaDependencies": _maybe(ANYTHING, "The contents of a conda file."),
        "baseCondaEnvironment": _maybe(TEXT, ""),
    },
)
DOCKER: Final = _record(
    "a mapping",
    {
        "enabled": _maybe(FLAG, ""),
        "baseImage": _maybe(TEXT, "The image."),
        "baseDockerfile": _maybe(TEXT, "The text of a Dockerfile, or its path."),
        "buildContext": _maybe(ANYTHING, "A Docker build context."),
        "baseImageRegistry": _maybe(
            _record(
                "a mapping",
                {
                    "address": _maybe(TEXT, "The registry's host."),
                    "username": _maybe(TEXT, ""),
                    "password": _maybe(Text(blank=True, secret=True), ""),
                    "registryIdentity": _maybe(ANYTHING, ""),
                },
            ),
            "The registry that the image is in.",
        ),
        "platform": _maybe(ANYTHING, ""),
        "gpuSupport": _maybe(FLAG, ""),
        **DOCKER_RUN,
    },
)
ENVIRONMENT: Final = _record(
    "an environment",
    {
        "name": _maybe(TEXT, "Its name."),
        "version": _maybe(Variable(noun="a version", secret=False, fractions=False), "Its version."),
        "environmentVariables": _maybe(_VARIABLES, "Variables of the job."),
        "python": _maybe(PYTHON, "The Python."),
        "docker": _maybe(DOCKER, "The image."),
        "spark": _maybe(ANYTHING, ""),
        "databricks": _maybe(ANYTHING, ""),
        "r": _maybe(ANYTHING, ""),
        "inferencingStackVersion": _maybe(TEXT, ""),
        "assetId": _maybe(TEXT, ""),
    },
)
RUNCONFIG: Final = _record(
    "a run configuration",
    {
        "script": _maybe(TEXT, "The script, relative to the source directory."),
        "arguments": _maybe(_WORDS, "Its arguments."),
        "command": _maybe(Either(noun="a command, or its words", scalar=TEXT, items=_WORDS), "Instead of a script."),
        "target": _maybe(TEXT, "The compute."),
        "framework": _maybe(Text(), "`Python`, `PyTorch` or `TensorFlow`."),
        "communicator": _maybe(Text(), "`None`, `OpenMpi`, `IntelMpi`, `ParameterServer`, `Nccl` or `Gloo`."),
        "autoPrepareEnvironment": _maybe(ANYTHING, "Without effect since long."),
        "maxRunDurationSeconds": _maybe(_count("a time in whole seconds"), "Bound of the run."),
        "nodeCount": _maybe(_count("a whole number of nodes"), "Nodes."),
        "priority": _maybe(Number(noun="a whole number"), "Without effect on clusters."),
        "environment": _maybe(
            Either(noun="an environment, or the path of its file", scalar=Text(noun="a path"), keys=ENVIRONMENT), ""
        ),
        "environmentVariables": _maybe(_VARIABLES, "Variables of the job."),
        "history": _maybe(
            _record(
                "a mapping",
                {
                    "outputCollection": _maybe(FLAG, ""),
                    "snapshotProject": _maybe(FLAG, ""),
                    "directoriesToWatch": _maybe(ANYTHING, ""),
                },
            ),
            "",
        ),
        "docker": _maybe(_record("a mapping", {"useDocker": _maybe(FLAG, ""), **DOCKER_RUN}), "The container."),
        "mpi": _maybe(
            _record(
                "a mapping",
                {
                    "processCountPerNode": _maybe(_count("a whole number of processes"), ""),
                    "nodeCount": _maybe(_count("a whole number of nodes"), ""),
                },
            ),
            "",
        ),
        "pytorch": _maybe(
            _record(
                "a mapping",
                {
                    "communicationBackend": _maybe(Choice(words=("nccl", "gloo"), fold=_lower), ""),
                    "processCount": _maybe(_count("a whole number of processes"), ""),
                    "nodeCount": _maybe(_count("a whole number of nodes"), ""),
                },
            ),
            "",
        ),
        "tensorflow": _maybe(
            _record(
                "a mapping",
                {
                    "workerCount": _maybe(_count("a whole number of workers"), ""),
                    "parameterServerCount": _maybe(_count("a whole number of servers", 0), ""),
                },
            ),
            "",
        ),
        "dataReferences": _maybe(Table(noun="a mapping of data references", value=DATA_REFERENCE), ""),
        "data": _maybe(Table(noun="a mapping of inputs", value=DATA), ""),
        "outputData": _maybe(Table(noun="a mapping of outputs", value=OUTPUT_DATA), ""),
        "amlcompute": _maybe(ANYTHING, ""),
        "kubernetescompute": _maybe(
            _record("a mapping", {"instanceType": _maybe(TEXT, "Instance type of a Kubernetes compute.")}), ""
        ),
        "credentialPassthrough": _maybe(FLAG, "Whether the job runs as whoever submits it."),
        **{
            key: _maybe(ANYTHING, "")
            for key in (
                "spark",
                "hdi",
                "paralleltask",
                "datacaches",
                "sourceDirectoryDataStore",
                "autoClusterComputeSpecification",
                "applicationEndpoints",
                "containerInstance",
                "cmk8sCompute",
                "commandReturnCodeConfig",
            )
        },
    },
)
_OLD_KEYS: Final = {
    "argumentVector": ("arguments",),
    "condaDependenciesFile": ("environment", "python", "condaDependenciesFile"),
    "trackedRun": ("history", "outputCollection"),
    "environmentVariables": ("environmentVariables",),
}
"""Keys of the first run configurations (``_load_legacy_runconfig``), written in TitleCase, and where they stand now."""

IGNORED_OLD_KEYS: Final = ("prepareEnvironment", "useSampling", "jobName", "sparkDependenciesFile")
OF_THE_JOB: Final = ("experiment_name", "name", "display_name", "description", "tags", "properties")
"""What a run configuration does not say, and a command job does, in that one's words."""

SIGNS: Final = frozenset(
    {
        "script", "arguments", "target", "framework", "communicator", "history", "nodeCount", "maxRunDurationSeconds",
        "dataReferences", "argumentVector", "amlcompute", "autoPrepareEnvironment", "outputData",
    }
)  # fmt: skip
"""Keys that a run configuration has and a command job of the CLI v2 has not."""


def camel(key: str) -> str:
    """Return a key in camelCase, as azureml-core reads it (``to_camel_case``)."""
    first, *others = key.split("_")
    return first[:1].lower() + first[1:] + "".join(part.title() for part in others)


def is_runconfig(tree: MapNode) -> bool:
    """Tell whether a file is a run configuration rather than a command job or an aml-train.yml."""
    return bool({camel(key) for key in tree.entries} & SIGNS)


def normalised(node: Node, shape: Shape, faults: Faults) -> Node:
    """Return *node* with the keys that *shape* knows in camelCase; keys of the user's own stay as they are."""
    if isinstance(shape, Nullable):
        return normalised(node, shape.shape, faults)
    if isinstance(shape, Either) and isinstance(node, MapNode) and shape.keys is not None:
        return normalised(node, shape.keys, faults)
    if isinstance(shape, Items) and isinstance(node, ListNode):
        return ListNode(mark=node.mark, items=tuple(normalised(item, shape.item, faults) for item in node.items))
    if not isinstance(node, MapNode):
        return node
    if isinstance(shape, Table):
        return MapNode(
            mark=node.mark,
            entries={
                key: Entry(mark=entry.mark, node=normalised(entry.node, shape.value, faults))
                for key, entry in node.entries.items()
            },
        )
    if not isinstance(shape, Record):
        return node
    entries: dict[str, Entry] = {}
    for key, entry in node.entries.items():
        name = camel(key)
        if name in entries:
            faults.add(entry.mark, f"the key `{shown(key)}` is given twice", why="it is the same in camelCase")
            continue
        known = shape.keys.get(name)
        inner = entry.node if known is None else normalised(entry.node, known.shape, faults)
        entries[name if known is not None else key] = Entry(mark=entry.mark, node=inner)
    return MapNode(mark=node.mark, entries=entries)


def modernised(tree: MapNode) -> MapNode:
    """Return a run configuration of the first kind, whose keys were TitleCase, with the keys of today."""
    entries = {camel(key): entry for key, entry in tree.entries.items()}
    if "argumentVector" not in entries:
        return tree
    found: dict[str, Entry] = {}
    for name, entry in entries.items():
        if name in IGNORED_OLD_KEYS:
            continue
        _put(found, _OLD_KEYS.get(name, (name,)), entry)
    words = found["arguments"].node
    if isinstance(words, ListNode) and words.items:
        found["script"] = Entry(mark=found["arguments"].mark, node=words.items[0])
        found["arguments"] = Entry(
            mark=found["arguments"].mark, node=ListNode(mark=words.mark, items=words.items[1:])
        )
    return MapNode(mark=tree.mark, entries=found)


def _put(entries: dict[str, Entry], keys: tuple[str, ...], entry: Entry) -> None:
    """Put *entry* under *keys*, in mappings that are made on the way."""
    first, *rest = keys
    if not rest:
        entries[first] = entry
        return
    inner: dict[str, Entry] = {}
    old = entries.get(first)
    if old is not None and isinstance(old.node, MapNode):
        inner.update(old.node.entries)
    _put(inner, tuple(rest), entry)
    entries[first] = Entry(mark=entry.mark, node=MapNode(mark=entry.mark, entries=inner))
