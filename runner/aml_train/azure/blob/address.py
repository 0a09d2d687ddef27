"""Addresses of data on the command line, parsed into values. Pure.

Forms are AzureML's own (https://learn.microsoft.com/azure/machine-learning/how-to-read-write-data-v2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import InvalidError

_SCOPE: Final = (
    r"(?:subscriptions/(?P<subscription>[^/]+)/resourcegroups/(?P<group>[^/]+)/"
    r"(?:providers/Microsoft\.MachineLearningServices/)?workspaces/(?P<workspace>[^/]+)/)"
)
_DATASTORE: Final = re.compile(
    rf"azureml://{_SCOPE}?datastores/(?P<name>[^/]+)(?:/paths(?:/(?P<path>.*))?|/(?P<old>.*))?", re.I | re.S
)
_JOB: Final = re.compile(
    rf"azureml://{_SCOPE}?jobs/(?P<name>[^/]+)/outputs/(?P<output>[^/]+)(?:/paths(?:/(?P<path>.*))?|/(?P<old>.*))?",
    re.I | re.S,
)
_ASSET_ID: Final = re.compile(rf"(?:azureml:)?/{_SCOPE}data/(?P<name>[^/]+)/versions/(?P<version>[^/]+)", re.I)
_ASSET: Final = re.compile(r"azureml:(?P<name>[^/:@]+)(?::(?P<version>[^/:@]+)|@(?P<label>[^/:@]+))?")
_FORMS: Final = (
    "Known are azureml://datastores/NAME/paths/PATH, azureml:NAME:VERSION, azureml:NAME@latest, azureml://jobs/JOB/outputs/NAME and "
    "local paths."
)


@dataclass(frozen=True, kw_only=True)
class Scope:
    """The workspace that a long address names."""

    subscription_id: str
    resource_group: str
    workspace: str


@dataclass(frozen=True, kw_only=True)
class LocalPath:
    """A path on this machine."""

    path: str


@dataclass(frozen=True, kw_only=True)
class DatastorePath:
    """A path in a datastore as written: with wildcards; a trailing slash is a folder."""

    datastore: str
    path: str
    scope: Scope | None = None


@dataclass(frozen=True, kw_only=True)
class Asset:
    """A data asset; without *version* the one that AzureML shows as the latest."""

    name: str
    version: str | None = None
    scope: Scope | None = None


@dataclass(frozen=True, kw_only=True)
class JobOutput:
    """A path in an output of a job; ``default`` and ``artifacts`` are its artefacts."""

    job: str
    output: str
    path: str
    scope: Scope | None = None


Remote = DatastorePath | Asset | JobOutput
Address = LocalPath | Remote


def parse_address(text: str) -> Address:
    """Return what *text* names.

    Raises:
        InvalidError: it is none of the known forms.
    """
    if not text:
        raise InvalidError("An empty address names nothing.", hint=_FORMS)
    if match := _DATASTORE.fullmatch(text):
        path = match["path"] if match["path"] is not None else match["old"] or ""
        return DatastorePath(datastore=match["name"], path=path.lstrip("/"), scope=_scope(match))
    if match := _JOB.fullmatch(text):
        path = match["path"] if match["path"] is not None else match["old"] or ""
        return JobOutput(job=match["name"], output=match["output"], path=path.lstrip("/"), scope=_scope(match))
    if match := _ASSET_ID.fullmatch(text):
        return Asset(name=match["name"], version=match["version"], scope=_scope(match))
    if match := _ASSET.fullmatch(text):
        if match["label"] not in (None, "latest"):
            raise InvalidError(f"{text!r}: the label {match['label']!r} is unknown.", hint="AzureML knows @latest.")
        return Asset(name=match["name"], version=match["version"])
    if text.lower().startswith("azureml:"):
        raise InvalidError(f"{text!r} is not an address of data.", hint=_FORMS)
    if "://" in text:
        raise InvalidError(
            f"{text.partition('?')[0]!r} is not an address of data: it is reached through a datastore.", hint=_FORMS
        )
    return LocalPath(path=text)


def _scope(match: re.Match[str]) -> Scope | None:
    if match["workspace"] is None:
        return None
    return Scope(subscription_id=match["subscription"], resource_group=match["group"], workspace=match["workspace"])
