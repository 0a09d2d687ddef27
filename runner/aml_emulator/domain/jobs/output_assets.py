"""The assets that are made of the outputs of jobs.

Each is a data asset; those with a name are registered under it.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from aml_emulator.domain.jobs.places import asset_kind
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import Folder
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
