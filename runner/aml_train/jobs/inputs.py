"""The data that a job reads: labels become versions, which its tags name.

The record is exact: what ``@latest`` means a minute later does not matter. The version counts for the job's name, as its path does,
so that newer data make a new job.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final, Literal

from aml_train.config.job.model import inner_mappings
from aml_train.config.sections.watch import RESUME_INPUT
from aml_train.core.errors import InvalidError
from aml_train.core.tags import KEY_LENGTH, VALUE_LENGTH, Tag
from aml_train.jobs.data import MODEL_TYPES, recorded_contents
from aml_train.jobs.identity import version_of
from aml_train.jobs.spec import JobTemplate, job_of_artifacts
from aml_train.jobs.workspace import JobView, Workspace

_LABELLED: Final = re.compile(r"azureml:(?P<name>[^/:@]+)@(?P<label>[^/:@]+)")
#: A run has 50 tags at most.
_MOST_TAGS: Final = 20


def pin_data(template: JobTemplate, service: Workspace) -> JobTemplate:
    """Return *template* with versions instead of labels, and tags of its data.

    Raises:
        InvalidError: there is no such asset, or the label is none that AzureML knows.
        ServiceError: the service does not answer.
    """
    document: dict[str, Any] = copy.deepcopy(dict(template.document))
    tags: dict[str, str] = {}
    for name, given in (document.get("inputs") or {}).items():
        path = given.get("path") if isinstance(given, Mapping) else None
        if not isinstance(path, str):
            continue
        given["path"] = _pinned(path, name, _kind(given), service)
        local = template.local_digests.get(f"inputs.{name}")
        tags[Tag.DATA + name] = f"sha256:{local}" if local is not None else version_of(given["path"])
    pinned = False
    for place, inner in inner_mappings(document):
        for name, given in (inner.get("inputs") or {}).items():
            path = given.get("path") if isinstance(given, Mapping) else None
            if isinstance(path, str) and _LABELLED.fullmatch(path):
                given["path"] = _pinned(path, ".".join((*place, "inputs", name)), _kind(given), service)
                pinned = True
    return (
        replace(template, document=document, tags={**template.tags, **_fitting(tags)}) if tags or pinned else template
    )


def _kind(given: Mapping[str, Any]) -> Literal["data", "models"]:
    return "models" if given.get("type") in MODEL_TYPES else "data"


def data_to_be(template: JobTemplate) -> dict[str, str] | None:
    """Return a job's data by input, after :func:`pin_data`; None if tags lack room."""
    inputs = template.document.get("inputs") or {}
    paths = {
        name for name, given in inputs.items() if isinstance(given, Mapping) and isinstance(given.get("path"), str)
    }
    recorded = data_of(template.tags, {})
    return recorded if paths <= recorded.keys() else None


def _fitting(tags: Mapping[str, str]) -> dict[str, str]:
    """Return the tags that there is room for; the service shows other inputs."""
    fit = [(name, value) for name, value in tags.items() if len(name) <= KEY_LENGTH and len(value) <= VALUE_LENGTH]
    return dict(fit[:_MOST_TAGS])


def _pinned(path: str, name: str, kind: Literal["data", "models"], service: Workspace) -> str:
    match = _LABELLED.fullmatch(path)
    if match is None:
        return path
    if match["label"] != "latest":
        raise InvalidError(
            f"The input {name} is {path!r}: the label {match['label']!r} is unknown.",
            hint="AzureML knows @latest; or give the version: azureml:NAME:VERSION",
        )
    version = service.latest_version(kind, match["name"])
    if version is None:
        noun = "model" if kind == "models" else "data asset"
        raise InvalidError(
            f"The input {name} is {path!r}, and the workspace has no {noun} {match['name']}.",
            hint=f"Register it first: aml-train data upload … --name {match['name']}" if kind == "data" else None,
        )
    return f"azureml:{match['name']}:{version}"


def shown_data(job: JobView) -> dict[str, str]:
    """Return the data of *job* by input, with identities as far as they are known."""
    contents = recorded_contents(job.properties)
    return {
        name: value + (f" ({contents[name]})" if name in contents else "")
        for name, value in data_of(job.tags, job.inputs).items()
    }


def data_of(tags: Mapping[str, str], inputs: Mapping[str, str]) -> dict[str, str]:
    """Return the data that a job read, by input, from its tags, else from its inputs.

    Args:
        tags: the job's, or those of a model that it wrote.
        inputs: name → path of its data, as the service has them.
    """
    tagged = {name.removeprefix(Tag.DATA): value for name, value in tags.items() if name.startswith(Tag.DATA)}
    # The checkpoints of an earlier attempt are its own work, and no data.
    read = {
        name: version_of(path)
        for name, path in inputs.items()
        if name != RESUME_INPUT or job_of_artifacts(path) is None
    }
    return dict(sorted({**read, **tagged}.items()))
