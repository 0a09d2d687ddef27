"""The types of the fields of jobs, as the clients declare them. Pure.

Those of ``CommandJob`` in AzureML's REST API, 2025-01-01-preview, and of ``RunConfiguration`` of azureml-core 1.61. Their
values are checked by `aml_emulator.domain.jobs.check` and `aml_emulator.domain.jobs.from_runconfig`.
"""

from __future__ import annotations

from aml_emulator.domain.environments import DOCKER
from aml_emulator.schema import FLAG, NUMBER, OBJECT, TEXT, WHOLE, WORD, WORDS, Either, Fields, ListOf, MapOf, Whole

INPUT = Fields({"jobInputType": TEXT, "mode": TEXT, "uri": TEXT, "value": WORD, "description": TEXT})
OUTPUT = Fields(
    {"jobOutputType": TEXT, "mode": TEXT, "uri": TEXT, "assetName": TEXT, "assetVersion": WORD, "description": TEXT}
)

JOB_CHANGES = Fields({"displayName": TEXT, "description": TEXT, "tags": WORDS, "isArchived": FLAG})
"""The fields of a job that may change."""

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
        "resources": Fields(
            {
                "dockerArgs": TEXT,
                "dockerArgsList": ListOf(WORD),
                "instanceType": TEXT,
                "locations": ListOf(TEXT),
                "properties": OBJECT,
                "shmSize": TEXT,
            }
        ),
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
        **dict.fromkeys(("type", "componentId", "computeId", "display_name", "description"), TEXT),
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
                "settings",
                "tags",
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
