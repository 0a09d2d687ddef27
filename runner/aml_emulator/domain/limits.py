"""AzureML's limits on runs, metrics and assets, in one table with their sources.

The words of a refusal, and the names of fields, are those that the service was seen to answer with; names that no one has
reported follow the same form.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError

PAGE: Final = "https://learn.microsoft.com/azure/machine-learning/resource-limits-capacity"
_PARAMETERS: Final = "https://github.com/Azure/azure-sdk-for-python/issues/35685"
_METRICS: Final = "https://github.com/mlflow/mlflow/issues/11462"
_ARTIFACTS: Final = "https://github.com/ultralytics/ultralytics/issues/3223"
_NAMES: Final = "azure-rest-api-specs, machinelearningservices: the pattern of an asset's name"


@dataclass(frozen=True, kw_only=True)
class Limit:
    """A limit of the service.

    Attributes:
        field: its name in the service's message.
        most: the largest size.
        what: the limited thing, for documentation.
        source: where the limit is documented, or was reported.
    """

    field: str
    most: int
    what: str
    source: str = PAGE


RUN_NAME: Final = Limit(field="RunDto.DisplayName/Length", most=256, what="characters of a display name")
DESCRIPTION: Final = Limit(field="RunDto.Description/Length", most=5000, what="characters of a run's description")
TAGS: Final = Limit(field="RunDto.Tags/Count", most=50, what="tags of a run")
TAG_KEY: Final = Limit(field="RunDto.Tags.Key/Length", most=100, what="characters of a tag's name")
TAG_VALUE: Final = Limit(field="RunDto.Tags.Value/Length", most=1000, what="characters of a tag's value")
PROPERTY_KEY: Final = Limit(
    field="RunDto.Properties.Key/Length", most=100, what="characters of a property's name of a run"
)
EXPERIMENT: Final = Limit(field="ExperimentDto.Name/Length", most=256, what="characters of an experiment's name")
PARAMETERS: Final = Limit(field="Parameters", most=200, what="parameters of a run", source=_PARAMETERS)
METRIC_ROWS: Final = Limit(
    field="MetricV2Dto.Value/Count", most=250, what="values of a metric in one request", source=_METRICS
)
METRIC_COLUMNS: Final = Limit(field="MetricV2Dto.Columns/Count", most=15, what="columns of a metric's row")
METRIC_NAME: Final = Limit(
    field="MetricV2Dto.Name/Length", most=255, what="characters of a metric's or a column's name"
)
ARTIFACTS: Final = Limit(field="Artifact batch", most=100, what="artifacts in one request", source=_ARTIFACTS)
ARTIFACT_PATH: Final = Limit(field="ArtifactDto.Path/Length", most=5000, what="characters of an artifact's path")
ASSET_NAME: Final = Limit(field="Name/Length", most=255, what="characters of an asset's name", source=_NAMES)
ASSET_VERSION: Final = Limit(field="Version/Length", most=255, what="characters of an asset's version", source=_NAMES)

LIMITS: Final = (
    RUN_NAME,
    DESCRIPTION,
    TAGS,
    TAG_KEY,
    TAG_VALUE,
    PROPERTY_KEY,
    EXPERIMENT,
    PARAMETERS,
    METRIC_ROWS,
    METRIC_COLUMNS,
    METRIC_NAME,
    ARTIFACTS,
    ARTIFACT_PATH,
    ASSET_NAME,
    ASSET_VERSION,
)
"""All limits that are enforced."""

_ASSET_NAME: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]*")
_ASSET_VERSION: Final = re.compile(r"[^\s/:@]+")


def check_limit(limit: Limit, value: Sized) -> None:
    """Raise InvalidError if a value is larger than a limit allows."""
    if len(value) > limit.most:
        raise InvalidError(
            f"A field of the entity is over the size limit. FieldName={limit.field}, Limit={limit.most},"
            f" Size={len(value)}. See https://aka.ms/azure-machine-learning-limits for service limits documentation.",
            code="ValidationError",
            reasons=(),
        )


def check_run_fields(
    *,
    display_name: Any = None,
    description: Any = None,
    tags: Mapping[str, Any] | None = None,
    properties: Mapping[str, Any] | None = None,
    before: Mapping[str, str] | None = None,
) -> None:
    """Raise InvalidError if a run's fields are larger than the service allows.

    Args:
        tags: new tags; those without a value (None) are removed.
        before: the tags that the run keeps in addition.
    """
    check_limit(RUN_NAME, str(display_name or ""))
    check_limit(DESCRIPTION, str(description or ""))
    for key, value in (tags or {}).items():
        check_limit(TAG_KEY, key)
        check_limit(TAG_VALUE, str(value or ""))
    if tags:
        removed = {key for key, value in tags.items() if value is None}
        check_limit(TAGS, ({*(before or ()), *tags}) - removed)
    for key in properties or ():
        check_limit(PROPERTY_KEY, key)


def check_metrics(names: Iterable[str]) -> None:
    """Raise InvalidError if a request has too many values of a metric, or a long name.

    Args:
        names: the name of each value.
    """
    for name, count in Counter(names).items():
        check_limit(METRIC_NAME, name)
        check_limit(METRIC_ROWS, range(count))


def check_asset_version(version: str) -> None:
    """Raise InvalidError if no version of an asset can be called this."""
    check_limit(ASSET_VERSION, version)
    if not _ASSET_VERSION.fullmatch(version):
        raise InvalidError(
            f"The version '{version}' of the asset is invalid: spaces, '/', ':' and '@' have a meaning in references to it."
        )


def check_asset_name(name: str) -> None:
    """Raise InvalidError if an asset cannot have this name."""
    check_limit(ASSET_NAME, name)
    if not _ASSET_NAME.fullmatch(name):
        raise InvalidError(
            f"The name '{name}' of the asset is invalid: letters, digits, '.', '_' and '-', not beginning with '.' or '-'."
        )
