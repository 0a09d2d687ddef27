"""The grammar of a run configuration (``.runconfig``) of the AzureML SDK v1.

The facts are those of azureml-core 1.61 (``azureml.core.runconfig.RunConfiguration`` and the classes of its fields; what
``RunConfiguration.save`` writes is all of them, with their defaults). Every field may be null there. Keys may be written in
camelCase, snake_case or TitleCase, as ``RunConfiguration.load`` takes them (``_check_camel_case_keys``).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from aml_train.config.job.grammar import SHM_SIZE, VARIABLES, count, lower
from aml_train.config.yaml.nodes import Entry, Faults, ListNode, MapNode, Node, shown
from aml_train.config.yaml.shapes import Anything, Choice, Flag, Literal, Number, Shape, Text, Variable
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table

ANYTHING: Final = Anything()


def _record(noun: str, keys: Mapping[str, Shape], *, required: str = "") -> Record:
    """Return a mapping whose values may be null, except that of *required*."""
    of = {key: Key(shape, "", required=key == required) for key, shape in keys.items()}
    return Record(noun=noun, keys=of, nullable=True)


TEXT: Final = Text(blank=True)
FLAG: Final = Flag(words=True)
_WORDS: Final = Items(item=Literal(), noun="a list of words")
_DATASTORE: Final = Text(noun="a datastore's name", pattern=r"[A-Za-z0-9_]+")

_DOCKER_RUN: Final[dict[str, Shape]] = {"sharedVolumes": FLAG, "shmSize": SHM_SIZE, "arguments": _WORDS}
_DATA_PATH: Final = _record("a mapping with `datastoreName`", {"datastoreName": _DATASTORE, "relativePath": TEXT})
_LOCATION: Final = _record(
    "a mapping with `dataset`, `dataPath` or `uri`",
    {
        "dataset": _record(
            "a mapping with `name` and `version`",
            {"id": TEXT, "name": TEXT, "version": Variable(noun="a version", secret=False, fractions=False)},
        ),
        "dataPath": _DATA_PATH,
        "uri": _record("a mapping with `path`", {"path": TEXT, "isFile": FLAG}),
    },
)
DATA_REFERENCE: Final = _record(
    "a data reference",
    {
        "dataStoreName": _DATASTORE,
        "pathOnDataStore": TEXT,
        "mode": Choice(words=("mount", "download", "upload"), fold=lower),
        "overwrite": FLAG,
        "pathOnCompute": TEXT,
    },
    required="dataStoreName",
)
DATA: Final = _record(
    "an input",
    {
        "dataLocation": _LOCATION,
        "mechanism": Choice(words=("mount", "download", "direct"), fold=lower),
        "environmentVariableName": TEXT,
        "createOutputDirectories": FLAG,
        "pathOnCompute": TEXT,
        "overwrite": FLAG,
        "options": ANYTHING,
    },
    required="dataLocation",
)
OUTPUT_DATA: Final = _record(
    "an output",
    {
        "outputLocation": _LOCATION,
        "mechanism": Choice(words=("mount", "upload"), fold=lower),
        "additionalOptions": ANYTHING,
        "environmentVariableName": TEXT,
    },
)
PYTHON: Final = _record(
    "a mapping",
    {
        "userManagedDependencies": FLAG,
        "interpreterPath": TEXT,
        "condaDependenciesFile": Text(noun="a path"),
        "condaDependencies": ANYTHING,
        "baseCondaEnvironment": TEXT,
    },
)
DOCKER: Final = _record(
    "a mapping",
    {
        "enabled": FLAG,
        "baseImage": TEXT,
        "baseDockerfile": TEXT,
        "buildContext": ANYTHING,
        "baseImageRegistry": _record(
            "a mapping",
            {
                "address": TEXT,
                "username": TEXT,
                "password": Text(blank=True, secret=True),
                "registryIdentity": ANYTHING,
            },
        ),
        "platform": ANYTHING,
        "gpuSupport": FLAG,
        **_DOCKER_RUN,
    },
)
ENVIRONMENT: Final = _record(
    "an environment",
    {
        "name": TEXT,
        "version": Variable(noun="a version", secret=False, fractions=False),
        "environmentVariables": VARIABLES,
        "python": PYTHON,
        "docker": DOCKER,
        "spark": ANYTHING,
        "databricks": ANYTHING,
        "r": ANYTHING,
        "inferencingStackVersion": TEXT,
        "assetId": TEXT,
    },
)
RUNCONFIG: Final = _record(
    "a run configuration",
    {
        "script": TEXT,
        "arguments": _WORDS,
        "command": Either(noun="a command, or its words", scalar=TEXT, items=_WORDS),
        "target": TEXT,
        "framework": Text(),
        "communicator": Text(),
        "autoPrepareEnvironment": ANYTHING,
        "maxRunDurationSeconds": count("a time in whole seconds"),
        "nodeCount": count("a whole number of nodes"),
        "priority": Number(noun="a whole number"),
        "environment": Either(
            noun="an environment, or the path of its file", scalar=Text(noun="a path"), keys=ENVIRONMENT
        ),
        "environmentVariables": VARIABLES,
        "history": _record(
            "a mapping", {"outputCollection": FLAG, "snapshotProject": FLAG, "directoriesToWatch": ANYTHING}
        ),
        "docker": _record("a mapping", {"useDocker": FLAG, **_DOCKER_RUN}),
        "mpi": _record(
            "a mapping",
            {
                "processCountPerNode": count("a whole number of processes"),
                "nodeCount": count("a whole number of nodes"),
            },
        ),
        "pytorch": _record(
            "a mapping",
            {
                "communicationBackend": Choice(words=("nccl", "gloo"), fold=lower),
                "processCount": count("a whole number of processes"),
                "nodeCount": count("a whole number of nodes"),
            },
        ),
        "tensorflow": _record(
            "a mapping",
            {
                "workerCount": count("a whole number of workers"),
                "parameterServerCount": count("a whole number of servers", 0),
            },
        ),
        "dataReferences": Table(noun="a mapping of data references", value=DATA_REFERENCE),
        "data": Table(noun="a mapping of inputs", value=DATA),
        "outputData": Table(noun="a mapping of outputs", value=OUTPUT_DATA),
        "amlcompute": ANYTHING,
        "kubernetescompute": _record("a mapping", {"instanceType": TEXT}),
        "credentialPassthrough": FLAG,
        **dict.fromkeys(
            (
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
            ),
            ANYTHING,
        ),
    },
)
OF_THE_JOB: Final = ("experiment_name", "name", "display_name", "description", "tags", "properties")
"""Keys of a command job that a run configuration has not."""

SIGNS: Final = frozenset(
    {
        "script", "arguments", "target", "framework", "communicator", "history", "nodeCount", "maxRunDurationSeconds",
        "dataReferences", "amlcompute", "autoPrepareEnvironment", "outputData",
    }
)  # fmt: skip
"""Keys that a run configuration has and a command job of the CLI v2 has not."""


def camel(key: str) -> str:
    """Return a key in camelCase, as azureml-core reads it (``to_camel_case``)."""
    first, *others = key.split("_")
    return first[:1].lower() + first[1:] + "".join(part.title() for part in others)


def is_runconfig(tree: MapNode) -> bool:
    """Return whether a file is a run configuration rather than a job."""
    return bool({camel(key) for key in tree.entries} & SIGNS)


def normalised(node: Node, shape: Shape, faults: Faults) -> Node:
    """Return *node* with the keys that *shape* knows in camelCase; others stay."""
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
