"""A command job as Azure Resource Manager shows it, in the grammar of the CLI v2.

Names and values are those of azure-ai-ml 1.35.1 (``entities/_job/_input_output_helpers.py``, ``constants/_common.py``, and the
generated client of api-version 2023-08-01-preview).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError
from aml_train.core.numbers import iso_seconds

_MODES: Final[Mapping[str, str]] = {
    "ReadOnlyMount": "ro_mount",
    "ReadWriteMount": "rw_mount",
    "Download": "download",
    "Upload": "upload",
    "Direct": "direct",
    "EvalMount": "eval_mount",
    "EvalDownload": "eval_download",
}
_IDENTITIES: Final[Mapping[str, str]] = {
    "AMLToken": "aml_token",
    "Managed": "managed_identity",
    "UserIdentity": "user_identity",
}


def command_document(name: str, properties: Answer) -> dict[str, Any]:
    """Return a command job's document without code and environment. Pure.

    Args:
        name: the job's.
        properties: of its answer.

    Raises:
        InvalidError: it is no command job.
    """
    kind = properties.optional_text("jobType")
    if kind != "Command":
        raise InvalidError(f"The job {name} is of type {kind}: only command jobs can be trained elsewhere.")
    found: dict[str, Any] = {
        "type": "command",
        "command": properties.text("command"),
        "compute": properties.optional_text("computeId"),
        "experiment_name": properties.optional_text("experimentName"),
        "display_name": properties.optional_text("displayName"),
        "description": properties.optional_text("description"),
        "tags": properties.texts("tags"),
        "environment_variables": properties.texts("environmentVariables"),
        "inputs": {key: _input(value) for key, value in properties.members("inputs") if value.value is not None},
        "outputs": dict(_outputs(name, properties)),
        "resources": snake(properties.mapping("resources"), leave_out=("properties",)),
        "queue_settings": snake(properties.mapping("queueSettings")),
        "distribution": _distribution(properties.mapping("distribution")),
        "limits": _limits(properties.optional_text("limits.timeout")),
        "identity": _identity(properties.optional_text("identity.identityType")),
    }
    return {key: value for key, value in found.items() if value not in (None, {})}


def _input(value: Answer) -> Any:
    if value.optional_text("jobInputType") == "literal":
        return value.literal("value")
    return _kept(
        type=value.optional_text("jobInputType"),
        path=value.optional_text("uri"),
        mode=_MODES.get(value.optional_text("mode") or ""),
    )


def _outputs(job: str, properties: Answer) -> Iterator[tuple[str, Any]]:
    """Yield the outputs; one whose place the service chose gets a new one."""
    for name, value in properties.members("outputs"):
        if name == "default" or value.value is None:
            continue
        path = value.optional_text("uri") or ""
        own = re.search(rf"/azureml/{re.escape(job)}/[^/]+/?$", path)
        yield (
            name,
            _kept(
                type=value.optional_text("jobOutputType"),
                mode=_MODES.get(value.optional_text("mode") or ""),
                path=None if own else path or None,
                name=value.optional_text("assetName"),
            ),
        )


def _distribution(given: Mapping[str, Any]) -> dict[str, Any]:
    rest = snake(given, leave_out=("distributionType",))
    kind = given.get("distributionType")
    return {"type": str(kind).lower(), **rest} if kind else {}


def _limits(text: str | None) -> dict[str, Any]:
    seconds = iso_seconds(text or "")
    return {} if seconds is None else {"timeout": seconds}


def _identity(kind: str | None) -> dict[str, Any]:
    known = _IDENTITIES.get(kind or "")
    return {} if known is None else {"type": known}


def snake(given: Mapping[str, Any], leave_out: tuple[str, ...] = ()) -> dict[str, Any]:
    """Return a mapping of Azure Resource Manager with the keys of the CLI v2."""
    kept = {key: value for key, value in given.items() if key not in leave_out and value is not None}
    return {re.sub(r"(?<!^)([A-Z])", r"_\1", key).lower(): value for key, value in kept.items()}


def _kept(**members: Any) -> dict[str, Any]:
    return {key: value for key, value in members.items() if value is not None}
