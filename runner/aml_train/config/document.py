"""The grammar of aml-train.yml. docs/configuration.md has the same keys."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from aml_train.config.job.grammar import ASSET_NAME, JOB
from aml_train.config.runconfig.grammar import OF_THE_JOB
from aml_train.config.sections.compute import COMPUTE
from aml_train.config.sections.cost import COST
from aml_train.config.sections.gate import BASELINE, GATE
from aml_train.config.sections.image_grammar import IMAGE, VARIABLES
from aml_train.config.sections.model import ARCHIVED, PROMOTE, STAGE
from aml_train.config.sections.sending import CODE, DATA, SETUP
from aml_train.config.sections.tests import inside, tests_grammar
from aml_train.config.yaml.shapes import Choice, Duration, Number, Text
from aml_train.config.yaml.structures import Either, Key, Record, Table

_HOST: Final = (
    r"[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+(?::[0-9]{1,5})?"
)
_PUSH_HOST: Final = rf"(?:{_HOST}|localhost:[0-9]{{1,5}})"
_GUID: Final = r"[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}"


_PATH: Final = Text(noun="a path")


def _first_stage(text: str) -> None:
    """Raise ValueError for a stage that no version begins in."""
    if text.lower() in ("production", ARCHIVED):
        raise ValueError(f"versions get to `{text}` by `aml-train promote`")


def _own_tag(text: str) -> None:
    """Raise ValueError for a tag that aml-train writes."""
    if text.lower().startswith("aml-train."):
        raise ValueError(f"`{text}` is one of aml-train's own")


_TAG: Final = Text(noun="a tag's name", rule=_own_tag)
TESTS: Final = tests_grammar(VARIABLES)
MODEL: Final = Record(
    noun="a mapping with `name` and `path` or `output`",
    one_of=("path", "output"),
    keys={
        "name": Key(
            Text(noun="letters, digits, `.`, `_` and `-`", pattern=ASSET_NAME), "Name of the model.", required=True
        ),
        "path": Key(
            Text(noun="a path among the job's artefacts, such as `outputs/model`", rule=inside),
            "Path among the job's artefacts, such as `outputs/model`.",
        ),
        "output": Key(
            Text(noun="the name of an output of the job"), "Name of one of the job's outputs, instead of `path`."
        ),
        "type": Key(
            Choice(words=("custom_model", "mlflow_model", "triton_model")),
            "`custom_model` (the default), `mlflow_model` or `triton_model`.",
        ),
        "stage": Key(
            replace(STAGE, rule=_first_stage),
            "Stage that a new version is registered in, such as `candidate`; none by default.",
        ),
        "description": Key(Text(), "Free text."),
        "tags": Key(
            Table(value=Text(), noun="a mapping of text to text", key=_TAG), "Tags, beside those of aml-train."
        ),
    },
)
_LOCAL: Final = Either(
    noun="a mapping, or nothing",
    nothing=True,
    keys=Record(
        noun="a mapping",
        keys={
            "compute": COMPUTE,
            "environments": Key(
                Table(
                    noun="a mapping of patterns to images",
                    value=Text(noun="an image of this machine, such as `my-image:1`", pattern=r"[^\s]+"),
                    key=Text(noun="a pattern of names, such as `AzureML-acpt-*`", pattern=r"[^\s=,]+"),
                ),
                "Images of this machine that play Azure's curated environments, by patterns of their `NAME` or `NAME:VERSION`.",
            ),
        },
        hints=dict.fromkeys(
            ("subscription-id", "resource-group", "workspace"), "the local target needs no workspace"
        ),
    ),
)
WORKSPACE: Final = Record(
    noun="a mapping with such keys as `workspace`",
    keys={
        "subscription-id": Key(
            Text(noun="a subscription's GUID", pattern=_GUID), "Subscription; by default that of `config.json`."
        ),
        "resource-group": Key(
            Text(noun="a resource group's name", pattern=r"[\w().-]{1,90}"),
            "Resource group; by default that of `config.json`.",
        ),
        "workspace": Key(
            Text(noun="a workspace's name", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]{1,254}"),
            "Workspace; by default that of `config.json`.",
        ),
        "registry": Key(
            Text(noun="a registry's host, such as `myregistry.azurecr.io`", pattern=_HOST),
            "Registry that the image is pushed to; the workspace's own by default.",
        ),
        "push-registry": Key(
            Text(noun="a registry's host, such as `localhost:5000`", pattern=_PUSH_HOST),
            "Name by which the Docker engine reaches that registry, where it is another.",
        ),
        "registry-user": Key(
            Text(noun="a user's name", pattern=r"[^\s:]{1,255}"),
            "User who signs in to that registry with a password: an admin user, a registry's token, or another registry's user.",
        ),
        "registry-password-variable": Key(
            Text(noun="an environment variable's name", pattern=r"[A-Za-z_][A-Za-z0-9_]*"),
            "Environment variable that holds that password; `AML_TRAIN_REGISTRY_PASSWORD` by default.",
        ),
        "compute": COMPUTE,
    },
)
_FILE: Final = Text(noun="the path of a run configuration, or its name in `.azureml`")
RUNCONFIG_LINK: Final = Either(
    noun="the path of a run configuration, or a mapping with `file`",
    scalar=_FILE,
    keys=Record(
        noun="a mapping with `file`",
        keys={
            "file": Key(_FILE, "The run configuration.", required=True),
            "source-directory": Key(
                Text(noun="a folder"),
                "Folder of the code; by default the project of `.azureml`, else the file's own.",
            ),
            **{key: JOB.keys[key] for key in OF_THE_JOB},
        },
    ),
)
DOCUMENT: Final = Record(
    noun="a mapping",
    one_of=("job", "runconfig"),
    hints=dict.fromkeys(JOB.keys, "it belongs to the job: put it into the job's YAML, and name that with `job`"),
    keys={
        "job": Key(
            Either(noun="the path of a job's YAML, or the job itself", scalar=_PATH, keys=JOB),
            "Command job of the AzureML CLI v2: a path relative to this file, or the job itself.",
        ),
        "runconfig": Key(
            RUNCONFIG_LINK, "Run configuration of the SDK v1, instead of `job`: a path, or a name in `.azureml`."
        ),
        "sdk": Key(
            Choice(words=("v1", "v2")),
            "SDK that submits the job: `v1` (azureml-core), the default for a run configuration, or `v2` (azure-ai-ml), for all else.",
        ),
        "image": Key(IMAGE, "Image that is built, tested, and replaces the job's environment."),
        "tests": Key(TESTS, "Tests that run inside the image before anything is submitted."),
        "gate": Key(GATE, "Rules that the metrics must meet: a rule, or a list of them, for each metric."),
        "baseline": Key(BASELINE, "What rules with `baseline` compare with."),
        "model": Key(MODEL, "Model that is registered after the gate."),
        "promote": Key(PROMOTE, "What a model must meet to be promoted, by stage, such as `production`."),
        "watch": Key(
            Record(
                noun="a mapping",
                keys={
                    "timeout": Key(Duration(), "Bound of the whole job, over all its attempts; no bound by default."),
                    "queue-timeout": Key(Duration(), "Bound of the time before the job runs; no bound by default."),
                    "run-timeout": Key(Duration(), "Bound of the time since the job runs; no bound by default."),
                    "logs": Key(
                        Choice(words=("user", "all")),
                        "Which logs are shown: `user` (the default), those of the job's processes; or `all`: AzureML's own, too.",
                    ),
                    "on-cancel": Key(
                        Choice(words=("cancel", "detach")),
                        "What an interrupted run does to its job: `cancel` (the default), or `detach`: it goes on.",
                    ),
                },
            ),
            "How long the job may take, and what becomes of it when the run is interrupted.",
        ),
        "retry": Key(
            Record(
                noun="a mapping",
                keys={
                    "preempted": Key(
                        Number(noun="a whole number", minimum=0, maximum=100),
                        "How often a job whose nodes were taken back is submitted again; 0 by default.",
                    ),
                },
            ),
            "What is submitted again, under the next attempt's name.",
        ),
        "cost": Key(COST, "What nodes cost, and what the job may cost."),
        "code": Key(CODE, "What may be sent of the job's code folder; the folder itself is named by the job."),
        "setup": Key(SETUP, "Shell commands that run once on each node before the job's command."),
        "data": Key(DATA, "Data that the job finds at the same relative paths as here: path → address."),
        "target": Key(Text(noun="a target's name"), "Target where none is given; `local` by default."),
        "targets": Key(
            Table(
                noun="a mapping of targets",
                value=WORKSPACE,
                key=Text(noun="letters, digits, `_` and `-`", pattern=r"[A-Za-z0-9][A-Za-z0-9_-]*"),
                special={"local": _LOCAL},
            ),
            "Workspaces by name. `local` is the local AzureML and needs no entry.",
        ),
    },
)
