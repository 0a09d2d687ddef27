"""The types of the fields of jobs, as the clients declare them. Pure.

Those of ``CommandJob`` in AzureML's REST API, 2025-01-01-preview, and of ``RunConfiguration`` of azureml-core 1.61. Their
values are checked by `aml_emulator.domain.jobs.check` and `aml_emulator.domain.jobs.from_runconfig`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_emulator.domain.environments import DOCKER
from aml_emulator.schema import FLAG, NUMBER, OBJECT, TEXT, WHOLE, WORD, WORDS, Either, Fields, ListOf, MapOf, Whole

INPUT = Fields({"jobInputType": TEXT, "mode": TEXT, "uri": TEXT, "value": WORD, "description": TEXT})
OUTPUT = Fields(
    {"jobOutputType": TEXT, "mode": TEXT, "uri": TEXT, "assetName": TEXT, "assetVersion": WORD, "description": TEXT}
)

JOB_CHANGES = Fields({"displayName": TEXT, "description": TEXT, "tags": WORDS, "isArchived": FLAG})
"""The fields of a job that may change."""

RESOURCES = Fields(
    {
        "dockerArgs": TEXT,
        "dockerArgsList": ListOf(WORD),
        "instanceType": TEXT,
        "locations": ListOf(TEXT),
        "properties": OBJECT,
        "shmSize": TEXT,
    }
)

JOB_SHAPE = Fields(
    # Also those that nothing here reads by itself: a job with any further field is refused.
    {
        **JOB_CHANGES.fields,
        "jobType": TEXT,
        "command": TEXT,
        "codeId": TEXT,
        "environmentId": TEXT,
        "computeId": TEXT,
        "experimentName": TEXT,
        "parentJobName": TEXT,
        "properties": WORDS,
        "environmentVariables": WORDS,
        "inputs": MapOf(INPUT),
        "outputs": MapOf(OUTPUT),
        "services": MapOf(Fields({"jobServiceType": WORD})),
        "identity": Fields({"identityType": TEXT, "clientId": TEXT}),
        "queueSettings": Fields({"jobTier": TEXT, "priority": WHOLE}),
        "resources": RESOURCES,
        "distribution": Fields({"distributionType": TEXT}),
        "limits": Fields({"timeout": TEXT}),
    }
)

_NODE_INPUT = Fields({"job_input_type": TEXT, "mode": TEXT, "uri": TEXT, "value": WORD})
_NODE_OUTPUT = Fields(
    {"type": TEXT, "mode": TEXT, "uri": TEXT, "value": TEXT, "asset_name": TEXT, "asset_version": WORD}
)
NODE_SHAPE = Fields(
    {
        **dict.fromkeys(("type", "componentId", "computeId", "display_name", "description", "input_data"), TEXT),
        **dict.fromkeys(("error_threshold", "mini_batch_error_threshold", "mini_batch_size"), WORD),
        "max_concurrency_per_instance": WORD,
        # azure-ai-ml sends a list of a node as JSON in a text, and one of a component as it is.
        "partition_keys": Either(TEXT, ListOf(WORD)),
        **dict.fromkeys(
            (
                "distribution",
                "early_termination",
                "environment_variables",
                "identity",
                "limits",
                "objective",
                "properties",
                "queue_settings",
                "resources",
                "retry_settings",
                "settings",
                "tags",
                "task",
                "trial",
            ),
            OBJECT,
        ),
        "inputs": MapOf(Either(WORD, _NODE_INPUT)),
        "outputs": MapOf(Either(TEXT, _NODE_OUTPUT)),
        "sampling_algorithm": Either(TEXT, OBJECT),
        "search_space": MapOf(OBJECT),
    }
)
"""The fields of a pipeline's node; those of the job that it becomes are checked as any job's."""

COMPONENT_SHAPE = Fields(
    {
        **dict.fromkeys(("name", "type", "command"), TEXT),
        **dict.fromkeys(("distribution", "environment_variables", "limits", "resources", "settings"), OBJECT),
        **{name: NODE_SHAPE.fields[name] for name in ("input_data", "partition_keys", "retry_settings", "task")},
        "inputs": MapOf(Fields({"values": OBJECT})),
        "outputs": MapOf(OBJECT),
        "jobs": MapOf(NODE_SHAPE),
    }
)
"""The fields of a ``componentSpec`` that runs as a node."""

PIPELINE_SHAPE = Fields(
    {
        **JOB_CHANGES.fields,
        "jobType": TEXT,
        "computeId": TEXT,
        "experimentName": TEXT,
        "parentJobName": TEXT,
        "properties": WORDS,
        "inputs": MapOf(INPUT),
        "outputs": MapOf(OUTPUT),
        "services": OBJECT,
        "identity": Fields({"identityType": TEXT, "clientId": TEXT}),
        "jobs": MapOf(NODE_SHAPE),
        "settings": OBJECT,
    }
)
"""The fields of ``PipelineJob``."""

SWEEP_SHAPE = Fields(
    {
        **PIPELINE_SHAPE.fields,
        "objective": Fields({"goal": TEXT, "primaryMetric": TEXT}),
        "searchSpace": OBJECT,
        "samplingAlgorithm": Fields({"samplingAlgorithmType": TEXT, "rule": TEXT, "seed": WHOLE}),
        "limits": Fields(
            {"maxTotalTrials": WHOLE, "maxConcurrentTrials": WHOLE, "timeout": TEXT, "trialTimeout": TEXT}
        ),
        "earlyTermination": Fields(
            {
                "policyType": TEXT,
                "delayEvaluation": WHOLE,
                "evaluationInterval": WHOLE,
                "slackAmount": NUMBER,
                "slackFactor": NUMBER,
                "truncationPercentage": WHOLE,
            }
        ),
        "queueSettings": JOB_SHAPE.fields["queueSettings"],
        "resources": JOB_SHAPE.fields["resources"],
        "trial": Fields(
            {
                name: JOB_SHAPE.fields[name]
                for name in (
                    "codeId",
                    "command",
                    "distribution",
                    "environmentId",
                    "environmentVariables",
                    "resources",
                )
            }
        ),
    }
)
"""The fields of ``SweepJob``."""

_COUNT = Whole(low=0, high=1_000_000)
_DATASET = Fields({"id": WORD, "name": WORD, "version": WORD})
_PATH = Fields({"datastoreName": TEXT, "relativePath": TEXT})
_DATA = Fields(
    {
        "dataLocation": Fields(
            {"dataset": _DATASET, "dataPath": _PATH, "uri": Fields({"path": WORD, "isFile": FLAG})}
        ),
        "mechanism": TEXT,
        "environmentVariableName": TEXT,
        "pathOnCompute": TEXT,
    }
)
_OUTPUT_DATA = Fields(
    {
        "outputLocation": Fields({"dataPath": _PATH}),
        "mechanism": TEXT,
        "additionalOptions": Fields({"pathOnCompute": TEXT, "registrationOptions": Fields({"name": TEXT})}),
    }
)
_REFERENCE = Fields({"dataStoreName": TEXT, "pathOnDataStore": TEXT, "mode": TEXT, "pathOnCompute": TEXT})

RUNCONFIG_SHAPE = Fields(
    {
        "target": TEXT,
        "framework": TEXT,
        "communicator": TEXT,
        "script": TEXT,
        "command": Either(TEXT, ListOf(WORD)),
        "arguments": ListOf(WORD),
        "nodeCount": _COUNT,
        "maxRunDurationSeconds": Whole(low=0, high=10**10),
        "environment": OBJECT,
        "environmentVariables": WORDS,
        "docker": DOCKER,
        "mpi": Fields({"processCountPerNode": _COUNT}),
        "tensorflow": Fields({"workerCount": _COUNT, "parameterServerCount": _COUNT}),
        "pytorch": Fields({"processCount": _COUNT}),
        "kubernetescompute": OBJECT,
        "dataReferences": MapOf(_REFERENCE),
        "data": MapOf(_DATA),
        "outputData": MapOf(_OUTPUT_DATA),
    }
)


OUTPUT_TYPES: Final = {
    "uri_file": "UriFile",
    "uri_folder": "UriFolder",
    "mltable": "MLTable",
    "mlflow_model": "MLFlowModel",
    "custom_model": "CustomModel",
    "triton_model": "TritonModel",
}
"""The kinds of outputs by the words of job files; an input may be a literal besides."""

_MODELS: Final = {**OUTPUT_TYPES, "literal": "Literal"}
_OF_EVERY_JOB: Final = frozenset(
    {"componentId", "notificationSetting", "provisioningState", "secretsConfiguration", "status"}
)
_JOB_MODELS: Final = {
    "command": ("CommandJob", JOB_SHAPE.fields.keys() | _OF_EVERY_JOB | {"autologgerSettings", "parameters"}),
    "pipeline": ("PipelineJob", PIPELINE_SHAPE.fields.keys() | _OF_EVERY_JOB | {"sourceJobId"}),
    "sweep": ("SweepJob", SWEEP_SHAPE.fields.keys() | _OF_EVERY_JOB),
}
_NO_ASSET_VERSION: Final = "2025-01-01"
"""The API version from which a job's output has no ``assetVersion``."""


def unknown_members(job: Mapping[str, Any], api_version: str) -> tuple[str, ...]:
    """Return what AzureML says of each member of a job that its models do not have; of another kind of job, nothing.

    Recorded in March 2026 (Azure/azure-sdk-assets, ``test_command_job_register_output``); members are those of the
    REST interface, 2024-01-01-preview and 2025-01-01-preview.
    """
    kind = str(job.get("jobType") or "").lower()
    if kind not in _JOB_MODELS:
        return ()
    model, known = _JOB_MODELS[kind]
    of_outputs = OUTPUT.fields.keys() | {"autoDeleteSetting", "pathOnCompute"}
    if api_version >= _NO_ASSET_VERSION:
        of_outputs -= {"assetVersion"}
    of_resources = RESOURCES.fields.keys() | {"instanceCount", "maxInstanceCount"}
    checked: list[tuple[str, Mapping[str, Any], frozenset[str]]] = [
        (model, job, frozenset(known)),
        ("JobResourceConfiguration", job.get("resources") or {}, frozenset(of_resources)),
        *_typed(job, "inputs", "jobInputType", "JobInput", frozenset(INPUT.fields.keys() | {"pathOnCompute"})),
        *_typed(job, "outputs", "jobOutputType", "JobOutput", frozenset(of_outputs)),
    ]
    return tuple(
        f"Could not find member '{name}' on object of type '{model}'. Path '{name}'."
        for model, value, names in checked
        for name, content in value.items()
        if name not in names and content is not None
    )


def _typed(
    job: Mapping[str, Any], group: str, key: str, ending: str, names: frozenset[str]
) -> Iterator[tuple[str, Mapping[str, Any], frozenset[str]]]:
    """Yield inputs or outputs of known types: the name of the model, the value and the model's members."""
    for value in (job.get(group) or {}).values():
        if model := _MODELS.get(str((value or {}).get(key) or "").lower()):
            yield f"{model}{ending}", value, names
