"""What a RunConfiguration of azureml-core says of data, as inputs and outputs of a job. Pure.

Fields are those that azureml-core 1.61 sends: ``dataReferences``, ``data`` and ``outputData``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aml_emulator.domain.errors import InvalidError, NotSupportedError

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")

INPUT_MODES = {"mount": "ReadOnlyMount", "download": "Download", "direct": "Direct"}
"""How data gets into a run, and how that is called in a job."""

REFERENCE_MODES = {"mount": "ReadWriteMount", "download": "Download"}
"""The same of a data reference, which can be written to when it is mounted."""

OUTPUT_MODES = {"mount": "ReadWriteMount", "upload": "Upload"}
"""How data gets out of a run."""

DEFAULT_PLACE = "dataset/{run-id}/{output-name}"
"""Where an output lies that does not say where, in the default datastore, as azureml-core documents it."""


DATASETS = "AZUREML_DATASET_ENVIRONMENT_VARS"
"""The variable by which ``Run.input_datasets`` finds a run's datasets: ``NAME:MODE``, with commas between."""


@dataclass(frozen=True, kw_only=True)
class Dataset:
    """A dataset that a run reads: the data asset's ARM id, its type, and the id by which azureml-core knows it."""

    uri: str
    kind: str
    saved_id: str


def references(config: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return what a run's data say of datasets: id, or name and version, by the name of the data."""
    found = {}
    for name, given in (config.get("data") or {}).items():
        dataset = (given.get("dataLocation") or {}).get("dataset") or {}
        if dataset.get("id") or dataset.get("name"):
            found[name] = dataset
    return found


def inputs(config: Mapping[str, Any], datasets: Mapping[str, Dataset]) -> dict[str, Any]:
    """Return the inputs that play a run's data references and data.

    Args:
        config: the RunConfiguration.
        datasets: what :func:`references` mean.

    Raises:
        NotSupportedError: what cannot be played, by its name.
        InvalidError: a name that is none.
    """
    found = {}
    for name, given in (config.get("dataReferences") or {}).items():
        _check(name, given.get("pathOnCompute"))
        mode = _mode(name, given.get("mode"), REFERENCE_MODES)
        found[name] = _input(given.get("dataStoreName"), given.get("pathOnDataStore"), mode)
    for name, given in (config.get("data") or {}).items():
        _check(name, given.get("pathOnCompute"))
        mode = _mode(name, given.get("mechanism"), INPUT_MODES)
        location = given.get("dataLocation") or {}
        path, uri = location.get("dataPath") or {}, location.get("uri") or {}
        if name in datasets:
            found[name] = _dataset(datasets[name], mode)
        elif path.get("datastoreName"):
            found[name] = _input(path["datastoreName"], path.get("relativePath"), mode)
        elif uri.get("path"):
            kind = "uri_file" if uri.get("isFile") else "uri_folder"
            found[name] = {"jobInputType": kind, "uri": str(uri["path"]), "mode": mode}
        else:
            what = "which is neither a dataset nor a path of a datastore nor an address"
            raise NotSupportedError(f"the run configuration's 'data.{name}', {what}")
    return found


def _dataset(dataset: Dataset, mode: str) -> dict[str, Any]:
    """Return the input that plays a dataset; in the mode ``direct`` the run gets its id."""
    if mode == "Direct":
        return {"jobInputType": "literal", "value": dataset.saved_id}
    return {"jobInputType": dataset.kind, "uri": dataset.uri, "mode": mode}


def outputs(config: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    """Return the outputs that play those of a run; one that is registered when the run completes becomes a data asset.

    Raises:
        DomainError: as `inputs`.
    """
    found = {}
    for name, given in (config.get("outputData") or {}).items():
        options = given.get("additionalOptions") or {}
        _check(name, options.get("pathOnCompute"))
        location = given.get("outputLocation") or {}
        path = location.get("dataPath") or {}
        if location and not path.get("datastoreName"):
            raise NotSupportedError(f"the run configuration's 'outputData.{name}', which is no path of a datastore")
        relative = str(path.get("relativePath") or DEFAULT_PLACE).strip("/")
        relative = relative.replace("{run-id}", run_id).replace("{output-name}", name)
        uri = f"azureml://datastores/{path.get('datastoreName') or 'workspaceblobstore'}/paths/{relative}/"
        found[name] = {
            "jobOutputType": "uri_folder",
            "uri": uri,
            "mode": _mode(name, given.get("mechanism"), OUTPUT_MODES),
        }
        registered = (options.get("registrationOptions") or {}).get("name")
        if registered:
            found[name]["assetName"] = str(registered)
    return found


def exports(config: Mapping[str, Any]) -> str:
    """Return the shell code that sets the variables by which a run finds its data."""
    given = [(f"AZUREML_DATAREFERENCE_{name}", name) for name in config.get("dataReferences") or {}]
    for name, item in (config.get("data") or {}).items():
        given.append((str(item.get("environmentVariableName") or name), name))
    for variable, _ in given:
        if not NAME.fullmatch(variable):
            raise InvalidError(f"'{variable}' cannot be the name of a variable.")
    lines = "".join(f'export {variable}="${{{{inputs.{name}}}}}"; ' for variable, name in given)
    told = [
        f"{item.get('environmentVariableName') or name}:{str(item.get('mechanism') or 'mount').lower()}"
        for name, item in (config.get("data") or {}).items()
        if name in references(config)
    ]
    return lines + (f'export {DATASETS}="{",".join(told)}"; ' if told else "")


def _input(datastore: Any, path: Any, mode: str) -> dict[str, Any]:
    uri = f"azureml://datastores/{datastore}/paths/{str(path or '').strip('/')}"
    return {"jobInputType": "uri_folder", "uri": uri, "mode": mode}


def _mode(name: str, given: Any, modes: Mapping[str, str]) -> str:
    mode = str(given or "mount").lower()
    if mode not in modes:
        raise NotSupportedError(f"the data '{name}' in the mode '{mode}' (it has: {', '.join(sorted(modes))})")
    return modes[mode]


def _check(name: str, path_on_compute: Any) -> None:
    if not NAME.fullmatch(name):
        raise InvalidError(f"'{name}' cannot be the name of data.")
    if path_on_compute:
        raise NotSupportedError(f"the data '{name}' with a path on the compute")
