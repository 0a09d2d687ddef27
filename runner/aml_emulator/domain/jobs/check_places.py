"""What the emulator accepts of a job's inputs and outputs. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.executor.spec import InputKind

INPUT_KINDS: Mapping[str, InputKind] = {
    "literal": "literal",
    "uri_file": "uri_file",
    "uri_folder": "uri_folder",
    "mltable": "mltable",
    "mlflow_model": "mlflow_model",
    "custom_model": "custom_model",
    "triton_model": "triton_model",
}
OUTPUT_KINDS = frozenset(INPUT_KINDS) - {"literal"}
INPUT_MODES = frozenset({"ReadOnlyMount", "ReadWriteMount", "Download", "Direct"})
OUTPUT_MODES = frozenset({"ReadWriteMount", "Upload", "Direct"})

INPUT_FIELDS = frozenset({"description", "jobInputType", "mode", "uri", "value"})
OUTPUT_FIELDS = frozenset({"assetName", "assetVersion", "description", "jobOutputType", "mode", "uri"})

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_ASSET_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._-]{0,254}")
_MODES_OF_TABLES = ("EvalMount", "EvalDownload")


def check_inputs(inputs: Mapping[str, Any]) -> None:
    """Return if the emulator can give a job these inputs; raise DomainError otherwise."""
    for name, value in inputs.items():
        if not _NAME.fullmatch(name):
            raise InvalidError(f"The name of the input '{name}' consists of letters, digits and '_' only.")
        kind = str((value or {}).get("jobInputType", "")).lower()
        if value is None or (not kind and not value.get("uri") and value.get("value") is None):
            # An optional input that was not given.
            continue
        if kind not in INPUT_KINDS:
            raise NotSupportedError(f"input '{name}' of type '{kind}'")
        _check_fields("input", name, value, INPUT_FIELDS)
        if kind == "literal":
            continue
        if value.get("mode") in _MODES_OF_TABLES:
            raise NotSupportedError(
                f"mode '{value['mode']}' of input '{name}': tables are not evaluated; use ro_mount or download, and"
                " load the MLTable file in the job"
            )
        if value.get("mode") not in (None, *INPUT_MODES):
            raise NotSupportedError(f"mode '{value['mode']}' of input '{name}'")
        if not value.get("uri"):
            raise InvalidError(f"The input '{name}' has no uri.")


def check_outputs(outputs: Mapping[str, Any]) -> None:
    """Return if the emulator can keep these outputs; raise DomainError otherwise."""
    for name, value in outputs.items():
        if name == "default":
            continue
        if not _NAME.fullmatch(name):
            raise InvalidError(f"The name of the output '{name}' consists of letters, digits and '_' only.")
        kind = str((value or {}).get("jobOutputType", "")).lower()
        if kind not in OUTPUT_KINDS:
            raise NotSupportedError(f"output '{name}' of type '{kind}'")
        _check_fields("output", name, value, OUTPUT_FIELDS)
        if value.get("mode") not in (None, *OUTPUT_MODES):
            raise NotSupportedError(f"mode '{value['mode']}' of output '{name}'")
        asset = value.get("assetName")
        if asset and not _ASSET_NAME.fullmatch(str(asset)):
            raise InvalidError(f"The output '{name}' cannot be registered under the name '{asset}'.")
        if value.get("assetVersion") and not asset:
            raise InvalidError(f"The output '{name}' has a version to be registered under, and no name.")


def _check_fields(what: str, name: str, value: Mapping[str, Any], known: frozenset[str]) -> None:
    for key, content in value.items():
        if key not in known and content not in (None, "", {}, []):
            raise NotSupportedError(f"{key} of {what} '{name}'")
