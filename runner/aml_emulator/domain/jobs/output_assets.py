"""The data assets that AzureML makes of the named outputs of jobs."""

from __future__ import annotations

from aml_emulator.domain.workspace import Workspace

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
