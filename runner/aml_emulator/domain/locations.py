"""Addresses of assets and job inputs, as AzureML writes them. Pure.

Forms are those of https://learn.microsoft.com/azure/machine-learning/how-to-read-write-data-v2 and of the constants of
azure-ai-ml (``SHORT_URI_FORMAT``, ``LONG_URI_FORMAT``, ``JOB_URI_FORMAT``, asset and ARM ids).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from aml_emulator.domain.errors import InvalidError

_SCOPE = r"(?:subscriptions/[^/]+/resourcegroups/[^/]+/(?:providers/Microsoft\.MachineLearningServices/)?workspaces/[^/]+/)"
_DATASTORE = re.compile(rf"azureml://{_SCOPE}?datastores/([^/]+)(?:/paths)?(?:/(.*))?", re.IGNORECASE)
_JOB = re.compile(rf"azureml://{_SCOPE}?jobs/([^/]+)/outputs/([^/]+)(?:/paths(?:/(.*))?|/(.*))?", re.IGNORECASE)
_ASSET = re.compile(
    rf"(?:azureml:)?(?:/{_SCOPE}|azureml://{_SCOPE}|//{_SCOPE}|azureml://locations/[^/]+/workspaces/[^/]+/|"
    r"//locations/[^/]+/workspaces/[^/]+/)(data|models|codes|environments|components)/([^/]+)/(?:versions|labels)/([^/]+)",
    re.IGNORECASE,
)
_SHARED = re.compile(
    r"azureml://registries/([^/]+)/(data|models|codes|environments|components)/([^/]+)/(?:versions|labels)/([^/]+)",
    re.IGNORECASE,
)
_SHORT = re.compile(r"azureml:([^/:]+):([^/:]+)")
_ARTIFACT = re.compile(r"azureml://artifacts/([^/]+)/([^/]+)/(.+)", re.IGNORECASE)
_TRACKING = re.compile(r"azureml://[^/]+/mlflow/.*/experiments/[^/]+/runs/([^/]+)/artifacts(?:/(.*))?", re.IGNORECASE)
_RUNS = re.compile(r"(?:runs|mlflow-artifacts):/+([^/]+)(?:/(.*))?")

ARTIFACT_OUTPUTS = frozenset({"artifacts", "default"})
"""Names of the output that every job has: its artifact folder."""


@dataclass(frozen=True, kw_only=True)
class DatastorePath:
    """A path in a datastore, without slashes at its ends."""

    datastore: str
    path: str


@dataclass(frozen=True, kw_only=True)
class JobOutput:
    """A path in an output of a job; in its artifact folder if *output* is None."""

    job: str
    output: str | None
    path: str


@dataclass(frozen=True, kw_only=True)
class AssetId:
    """A version of an asset, in the workspace or in a registry.

    Attributes:
        kind: ARM's plural, or empty if the form has none.
        version: it, or a label.
    """

    kind: str
    name: str
    version: str
    registry: str | None = None


@dataclass(frozen=True, kw_only=True)
class BlobPath:
    """A path in a container of the storage account with that host name."""

    host: str
    container: str
    path: str


Location = DatastorePath | JobOutput | AssetId | BlobPath


def parse_location(uri: str, *, what: str = "") -> Location:
    """Return what *uri* points at.

    Raises:
        InvalidError: it is none of the known forms; the message begins with *what*, and quotes it without its query.
    """
    if match := _TRACKING.fullmatch(uri) or _RUNS.fullmatch(uri):
        return JobOutput(job=match.group(1), output=None, path=_clean(match.group(2)))
    if match := _ASSET.fullmatch(uri):
        return AssetId(kind=match.group(1).lower(), name=match.group(2), version=match.group(3))
    if match := _SHARED.fullmatch(uri):
        registry, kind, name, version = match.groups()
        return AssetId(kind=kind.lower(), name=name, version=version, registry=registry)
    if match := _JOB.fullmatch(uri):
        output = match.group(2)
        path = _clean(match.group(3) or match.group(4))
        return JobOutput(job=match.group(1), output=None if output in ARTIFACT_OUTPUTS else output, path=path)
    if (place := in_datastore(uri)) is not None:
        return place
    if match := _ARTIFACT.fullmatch(uri):
        return DatastorePath(datastore="workspaceartifactstore", path="/".join(match.groups()))
    if match := _SHORT.fullmatch(uri):
        return AssetId(kind="", name=match.group(1), version=match.group(2))
    shown = (f"{what}: " if what else "") + f"'{uri.partition('?')[0]}'"
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise InvalidError(f"{shown} is not an address") from error
    if parts.scheme in ("https", "http", "wasbs", "wasb", "abfss", "abfs") and parts.hostname:
        container, _, path = unquote(parts.path).lstrip("/").partition("/")
        if parts.scheme not in ("https", "http") and parts.username:
            return BlobPath(host=parts.hostname, container=parts.username, path=_clean(unquote(parts.path)))
        return BlobPath(host=parts.hostname, container=container, path=_clean(path))
    raise InvalidError(f"{shown} is not an address that AzureML knows")


def in_datastore(uri: str) -> DatastorePath | None:
    """Return the place of an address in a datastore, None for another address."""
    match = _DATASTORE.fullmatch(uri)
    return None if match is None else DatastorePath(datastore=match.group(1), path=_clean(match.group(2)))


def _clean(path: str | None) -> str:
    return (path or "").strip("/")
