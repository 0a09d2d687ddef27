"""JSON in tags and properties of jobs and models, which anyone may change."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from aml_train.azure.composed import child_view, labels_of, needs_of, objective_of
from aml_train.azure.job_documents import command_document
from aml_train.core.answers import Answer
from aml_train.core.docker_endpoint import read_context
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.numbers import iso_seconds
from aml_train.core.tags import TAG_DIGEST, TAG_IMAGES, TAG_RULES
from aml_train.jobs import ModelView
from aml_train.models.lineage import asset_of
from aml_train.pipeline.graph import images_of
from aml_train.pipeline.report.images import further_images
from aml_train.pipeline.report.parts import recorded_rules
from fuzz.target import Target, require


def seeds() -> Sequence[str]:
    """Return texts of tags and properties."""
    return [
        '{"image": "r.azurecr.io/a@sha256:00", "nodes": ["prep", "train"]}',
        '[["val/acc", ">= 0.5", 0.7, 0.5, "met"], ["loss", "< 1", 2, 1, "missed"]]',
        '{"name": "loss", "goal": "minimize"}',
        '{"lr": 0.1, "depth": "3"}',
        (
            '[{"Endpoints": {"docker": {"Host": "tcp://h:2376", "SkipTLSVerify": false}}, "TLSMaterial": {"docker": ["ca.pem"]}, '
            '"Storage": {"TLSPath": "/x"}}]'
        ),
        "${{parent.jobs.prep.outputs.out}}",
        "PT2H30M",
        "azureml:data:1",
        "[" * 3000 + "]" * 3000,
    ]


def _fail(problem: str) -> ServiceError:
    return ServiceError(f"the job {problem}")


def check(text: str) -> None:
    """Use a text as each tag and property that is read as more than a text."""
    tags = {TAG_DIGEST: "sha256:00", f"{TAG_IMAGES}one": text, TAG_RULES: text}
    found = images_of(tags)
    require(found is not None, "no images")
    list(further_images(tags))
    model = ModelView(name="m", version="1", path="azureml://x", tags=tags)
    for rule in recorded_rules(model, lambda _metric: ()):
        require(rule.verdict in ("met", "missed", "warned", "skipped"), f"a rule is {rule.verdict}")
    properties = Answer(
        {
            "properties": {"primary_metric_config": text, "hyperparameters": text},
            "jobs": {
                "a": {"display_name": text, "inputs": {"x": {"value": text, "uri": text}}},
                text: {"inputs": {}},
            },
            "runId": "r",
            "status": "Completed",
            "runType": text,
            "command": text,
            "environmentId": text,
            "limits": {"timeout": text},
        },
        _fail,
    )
    readers: tuple[Callable[[Answer], object], ...] = (
        objective_of,
        labels_of,
        needs_of,
        child_view,
        lambda answer: command_document("j", answer),
    )
    for read in readers:
        try:
            read(properties)
        except AmlTrainError as error:
            require(str(error), "a refusal says nothing")
    seconds = iso_seconds(text)
    require(seconds is None or 0 <= seconds < 1e20, "a duration has no end")
    asset_of(text)
    try:
        read_context(text, "mine", "aml-train.yml:1")
    except AmlTrainError as error:
        require("mine" in str(error), "the refusal does not name the context")


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.azure.composed",
        "aml_train.azure.job_documents",
        "aml_train.core.docker_endpoint",
        "aml_train.core.numbers",
        "aml_train.models.lineage",
        "aml_train.pipeline.graph",
        "aml_train.pipeline.report.images",
        "aml_train.pipeline.report.parts",
    ),
    seeds=seeds,
    check=check,
    words=(
        '"image"',
        '"nodes"',
        '"name"',
        '"goal"',
        "null",
        "NaN",
        "[",
        "{",
        "azureml:",
        "/versions/",
        "PT",
        "P1D",
        "${{parent.jobs.",
    ),
    mutate=lambda mutator, text: mutator.json(text),
)
