"""Read a job's definition, as AzureML shows it, into :class:`Identity`."""

from __future__ import annotations

import contextlib
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import requests

from aml_train.azure.data_identity import CodeLister
from aml_train.azure.http import TIMEOUT, AzureHttp
from aml_train.azure.workspace import AzureRest
from aml_train.config.job.model import MOST_NESTED
from aml_train.core.answers import Answer
from aml_train.core.errors import ServiceError
from aml_train.core.files import FileSet
from aml_train.core.http_client import exchange
from aml_train.core.temporary import temporary_folder
from aml_train.core.threads import map_parallel
from aml_train.jobs.identity import (
    Identity,
    code_names,
    environment_names,
    parts_of_document,
    run_identity,
    version_of,
)
from aml_train.jobs.snapshot import read_snapshot

_API: Final = {"api-version": "2023-04-01"}
#: Services that AzureML gives every job; others let people into it.
_OWN_SERVICES: Final = frozenset({"Tracking", "Studio"})
#: More than a snapshot may have: https://learn.microsoft.com/azure/machine-learning/how-to-save-write-experiment-files
_MOST_BYTES: Final = 1 << 30


def read_identity(rest: AzureRest, name: str, properties: Answer, *, files: bool = False) -> Identity:
    """Return what a job is, from its resource, its code assets and environments.

    Raises:
        ServiceError: the service does not answer, or shows pipelines within each other without an end.
    """
    what = f"Reading what the job {name} is made of"
    with _understood(what):
        return _identity(rest, properties, what, files=files)


def _identity(rest: AzureRest, properties: Answer, what: str, *, files: bool) -> Identity:
    lister = CodeLister(rest) if files else None
    document = _document(rest, properties, what)
    wanted: dict[str, None] = {}

    def note(_place: object, value: Any) -> frozenset[str]:
        wanted[str(value or "").removeprefix("azureml:")] = None
        return frozenset()

    parts_of_document(document, code=note, environment=note)
    ids = [one for one in wanted if one.startswith("/subscriptions/")]
    found = dict(zip(ids, map_parallel(lambda one: _read(rest, one, what), ids, "identity"), strict=True))
    uris = {
        one: uri
        for one in ids
        if (asset := found[one]) is not None and (uri := asset.optional_text("properties.codeUri")) is not None
    }
    listings = (
        {}
        if lister is None
        else dict(zip(uris, map_parallel(lister.listing, uris.values(), "identity"), strict=True))
    )

    def code(_place: object, value: Any) -> frozenset[str]:
        asset = found.get(str(value or "").removeprefix("azureml:"))
        known = None if asset is None else asset.optional_text("properties.properties.hash_sha256")
        if not value:
            return frozenset()
        listing = listings.get(str(value or "").removeprefix("azureml:"))
        return code_names(version_of(str(value)), content_hash=known, listing=listing)

    def environment(_place: object, value: Any) -> frozenset[str]:
        names = environment_names(str(value or ""), Path())
        version = found.get(str(value or "").removeprefix("azureml:"))
        return names if version is None else names | _made_of(version)

    return Identity(parts=parts_of_document(document, code=code, environment=environment))


def _read(rest: AzureHttp, resource: str, what: str) -> Answer | None:
    return rest.read(f"{rest.cloud.arm}{quote(resource)}", what, params=_API)


def _made_of(version: Answer) -> frozenset[str]:
    """Return the names of an environment's version by what it is made of."""
    properties = version.at("properties")
    build = {
        "path": properties.optional_text("build.contextUri"),
        "dockerfile_path": properties.optional_text("build.dockerfilePath"),
    }
    conda = properties.optional_text("condaFile") or None
    return environment_names(
        {"image": properties.optional_text("image"), "conda_file": conda and f"{conda}\n", "build": build}, Path()
    )


def _document(rest: AzureHttp, properties: Answer, what: str) -> dict[str, Any]:
    """Return the definition in the CLI v2's grammar; code and environment are ids."""
    kind = (properties.optional_text("jobType") or "").lower()
    document: dict[str, Any] = {
        "type": kind,
        "compute": properties.optional_text("computeId"),
        "inputs": {name: one.value for name, one in properties.members("inputs") if one.value is not None},
        "services": {
            name: {"type": one.optional_text("jobServiceType")}
            for name, one in properties.members("services")
            if one.optional_text("jobServiceType") not in _OWN_SERVICES
        },
    }
    if kind == "command":
        return document | _command(properties)
    if kind == "sweep":
        return document | {
            "trial": _command(properties.at("trial")),
            "search_space": properties.mapping("searchSpace"),
            "objective": _snake(properties.mapping("objective")),
            "sampling_algorithm": properties.optional_text("samplingAlgorithm.samplingAlgorithmType"),
        }
    return document | {
        "settings": {"default_compute": properties.optional_text("settings.default_compute")},
        "jobs": _nodes(rest, properties, what, 0),
    }


def _command(found: Answer) -> dict[str, Any]:
    return {
        "command": found.at("command").value,
        "code": found.optional_text("codeId"),
        "environment": found.optional_text("environmentId"),
        "environment_variables": found.mapping("environmentVariables"),
        "distribution": _snake(found.mapping("distribution")),
        "resources": _snake(found.mapping("resources")),
    }


def _nodes(rest: AzureHttp, pipeline: Answer, what: str, depth: int) -> dict[str, Any]:
    """Return the nodes of a pipeline, with the components that were made for it."""
    if depth > MOST_NESTED:
        raise ServiceError(f"{what}: it has more than {MOST_NESTED} pipelines within each other.")
    nodes = list(pipeline.members("jobs"))
    found = map_parallel(lambda one: _node(rest, one[1], what, depth), nodes, "identity")
    return {name: node for (name, _), node in zip(nodes, found, strict=True)}


def _node(rest: AzureHttp, node: Answer, what: str, depth: int) -> Mapping[str, Any]:
    document = {**node.mapping(""), "compute": node.optional_text("computeId")}
    key = "trial" if node.has("trial") else "component"
    component = node.optional_text("trial.componentId" if key == "trial" else "componentId") or ""
    resource = component.removeprefix("azureml:")
    version = _read(rest, resource, what) if resource.startswith("/subscriptions/") else None
    if version is None or not version.flag("properties.isAnonymous"):
        # That of a registered component does not change; the job names it.
        return {**document, key: component}
    spec = version.at("properties.componentSpec")
    inner = dict(version.mapping("properties.componentSpec"))
    return {**document, key: inner | ({"jobs": _nodes(rest, spec, what, depth + 1)} if spec.has("jobs") else {})}


def read_run_identity(rest: AzureHttp, name: str) -> Identity:
    """Return what a run of the SDK v1 is, from its record and its snapshot.

    Raises:
        ServiceError: the service does not answer.
    """
    what = f"Reading what the run {name} is made of"
    found = rest.need("GET", rest.history(f"/runs/{quote(name)}/details"), what)
    snapshot = found.optional_text("properties.ContentSnapshotId")
    code_hash = snapshot and _snapshot_hash(rest, snapshot, what)
    with _understood(what):
        return run_identity(found.mapping("runDefinition"), code_hash, Path(), shown=True)


@contextlib.contextmanager
def _understood(what: str) -> Iterator[None]:
    """Raise ServiceError if a definition has another form than ours."""
    try:
        yield
    except (AttributeError, TypeError, ValueError) as error:
        raise ServiceError(f"{what}: the answer has a form that this version does not know.") from error


def _snapshot_hash(rest: AzureHttp, snapshot: str, what: str) -> str | None:
    """Return the hash of a snapshot's files, which azureml-core reads as an archive.

    The request is that of ``SnapshotsClient.restore_snapshot`` (1.61). None if they are more than a snapshot may have.
    """
    url = rest.need("POST", rest.content(f"/snapshots/{quote(snapshot)}/zip"), what, body={}).text("zipSasUri")
    with temporary_folder("code") as place:
        try:
            with exchange(rest.session, "GET", url, stream=True, timeout=TIMEOUT) as response:
                if not response.ok:
                    raise ServiceError(f"{what}: the storage answered {response.status_code}", transient=True)
                with (place / "zip").open("wb") as target:
                    target.writelines(response.iter_content(1 << 20))
            with zipfile.ZipFile(place / "zip") as archive:
                if sum(one.file_size for one in archive.infolist()) > _MOST_BYTES:
                    return None
                (place / "code").mkdir()
                archive.extractall(place / "code")
        except (requests.RequestException, zipfile.BadZipFile, zlib.error, RuntimeError, EOFError) as error:
            raise ServiceError(
                f"{what}: the snapshot cannot be read: {type(error).__name__}", transient=True
            ) from error
        files = FileSet.collect(place / "code", ignore_files=(), nested=False, leave_out=())
        return read_snapshot(files).content_hash


def _snake(given: Mapping[str, Any]) -> dict[str, Any]:
    """Return a mapping of Azure Resource Manager with the keys of the CLI v2."""
    kept = {key: value for key, value in given.items() if value is not None}
    return {re.sub(r"(?<!^)([A-Z])", r"_\1", key).lower(): value for key, value in kept.items()}
