"""The data of a run configuration → inputs and outputs of a command job, and the variables that tell their paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aml_train.config.yaml.nodes import Faults, MapNode, join, place

_MODES: Final = {"mount": "ro_mount", "download": "download", "direct": "direct", None: "ro_mount"}
_OF_DATASETS: Final = {"mount": "eval_mount", "download": "eval_download", "direct": "direct", None: "eval_mount"}
"""How a command job reads what SDK v1 registered: https://learn.microsoft.com/azure/machine-learning/migrate-to-v2-assets-data."""
_INTO: Final = {"mount": "rw_mount", "upload": "upload", None: "rw_mount"}
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(kw_only=True)
class JobData:
    """What a job reads and writes, in a command job's words; *variables*: name → such as ``inputs.x``."""

    inputs: dict[str, Any] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    variables: dict[str, str] = field(default_factory=dict)


def data_of(tree: MapNode, values: Mapping[str, Any], faults: Faults) -> JobData:
    """Return the data of a run configuration, with complaints of what a command job cannot have.

    A data reference's path is told by ``AZUREML_DATAREFERENCE_NAME``, an input's by the variable that it names or by its own name
    (azureml-core 1.61, ``DataReferenceConfiguration`` and ``Data``).
    """
    found = JobData()
    for name, given in (values.get("dataReferences") or {}).items():
        keys = ("dataReferences", name)
        path = _datastore_path(given["dataStoreName"], given.get("pathOnDataStore"))
        mode = str(given.get("mode") or "mount").lower()
        _unused(tree, given, (*keys, "pathOnCompute"), faults)
        if mode == "upload":
            item = {"type": "uri_folder", "path": path, "mode": "upload"}
            _add(found.outputs, found, name, item, "outputs", f"AZUREML_DATAREFERENCE_{name}", tree, keys, faults)
        else:
            item = {"type": "uri_folder", "path": path, "mode": _MODES[mode]}
            _add(found.inputs, found, name, item, "inputs", f"AZUREML_DATAREFERENCE_{name}", tree, keys, faults)
    for name, given in (values.get("data") or {}).items():
        keys = ("data", name)
        location = _location(tree, given.get("dataLocation") or {}, (*keys, "dataLocation"), faults)
        _unused(tree, given, (*keys, "pathOnCompute"), faults)
        if location is not None:
            modes = _OF_DATASETS if location["type"] == "mltable" else _MODES
            item = {**location, "mode": modes[_lower(given.get("mechanism"))]}
            variable = given.get("environmentVariableName") or name
            _add(found.inputs, found, name, item, "inputs", variable, tree, keys, faults)
    for name, given in (values.get("outputData") or {}).items():
        keys = ("outputData", name)
        location = given.get("outputLocation")
        item = {"type": "uri_folder"}
        if location:
            place_of = _location(tree, location, (*keys, "outputLocation"), faults)
            if place_of is None:
                continue
            item |= {"path": place_of["path"]}
        if _says_something(given.get("additionalOptions")):
            what = f"`{_dotted((*keys, 'additionalOptions'))}` is not supported"
            remedy = "delete it; an output is registered by a command job's `outputs.NAME.name`"
            faults.add(place(tree, *keys, "additionalOptions"), what, remedy=remedy)
        item["mode"] = _INTO[_lower(given.get("mechanism"))]
        variable = given.get("environmentVariableName") or name
        _add(found.outputs, found, name, item, "outputs", variable, tree, keys, faults)
    return found


def _says_something(options: object) -> bool:
    """Tell whether any option differs from what azureml-core saves for none."""
    if isinstance(options, Mapping):
        return any(_says_something(value) for value in options.values())
    return bool(options)


def _lower(text: str | None) -> str | None:
    return text.lower() if text else None


def _datastore_path(datastore: str, path: str | None) -> str:
    return f"azureml://datastores/{datastore}/paths/{(path or '').strip('/')}"


def _location(
    tree: MapNode, location: Mapping[str, Any], keys: tuple[str, ...], faults: Faults
) -> dict[str, str] | None:
    """Return where data is, as a job's input names it; None after a complaint."""
    dataset, path, uri = (location.get(key) or {} for key in ("dataset", "dataPath", "uri"))
    if dataset.get("name"):
        version = dataset.get("version")
        reference = f"azureml:{dataset['name']}" + (f":{version}" if version else "@latest")
        return {"type": "mltable", "path": reference}
    if path.get("datastoreName"):
        return {"type": "uri_folder", "path": _datastore_path(path["datastoreName"], path.get("relativePath"))}
    if uri.get("path"):
        return {"type": "uri_file" if uri.get("isFile") else "uri_folder", "path": uri["path"]}
    why = "it names the dataset by its id alone" if dataset.get("id") else ""
    remedy = "give it `dataset: {name: …, version: …}`, `dataPath` or `uri`"
    name = _dotted(keys)
    faults.add(place(tree, *keys), f"`{name}` does not say where the data is", why=why, remedy=remedy)
    return None


def _unused(tree: MapNode, given: Mapping[str, Any], keys: tuple[str, ...], faults: Faults) -> None:
    if given.get(keys[-1]):
        why = "AzureML chooses the path in the job, and tells it by the variable"
        faults.add(place(tree, *keys), f"`{_dotted(keys)}` is not supported", why=why, remedy="delete it")


def _add(
    into: dict[str, Any],
    found: JobData,
    name: str,
    item: Mapping[str, Any],
    kind: str,
    variable: str,
    tree: MapNode,
    keys: tuple[str, ...],
    faults: Faults,
) -> None:
    for what, text in (("name", name), ("variable", variable)):
        if not _NAME.fullmatch(text):
            faults.add(place(tree, *keys), f"the {what} of `{_dotted(keys)}` must be letters, digits and `_`")
            return
    if name in found.inputs or name in found.outputs:
        faults.add(place(tree, *keys), f"there are two inputs or outputs named `{name}`", remedy="rename one")
        return
    into[name] = dict(item)
    found.variables[variable] = f"{kind}.{name}"


def _dotted(keys: tuple[str, ...]) -> str:
    name = ""
    for key in keys:
        name = join(name, key)
    return name
