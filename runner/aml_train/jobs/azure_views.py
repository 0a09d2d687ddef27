"""Reads what AzureML answers of jobs and models into our own words. Pure."""

from __future__ import annotations

import datetime
import email.utils
from collections.abc import Mapping
from typing import Any, Final

import requests

from aml_train.jobs.service import JobView, ModelView, Placement
from aml_train.jobs.states import parse_status

_MOST_CODES: Final = 20


def time_of(text: str | None) -> datetime.datetime | None:
    """Return the time that run history writes, None for none."""
    return datetime.datetime.fromisoformat(text) if text else None


def date_of(response: requests.Response) -> datetime.datetime | None:
    """Return when the service answered, by its own clock (RFC 9110, 6.6.1); None where it does not say."""
    try:
        return email.utils.parsedate_to_datetime(response.headers["Date"])
    except (KeyError, ValueError):
        return None


def codes_of(error: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the code of an error of run history, and the codes of its inner errors."""
    codes: list[str] = []
    inner: Any = error
    while isinstance(inner, Mapping) and len(codes) < _MOST_CODES:
        if inner.get("code"):
            codes.append(str(inner["code"]))
        inner = inner.get("innerError")
    return tuple(codes)


def job_view(name: str, properties: Mapping[str, Any]) -> JobView:
    """Read a job as Azure Resource Manager shows it."""
    studio = (properties.get("services") or {}).get("Studio") or {}
    inputs = {name: value for name, value in (properties.get("inputs") or {}).items() if isinstance(value, Mapping)}
    resources = properties.get("resources") or {}
    tier = str((properties.get("queueSettings") or {}).get("jobTier") or "")
    return JobView(
        name=name,
        status=parse_status(properties.get("status")),
        experiment=properties.get("experimentName"),
        studio_url=studio.get("endpoint"),
        tags=properties.get("tags") or {},
        inputs={name: str(value["uri"]) for name, value in inputs.items() if value.get("uri")},
        parameters={name: str(value["value"]) for name, value in inputs.items() if value.get("value") is not None},
        placement=Placement(
            compute=str(properties.get("computeId") or "").rpartition("/")[2] or None,
            nodes=int(resources.get("instanceCount") or 1),
            size=resources.get("instanceType"),
            spot=tier.lower() == "spot",
        ),
    )


def model_view(name: str, item: Mapping[str, Any]) -> ModelView:
    """Read one version of a model as Azure Resource Manager shows it."""
    properties = item["properties"]
    return ModelView(
        name=name,
        version=item["name"],
        path=properties.get("modelUri") or "",
        stage=properties.get("stage"),
        tags=properties.get("tags") or {},
        type=properties.get("modelType") or "",
        description=properties.get("description"),
        created=(item.get("systemData") or {}).get("createdAt") or "",
        properties=properties.get("properties") or {},
        job=properties.get("jobName"),
    )
