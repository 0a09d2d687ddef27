"""The grammar of a command job's YAML, AzureML CLI v2.

The facts are those of azure-ai-ml 1.34.1 (``azure/ai/ml/_schema/job``), checked by loading jobs with it. This grammar
also refuses what it accepts and the service cannot run: an environment without an image, an input without a path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from aml_train.config.yaml.shapes import Anything, Choice, Flag, Literal, Number, Text, Variable
from aml_train.config.yaml.structures import Either, Items, Key, Record, Table, Variants
from aml_train.core.tags import AUTHOR_TAGS, KEY_LENGTH, VALUE_LENGTH, check_author_tag

NAME: Final = r"[A-Za-z_][A-Za-z0-9_]*"
ASSET_NAME: Final = r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}"
REMOTE_SCHEMES: Final = ("azureml", "http", "https", "wasb", "wasbs", "abfs", "abfss", "adl")
_ASSET: Final = r"azureml:(?:/subscriptions/[^\s]+|[A-Za-z0-9_][A-Za-z0-9._-]*(?:[:@][A-Za-z0-9._-]+)?)"
_REGISTRY: Final = r"azureml://(?:registries|feeds)/[^\s]+"
_DATA_MODES: Final = ("download", "ro_mount", "direct")
_TABLE_MODES: Final = (*_DATA_MODES, "eval_mount", "eval_download")
_DATA_TYPES: Final = ("uri_file", "uri_folder")
_MODEL_TYPES: Final = ("custom_model", "mlflow_model", "triton_model")


def lower(text: str) -> str:
    """Fold a word as azure-ai-ml does for most of its enumerations."""
    return text.lower()


def snake(text: str) -> str:
    """Fold a kind of identity like azure-ai-ml: ``UserIdentity``, ``user_identity``."""
    text = re.sub(r"(.)([A-Z][a-z]+)", r"\1_\2", text)
    return re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", text).lower()


def _environment_reference(text: str) -> None:
    if text.startswith("file:") and len(text) > len("file:"):
        return
    if re.fullmatch(f"{_ASSET}|{_REGISTRY}", text):
        return
    if re.fullmatch(r"[\w.-]+[:@][\w.-]+", text):
        raise ValueError(
            f"`{text}` lacks the prefix; write `azureml:{text}`, or for a container image {{image: {text}}}"
        )
    raise ValueError(f"it is `{text}`; a container image is written as {{image: …}}")


def _choice(*words: str) -> Choice:
    """Return the choice of words that azure-ai-ml compares without regard to case."""
    return Choice(words=words, fold=lower)


_PORT: Final = Number(noun="a port", minimum=1, maximum=65535, digits=True)
_PATH: Final = Text(noun="a path")
_NAME: Final = Text(noun="a name")


def _at_most(characters: int) -> Callable[[str], None]:
    """Return a rule for texts of AzureML, which refuses longer ones.

    https://learn.microsoft.com/azure/machine-learning/resource-limits-capacity#runs
    """

    def rule(text: str) -> None:
        if len(text) > characters:
            raise ValueError(f"it has {len(text):,} characters, and AzureML refuses more than {characters:,}")

    return rule


_RUN_NAME: Final = Text(noun="a name", rule=_at_most(256))
_DESCRIPTION: Final = Text(rule=_at_most(5000))
_ASSET_NAME: Final = Text(pattern=ASSET_NAME, noun="a name")
_MAPPING: Final = Table(noun="a mapping", value=Anything())
PROPERTIES: Final = Table(
    noun="a mapping of text to text",
    key=Text(noun="a property's name", rule=check_author_tag),
    value=Either(noun="text", scalar=Text(blank=True), nothing=True),
)


def _tag_name(text: str) -> None:
    """Raise ValueError for a name that is too long, or one of aml-train's own."""
    _at_most(KEY_LENGTH)(text)
    check_author_tag(text)


_TAG: Final = Text(blank=True, rule=_at_most(VALUE_LENGTH))
TAGS: Final = Table(
    noun="a mapping of text to text",
    key=Text(noun="a name", rule=_tag_name),
    value=Either(noun="text", scalar=_TAG, nothing=True),
    most=AUTHOR_TAGS,
)
_VERSION: Final = Either(
    noun="a version, as text or a whole number",
    scalar=Variable(noun="a version, as text or a whole number", secret=False, fractions=False),
)
ENVIRONMENT: Final = Record(
    noun="an environment",
    one_of=("image", "build"),
    ignored=(
        "id",
        "creation_context",
        "latest_version",
        "intellectual_property",
        "$schema",
        "inference_config",
        "auto_delete_setting",
    ),
    hints={
        "channels": "a conda file goes into `conda_file`, next to `image`",
        "dependencies": "a conda file goes into `conda_file`, next to `image`",
        "properties": "azure-ai-ml does not take properties of an environment; use `tags`",
        "docker": "write the image as `image: registry/repository:tag`",
    },
    keys={
        "image": Key(Text(noun="a container image"), "Container image that the environment starts from."),
        "conda_file": Key(
            Either(noun="the path of a conda file, or its contents", scalar=_PATH, keys=Anything()),
            "Conda environment added to the image: a path or the contents.",
        ),
        "build": Key(
            Record(
                noun="a build context",
                keys={
                    "path": Key(Text(noun="a folder"), "Folder of the build context.", required=True),
                    "dockerfile_path": Key(_PATH, "Dockerfile in that folder; `Dockerfile` by default."),
                },
            ),
            "Docker build context, instead of `image`.",
        ),
        "name": Key(_ASSET_NAME, "Name; not used for an inline environment."),
        "version": Key(_VERSION, "Version; not used for an inline environment."),
        "description": Key(Text(), "Free text."),
        "tags": Key(_MAPPING, "Tags."),
        "os_type": Key(_choice("linux", "windows"), "Operating system: `linux` or `windows`."),
        "datastore": Key(Text(noun="a datastore's name"), "Datastore that a local build context is uploaded to."),
    },
)

_INPUT_HINTS: Final = dict.fromkeys(
    ("default", "optional", "enum", "min", "max", "description"),
    "it belongs to components; a command job takes the value itself, such as `epochs: 5`",
)


def _data(types: tuple[str, ...], modes: tuple[str, ...]) -> Record:
    keys = {
        "type": Key(_choice(*types), "Type of the path: `uri_file`, `uri_folder`, `mltable`, or a model."),
        "path": Key(
            Text(noun="a path or address"),
            "Local path, `azureml:` reference, or https, wasbs, abfss address.",
            required=True,
        ),
        "mode": Key(_choice(*modes), "How the job gets it: `ro_mount`, `download`, `direct`, …"),
        "datastore": Key(Text(noun="a datastore's name"), "Datastore that a local path is uploaded to."),
    }
    unsent = {"path_on_compute": "azure-ai-ml does not pass it on; the command gets the path by `${{inputs.NAME}}`"}
    return Record(noun="an input", keys=keys, hints=_INPUT_HINTS | unsent)


_LITERAL_INPUT: Final = Record(
    noun="a literal input",
    keys={"value": Key(Literal(), "The literal value.", required=True)},
    hints=_INPUT_HINTS | {"type": "a literal input has only `value`"},
)
_INPUT_VARIANTS: Final = {
    **{kind: _data((*_DATA_TYPES,), _DATA_MODES) for kind in _DATA_TYPES},
    "mltable": _data(("mltable",), _TABLE_MODES),
    **{kind: _data(_MODEL_TYPES, _DATA_MODES) for kind in _MODEL_TYPES},
}
_ANY_INPUT: Final = _data((*_DATA_TYPES, "mltable", *_MODEL_TYPES), _TABLE_MODES)
INPUT: Final = Either(
    noun="a value, or a mapping with `type` and `path`",
    scalar=Literal(),
    keys=Variants(
        noun="an input",
        records=_INPUT_VARIANTS,
        fold=lower,
        untyped=_ANY_INPUT,
        marker=("value", _LITERAL_INPUT),
        remedy="a literal input is the value itself, such as `epochs: 5`",
    ),
)


def _output(versions: Mapping[str, Key], hints: Mapping[str, str]) -> Either:
    keys = {
        "type": Key(_choice(*_DATA_TYPES, "mltable", *_MODEL_TYPES), "Type of what the job writes."),
        "path": Key(Text(noun="an address"), "Destination: `azureml://datastores/NAME/paths/…`."),
        "mode": Key(_choice("mount", "rw_mount", "upload", "direct"), "How it gets there."),
        "name": Key(_ASSET_NAME, "Name that it is registered under."),
        **versions,
    }
    unknown = {
        "description": "azure-ai-ml does not take a description of an output",
        "early_available": "it belongs to components",
    }
    return Either(
        noun="a mapping with `type` and `path`, or nothing",
        nothing=True,
        keys=Record(noun="an output", hints={**unknown, **hints}, keys=keys),
    )


OUTPUT: Final = _output({"version": Key(_VERSION, "Version that it is registered under.")}, {})
"""An output of a pipeline, a node or a sweep."""

#: azure-ai-ml submits command jobs by 2025-01-01-preview alone, whose outputs have no ``assetVersion``
#: (Azure/azure-sdk-assets, test_command_job_register_output, March 2026).
COMMAND_OUTPUT: Final = _output(
    {}, {"version": "Azure refuses it in a command job (400); without it, the output becomes the next version"}
)


def count(noun: str, minimum: int = 1) -> Number:
    """Return the shape of a whole number, which may be in quotes."""
    return Number(noun=noun, minimum=minimum, digits=True)


SHM_SIZE: Final = Text(
    noun="a size such as `2g`", pattern="0*[1-9][0-9]*[bkmgBKMG]", remedy="use the units b, k, m, g"
)
VARIABLES: Final = Table(
    value=Variable(), noun="a mapping of names to text", key=Text(pattern=r"[^=\x00-\x20]+", noun="a name")
)


def _type(word: str) -> Key:
    return Key(_choice(word), f"`{word}`.", required=True)


_PER_INSTANCE: Final = Key(count("a whole number of processes"), "Processes on each node.")
DISTRIBUTION: Final = Variants(
    noun="a mapping with `type`",
    fold=lower,
    records={
        "mpi": Record(
            noun="an MPI distribution", keys={"type": _type("mpi"), "process_count_per_instance": _PER_INSTANCE}
        ),
        "pytorch": Record(
            noun="a PyTorch distribution",
            keys={"type": _type("pytorch"), "process_count_per_instance": _PER_INSTANCE},
            hints={"node_count": "write the number of nodes as `resources.instance_count`"},
        ),
        "tensorflow": Record(
            noun="a TensorFlow distribution",
            keys={
                "type": _type("tensorflow"),
                "worker_count": Key(count("a whole number of workers"), "Workers; `instance_count` by default."),
                "parameter_server_count": Key(
                    Number(noun="a whole number of servers", minimum=0, digits=True), "Parameter servers."
                ),
            },
        ),
        "ray": Record(
            noun="a Ray distribution",
            keys={
                "type": _type("ray"),
                "port": Key(_PORT, "Port of the head node."),
                "address": Key(Text(noun="an address"), "Address of the head node."),
                "include_dashboard": Key(Flag(words=True), "Whether the dashboard runs."),
                "dashboard_port": Key(_PORT, "Port of the dashboard."),
                "head_node_additional_args": Key(Text(), "More arguments for the head node."),
                "worker_node_additional_args": Key(Text(), "More arguments for the workers."),
            },
        ),
    },
)
RESOURCES: Final = Record(
    noun="resources",
    keys={
        "instance_count": Key(count("a whole number of nodes"), "Nodes."),
        "max_instance_count": Key(count("a whole number of nodes"), "Most nodes of an elastic job."),
        "instance_type": Key(Text(noun="a VM size"), "VM size, for serverless compute."),
        "shm_size": Key(SHM_SIZE, "Shared memory of the container, such as `2g`."),
        "docker_args": Key(
            Either(
                noun="text, or a list of arguments",
                scalar=Text(),
                items=Items(item=Text(noun="an argument"), noun="a list of arguments"),
            ),
            "More arguments of `docker run`.",
        ),
        "locations": Key(
            Items(item=Text(noun="a region"), noun="a list of regions"), "Regions, for serverless compute."
        ),
        "properties": Key(_MAPPING, "Settings of the compute."),
    },
)


IDENTITY: Final = Record(
    noun="a mapping with `type`",
    hints={"msi_resource_id": "azure-ai-ml fails on it; write `client_id`"},
    keys={
        "type": Key(
            Choice(words=("managed", "user_identity", "aml_token"), fold=snake, aliases=("managed_identity",)),
            "`managed`, `user_identity` or `aml_token`.",
            required=True,
        ),
        "client_id": Key(Text(noun="an ID"), "Client ID of a user-assigned identity."),
        "object_id": Key(Text(noun="an ID"), "Object ID of it."),
    },
)
SERVICE: Final = Record(
    noun="a mapping with `type`",
    hints={"job_service_type": "write it as `type`"},
    ignored=("endpoint", "status", "error_message"),
    keys={
        "type": Key(Text(noun="a kind of service"), "`ssh`, `tensor_board`, `jupyter_lab`, `vs_code`, or `Custom`."),
        "port": Key(_PORT, "Port that the service listens on."),
        "nodes": Key(Choice(words=("all",)), "`all` for every node; the first one by default."),
        "properties": Key(_MAPPING, "Settings of the service."),
        "ssh_public_keys": Key(Text(noun="public keys"), "Keys that may sign in over SSH."),
        "log_dir": Key(Text(noun="a folder"), "Folder of TensorBoard's logs."),
    },
)
NAMES: Final = Text(
    noun="letters, digits and `_`", pattern=NAME, remedy="start with a letter and use letters, digits and `_` only"
)
_NOT_A_COMMAND: Final = "aml-train runs jobs of type `command`, `pipeline` and `sweep`"
_OF_OTHERS: Final = "it belongs to jobs of another type: write `type: {}`"

JOB: Final = Record(
    noun="a command job",
    ignored=("id", "status", "creation_context", "log_files", "parameters"),
    hints={
        "is_deterministic": "it belongs to components",
        "component": "write the command itself",
        "priority": "write it as `queue_settings.priority`",
        "timeout": "write it as `limits.timeout`",
        "instance_count": "write it as `resources.instance_count`",
        "shm_size": "write it as `resources.shm_size`",
        "env": "did you mean `environment_variables`?",
        "image": "write it as `environment: {image: …}`, or as `image.base` in aml-train.yml",
        "jobs": _OF_OTHERS.format("pipeline"),
        "trial": _OF_OTHERS.format("sweep"),
        "search_space": _OF_OTHERS.format("sweep"),
    },
    keys={
        "$schema": Key(Text(noun="an address"), "Address of Azure's JSON Schema, for editors."),
        "type": Key(Choice(words=("command",), remedy=_NOT_A_COMMAND), "`command`; may be left out."),
        "command": Key(
            Text(noun="a shell command"),
            "Command line; `${{inputs.x}}` and `${{outputs.x}}` are filled in.",
            required=True,
        ),
        "code": Key(
            Text(noun="a folder, or an address"), "Folder of the code, relative to this file; or an address."
        ),
        "environment": Key(
            Either(
                noun="`azureml:NAME:VERSION`, `azureml:NAME@latest`, `file:PATH`, or a mapping",
                scalar=Text(
                    noun="`azureml:NAME:VERSION`, `azureml:NAME@latest`, `azureml://registries/…`, or `file:PATH`",
                    rule=_environment_reference,
                ),
                keys=ENVIRONMENT,
            ),
            "Environment of the job, unless `image` of aml-train.yml replaces it.",
        ),
        "environment_variables": Key(VARIABLES, "Environment variables of the job."),
        "inputs": Key(Table(value=INPUT, noun="a mapping of inputs", key=NAMES), "Literal values, and data."),
        "outputs": Key(
            Table(value=COMMAND_OUTPUT, noun="a mapping of outputs", key=NAMES),
            "Folders and files that the job writes.",
        ),
        "compute": Key(Text(noun="a compute's name"), "`azureml:NAME`, a name, an ARM ID, or `local`."),
        "resources": Key(RESOURCES, "Nodes, VM size, shared memory."),
        "distribution": Key(DISTRIBUTION, "How processes start: `mpi`, `pytorch`, `tensorflow` or `ray`."),
        "limits": Key(
            Record(
                noun="limits",
                keys={"timeout": Key(count("a time in whole seconds"), "Seconds after which the job is cancelled.")},
                hints={"trial_timeout": "it belongs to sweep jobs"},
            ),
            "Bounds of the job.",
        ),
        "queue_settings": Key(
            Record(
                noun="queue settings",
                keys={
                    "job_tier": Key(
                        _choice("spot", "basic", "standard", "premium", "null"),
                        "`spot`, `basic`, `standard`, `premium` or `null`.",
                    ),
                    "priority": Key(_choice("low", "medium", "high"), "`low`, `medium` or `high`."),
                },
            ),
            "Tier and priority in the queue.",
        ),
        "identity": Key(IDENTITY, "Who the job runs as: `managed`, `user_identity` or `aml_token`."),
        "services": Key(Table(value=SERVICE, noun="a mapping of services", key=NAMES), "Interactive services."),
        "name": Key(
            Text(noun="a name", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{0,254}"),
            "Start of the job's name, to which aml-train adds a hash; by default `experiment_name`, else the project's name.",
        ),
        "display_name": Key(_RUN_NAME, "Name shown in the studio."),
        "experiment_name": Key(_RUN_NAME, "Experiment that the job belongs to."),
        "description": Key(_DESCRIPTION, "Free text."),
        "tags": Key(TAGS, "Tags."),
        "properties": Key(PROPERTIES, "Properties."),
        "parent_job_name": Key(Text(noun="a job's name"), "Job that this one belongs to."),
    },
)
