"""Places of a job's inputs and outputs: from the job to the executor's values."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.jobs.check import INPUT_KINDS, given_inputs
from aml_emulator.domain.locations import AssetId, BlobPath, DatastorePath, parse_location
from aml_emulator.domain.workspace import UPLOAD_REMEDY, Workspace
from aml_emulator.executor.content import split_glob
from aml_emulator.executor.layout import url_file_name
from aml_emulator.executor.spec import Folder, InputSpec, OutputSpec
from aml_emulator.network.hosts import Destination, decide, is_public_storage
from aml_emulator.store.assets import AssetVersion
from aml_emulator.store.runs import Run

_DATA = ("uri_file", "uri_folder", "mltable")


def output_asset(run_id: str, name: str) -> str:
    """Return the name of the data asset that AzureML makes of a named output."""
    return f"azureml_{run_id}_output_data_{name}"


def put_output_asset(workspace: Workspace, run_id: str, name: str) -> None:
    """Make a stored output a data asset."""
    kind = str(workspace.store.runs.require(run_id).outputs[name]["kind"])
    properties = {
        "dataUri": f"azureml://jobs/{run_id}/outputs/{name}",
        "dataType": kind if kind in _DATA else "uri_folder",
        "isAnonymous": True,
        "isArchived": False,
    }
    workspace.store.assets.put("data", output_asset(run_id, name), "1", properties)


RUN, OUTPUT = "azureml.outputOfRun", "azureml.outputName"
"""Properties of an asset that name its output: a resumed job does not register twice."""


def register_outputs(workspace: Workspace, run: Run, only: Collection[str] | None = None) -> tuple[str, ...]:
    """Register the outputs of a completed job that have a name to be registered under.

    A version that is not given is one more than the highest that is a number.

    Args:
        run: the job's.
        only: the outputs to register; None for all.

    Returns:
        what could not be registered, and why, as sentences.
    """
    problems = []
    for name, value in ((run.job or {}).get("outputs") or {}).items():
        asset = (value or {}).get("assetName")
        if not asset or name not in run.outputs or (only is not None and name not in only):
            continue
        if not run.outputs[name]["stored"]:
            problems.append(f"The output '{name}' was not written, and cannot be registered as '{asset}'.")
            continue
        problem = _register(workspace, run, name, str(asset), value.get("assetVersion"))
        problems += [problem] if problem else []
    return tuple(problems)


def _register(workspace: Workspace, run: Run, name: str, asset: str, version: str | None) -> str | None:
    place = run.outputs[name]
    kind = asset_kind(str(place["kind"]))
    assets = workspace.store.assets
    with workspace.store.transaction():
        if any(_is_ours(item, run, name) for item in assets.versions(kind, asset)):
            return None
        if version and assets.version(kind, asset, str(version)) is not None:
            return f"The output '{name}' cannot be registered as '{asset}:{version}': this version exists already."
        chosen = str(version or assets.next_version(kind, asset))
        assets.put(kind, asset, chosen, _properties(workspace, run, name))
    return None


def _is_ours(version: AssetVersion, run: Run, output: str) -> bool:
    marks = version.properties.get("properties") or {}
    return marks.get(RUN) == run.id and marks.get(OUTPUT) == output


def _properties(workspace: Workspace, run: Run, name: str) -> dict[str, Any]:
    place = run.outputs[name]
    kind = str(place["kind"])
    uri = workspace.address(Folder(container=place["container"], prefix=place["prefix"]))
    if kind != "uri_file":
        uri = f"{uri.rstrip('/')}/"
    common = {
        "isAnonymous": False,
        "isArchived": False,
        "tags": {},
        "properties": {RUN: run.id, OUTPUT: name},
        "description": (run.job or {}).get("outputs", {}).get(name, {}).get("description"),
    }
    if asset_kind(kind) == "models":
        return {**common, "modelUri": uri, "modelType": kind, "flavors": {}, "jobName": run.id}
    return {**common, "dataUri": uri, "dataType": kind}


_EXPRESSION = re.compile(r"\$\{\{(.*?)\}\}")
_ASSET_URIS = {"data": "dataUri", "models": "modelUri"}


def input_spec(workspace: Workspace, name: str, value: Mapping[str, Any]) -> InputSpec:
    """Return what the executor needs for one input that was given.

    Raises:
        DomainError: what it refers to is not there, or cannot be used so.
    """
    kind = INPUT_KINDS[str(value["jobInputType"]).lower()]
    if kind == "literal":
        return InputSpec(name=name, kind=kind, literal=str(value["value"]))
    uri, mode = str(value["uri"]), str(value.get("mode") or "ReadOnlyMount")
    source = _source(workspace, uri)
    base = InputSpec(name=name, kind=kind, uri=uri, mode=mode)
    if _is_elsewhere(workspace, source):
        return _from_the_web(workspace, base, _web_address(source))
    try:
        folder, pattern = _folder(workspace, source)
    except InvalidError as error:
        raise InvalidError(f"The input '{name}' cannot be read: {error.message}") from error
    if mode == "Direct":
        return replace(base, literal=_address(workspace, folder, pattern))
    if pattern is not None and kind not in ("uri_folder", "mltable"):
        raise InvalidError(f"The input '{name}' ({uri}) has wildcards, which a {kind} cannot have: use uri_folder.")
    if pattern is not None and mode == "ReadWriteMount":
        raise InvalidError(f"The input '{name}' ({uri}) has wildcards, and is to be mounted for writing.")
    return replace(base, location=folder, pattern=pattern)


def check_reachable(workspace: Workspace, job: Mapping[str, Any]) -> None:
    """Raise InvalidError if a job's file on the web cannot be read.

    This sends requests, so it may take as long as the hosts need.

    Args:
        job: the properties of a checked job.
    """
    for name, value in given_inputs(job).items():
        # Other kinds than files are refused without a request.
        if INPUT_KINDS[str(value["jobInputType"]).lower()] == "uri_file" and value.get("mode") != "Direct":
            source = _source(workspace, str(value["uri"]))
            url = _web_address(source) if _is_elsewhere(workspace, source) else None
            why = None if url is None else workspace.unreachable(url)
            if url is not None and why is not None:
                shown = url.partition("?")[0]
                raise InvalidError(f"The input '{name}' cannot be read from {shown}: {why}. {UPLOAD_REMEDY}")


def _source(workspace: Workspace, uri: str) -> str:
    """Return the address that *uri* stands for: an asset's own, else itself."""
    location = parse_location(uri)
    if not isinstance(location, AssetId):
        return uri
    for kind, key in _ASSET_URIS.items():
        if location.kind not in ("", kind):
            continue
        version = workspace.asset_version(location, kind)
        if version is not None and version.properties.get(key):
            return str(version.properties[key])
    raise NotFoundError(f"{location.kind or 'asset'} '{location.name}', version '{location.version}'")


def _is_elsewhere(workspace: Workspace, uri: str) -> bool:
    """Return whether an address is on the web or in public storage."""
    location = parse_location(uri)
    if not isinstance(location, BlobPath):
        return False
    identity = workspace.identity
    if location.host == identity.blob_host:
        return False
    decision = decide(location.host, blob_host=identity.blob_host, login_server=identity.login_server)
    web = decision.destination is Destination.ONWARD and uri.lower().startswith(("https:", "http:"))
    return web or is_public_storage(location.host)


def _web_address(uri: str) -> str:
    """Return the https address of a file that may be given as ``wasbs://``."""
    parts = urlsplit(uri)
    if not parts.scheme.lower().startswith("wasb"):
        return uri
    return f"https://{parts.hostname}/{parts.username}{parts.path}"


def _from_the_web(workspace: Workspace, item: InputSpec, url: str) -> InputSpec:
    shown = url.partition("?")[0]
    if item.mode == "Direct":
        return replace(item, literal=url)
    if item.mode == "ReadWriteMount":
        raise InvalidError(f"The input '{item.name}' ({shown}) is on the web, where nothing can be written.")
    if item.kind == "uri_file" and not url_file_name(url):
        raise InvalidError(f"The input '{item.name}' ({shown}) does not name a file.")
    return replace(item, url=url, uri=shown)


def _folder(workspace: Workspace, uri: str) -> tuple[Folder, str | None]:
    folder = workspace.folder(uri)
    if not isinstance(parse_location(uri), DatastorePath):
        return folder, None
    prefix, pattern = split_glob(folder.prefix)
    return replace(folder, prefix=prefix), pattern


def _address(workspace: Workspace, folder: Folder, pattern: str | None) -> str:
    """Return the address that a command gets for a place in the mode ``Direct``."""
    path = f"{folder.prefix.rstrip('/')}/{pattern}".lstrip("/") if pattern else folder.prefix
    return workspace.address(replace(folder, prefix=path))


def place_outputs(workspace: Workspace, run_id: str, job: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the future place of each named output of a job, for the store.

    An output without a uri is at AzureML's place: in the default datastore under ``azureml/<run>/<name>``. In a uri,
    the expressions of https://learn.microsoft.com/azure/machine-learning/reference-yaml-core-syntax are filled in.

    Raises:
        DomainError: a place that is none, or an asset version that is there already.
    """
    placed = {}
    for name, value in (job.get("outputs") or {}).items():
        if name == "default":
            continue
        uri = value.get("uri")
        folder = Folder(container=workspace.identity.blob_container, prefix=f"azureml/{run_id}/{name}")
        if uri:
            folder = _output_folder(workspace, name, _filled(workspace, str(uri), name, run_id))
        kind = str(value["jobOutputType"]).lower()
        _check_asset(workspace, name, kind, value)
        placed[name] = {"container": folder.container, "prefix": folder.prefix, "kind": kind, "stored": False}
    return placed


def _output_folder(workspace: Workspace, name: str, uri: str) -> Folder:
    location = parse_location(uri, what=f"The path of the output '{name}'")
    if not isinstance(location, DatastorePath | BlobPath) or "*" in uri:
        raise InvalidError(f"The output '{name}' can only be written to a path in a datastore, not to '{uri}'.")
    folder = workspace.folder(uri)
    if not folder.prefix:
        raise InvalidError(f"The output '{name}' would be written to the root of a datastore; add a path to '{uri}'.")
    return folder


def _filled(workspace: Workspace, uri: str, output: str, run_id: str) -> str:
    values = {"name": run_id, "output_name": output, "default_datastore": workspace.all_datastores()[0].name}

    def value(match: re.Match[str]) -> str:
        name = match.group(1).strip()
        if name not in values:
            known = ", ".join(f"${{{{{key}}}}}" for key in values)
            raise InvalidError(f"{match.group(0)} in the path of the output '{output}' is not known (known: {known})")
        return values[name]

    # The default datastore may also stand for the whole beginning: azureml://datastores/${{default_datastore}}/paths/...
    return _EXPRESSION.sub(value, uri)


def _check_asset(workspace: Workspace, name: str, kind: str, value: Mapping[str, Any]) -> None:
    asset, version = value.get("assetName"), value.get("assetVersion")
    if asset and version and workspace.store.assets.version(asset_kind(kind), str(asset), str(version)) is not None:
        raise InvalidError(
            f"The output '{name}' is to be registered as '{asset}:{version}', which exists already."
            " Use another version, or leave it out to get the next one."
        )


def asset_kind(output_kind: str) -> str:
    """Return what an output is registered as: ARM's plural."""
    return "models" if output_kind.endswith("_model") else "data"


def output_specs(workspace: Workspace, run: Run) -> tuple[OutputSpec, ...]:
    """Return the executor's outputs for those that :func:`place_outputs` placed."""
    submitted = (run.job or {}).get("outputs") or {}
    found = []
    for name, place in run.outputs.items():
        folder = Folder(container=place["container"], prefix=place["prefix"])
        mode = str(submitted[name].get("mode") or "ReadWriteMount")
        uri = workspace.address(folder)
        found.append(OutputSpec(name=name, kind=str(place["kind"]), location=folder, uri=uri, mode=mode))
    return tuple(found)
