"""Reads what AzureML answers of jobs and models into our own words. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aml_train.core.answers import Answer
from aml_train.jobs import JobView, ModelView, Placement, parse_status

_MOST_CODES: Final = 20


def codes_of(error: Answer) -> tuple[str, ...]:
    """Return the code of an error of run history, and the codes of its inner errors."""
    return tuple(_codes(error))


def _codes(error: Answer) -> Iterator[str]:
    for _ in range(_MOST_CODES):
        if code := error.optional_text("code"):
            yield code
        error = error.at("innerError")


def job_view(name: str, properties: Answer) -> JobView:
    """Read a job as Azure Resource Manager shows it."""
    inputs = [(name, value) for name, value in properties.members("inputs") if isinstance(value.value, dict)]
    tier = properties.optional_text("queueSettings.jobTier") or ""
    return JobView(
        name=name,
        status=parse_status(properties.optional_text("status")),
        experiment=properties.optional_text("experimentName"),
        studio_url=properties.optional_text("services.Studio.endpoint"),
        tags=properties.texts("tags"),
        inputs={name: uri for name, value in inputs if (uri := value.optional_text("uri"))},
        parameters={name: text for name, value in inputs if (text := value.literal("value")) is not None},
        placement=Placement(
            compute=(properties.optional_text("computeId") or "").rpartition("/")[2] or None,
            nodes=properties.whole("resources.instanceCount") or 1,
            size=properties.optional_text("resources.instanceType"),
            spot=tier.lower() == "spot",
        ),
    )


def model_view(name: str, item: Answer) -> ModelView:
    """Read one version of a model as Azure Resource Manager shows it."""
    properties = item.at("properties")
    return ModelView(
        name=name,
        version=item.text("name"),
        path=properties.optional_text("modelUri") or "",
        stage=properties.optional_text("stage"),
        tags=properties.texts("tags"),
        type=properties.optional_text("modelType") or "",
        description=properties.optional_text("description"),
        created=item.optional_text("systemData.createdAt") or "",
        properties=properties.texts("properties"),
        job=properties.optional_text("jobName"),
    )
