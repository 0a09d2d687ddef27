"""The grammar of aml-train.yml: its sections, by their keys.

docs/configuration.md has the same keys.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from aml_train.config.job.grammar import JOB
from aml_train.config.job.graph_grammar import SWEEP, pipeline
from aml_train.config.runconfig.grammar import OF_THE_JOB
from aml_train.config.section import PATH
from aml_train.config.sections.code import CODE, DATA, SETUP
from aml_train.config.sections.gate import BASELINE, GATE
from aml_train.config.sections.image import IMAGE
from aml_train.config.sections.images import IMAGES
from aml_train.config.sections.model import MODEL, PROMOTE
from aml_train.config.sections.passport import PASSPORT
from aml_train.config.sections.replicates import REPLICATES
from aml_train.config.sections.targets import TARGET, TARGETS
from aml_train.config.sections.tests import TESTS
from aml_train.config.sections.watch import COST, RESUME, RETRY, WATCH
from aml_train.config.yaml.nodes import Faults, Node
from aml_train.config.yaml.shapes import Choice, Flag, Text
from aml_train.config.yaml.structures import Either, Key, Record

_FILE: Final = Text(noun="the path of a run configuration, or its name in `.azureml`")
_RUNCONFIG: Final = Either(
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


@dataclass(frozen=True, kw_only=True)
class _InlineJob:
    """A job in aml-train.yml itself, of any kind. `config.job.load` checks it."""

    noun: str = "a job"

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        return JOB.check(node, name, faults)

    def schema(self) -> dict[str, Any]:

        return {"anyOf": [JOB.schema(), pipeline(unchecked=True).schema(), SWEEP.schema()]}


DOCUMENT: Final = Record(
    noun="a mapping",
    one_of=("job", "runconfig"),
    hints=dict.fromkeys(JOB.keys, "it belongs to the job: put it into the job's YAML, and name that with `job`"),
    keys={
        "job": Key(
            Either(noun="the path of a job's YAML, or the job itself", scalar=PATH, keys=_InlineJob()),
            "Job of the AzureML CLI v2, a command, pipeline or sweep: a path relative to this file, or the job itself.",
        ),
        "runconfig": Key(
            _RUNCONFIG, "Run configuration of the SDK v1, instead of `job`: a path, or a name in `.azureml`."
        ),
        "sdk": Key(
            Choice(words=("v1", "v2")),
            "SDK that submits a run configuration: `v1` (azureml-core), the default, or `v2` (azure-ai-ml), which submits all jobs.",
        ),
        "unchecked": Key(
            Flag(),
            "Whether nodes of a pipeline that aml-train does not know (`parallel`, `spark`, `automl`, …) are passed on to "
            "Azure as they are: neither checked nor tested. Of these, the local AzureML runs those of type `parallel`.",
        ),
        "image": Key(IMAGE, "Image that is built, tested, and replaces the job's environment."),
        "tests": Key(TESTS, "Tests that run inside the image before anything is submitted."),
        "images": Key(
            IMAGES, "Further images of a pipeline, by names: each is built, tested, and runs the nodes that it names."
        ),
        "gate": Key(GATE, "Rules that the metrics must meet: a rule, or a list of them, for each metric."),
        "baseline": Key(BASELINE, "Values that rules with `baseline` compare with."),
        "replicates": Key(
            REPLICATES,
            "Values of an input, such as the seed: the job is run with each, and the gate judges them together.",
        ),
        "model": Key(MODEL, "Model that is registered after the gate."),
        "promote": Key(PROMOTE, "Conditions of promoting a model, by stage, such as `production`."),
        "passport": Key(PASSPORT, "Signature of the registered model and of where it comes from."),
        "watch": Key(WATCH, "Bounds of the job's time, and what an interrupted run does to it."),
        "retry": Key(RETRY, "Resubmission, under the next attempt's name."),
        "resume": Key(RESUME, "What a job that is submitted again after a preemption continues from."),
        "cost": Key(COST, "Prices of nodes, and bounds of the job's cost."),
        "code": Key(CODE, "Bounds of the snapshot of the job's code folder, which the job names."),
        "setup": Key(SETUP, "Shell commands that run once on each node before the job's command."),
        "data": Key(DATA, "Data that the job finds at the same relative paths as here: path → address."),
        "target": Key(TARGET, "Target if none is given; `local` by default."),
        "targets": Key(TARGETS, "Workspaces by name. `local` is the local AzureML and needs no entry."),
    },
)


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of aml-train.yml, for editors."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "aml-train.yml",
        "description": "Configuration of aml-train: from a commit to a gated, registered model.",
        **DOCUMENT.schema(),
    }
