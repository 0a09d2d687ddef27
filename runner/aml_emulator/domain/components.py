"""A component as AzureML shows it: completed, with numbers and flags as text.

Recorded: azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings/component/e2etests, test_command_component,
test_pytorch_component and test_helloworld_nested_pipeline_component. The nodes of a pipeline component, which those of 2022 leave
out, are shown as they were sent.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from aml_emulator.domain.curated import is_curated

_FIRST: Final = (
    "name",
    "version",
    "display_name",
    "is_deterministic",
    "type",
    "description",
    "tags",
    "inputs",
    "outputs",
)
CHANGING: Final = ("description", "display_name", "tags")
"""Fields of a component that are no content of it."""

_UNSHOWN: Final = ("_source", "id")


def shown_component(spec: Mapping[str, Any], name: str, version: str) -> dict[str, Any]:
    """Return the ``componentSpec`` of an answer.

    Args:
        spec: as it was sent.
        name, version: those of the asset, if *spec* has none; an anonymous component has others.
    """
    kind = str(spec.get("type") or "command")
    whole = {
        **spec,
        "name": spec.get("name") or name,
        "version": spec.get("version") or version,
        "type": kind,
        "is_deterministic": _text(spec.get("is_deterministic", kind.lower() != "pipeline")),
        "inputs": _each(spec.get("inputs"), _input),
        "outputs": _each(spec.get("outputs"), lambda value: value or {"type": "uri_folder"}),
        "resources": _text(spec.get("resources")),
        "distribution": _distribution(spec.get("distribution")),
        "environment": _environment(spec.get("environment")),
    }
    if kind.lower() == "command" and isinstance(whole["resources"] or {}, Mapping):
        whole["resources"] = {"instance_count": "1", **(whole["resources"] or {})}
    keys = (*_FIRST, *(key for key in whole if key not in _FIRST))
    return {key: whole[key] for key in keys if key in whole and key not in _UNSHOWN and whole[key] not in (None, {})}


def same_content(before: Any, now: Any) -> bool:
    """Return whether two specifications are of one component.

    azure-ai-ml 1.35, ``Component._get_anonymous_hash``. Description, display name and tags may change (recorded:
    component/e2etests, test_component_update), and a client may send what it was shown, as to archive a component.
    """
    one, other = (shown_component(spec if isinstance(spec, Mapping) else {}, "", "") for spec in (before, now))
    changing = (*CHANGING, "name", "version")
    return {key: one[key] for key in one if key not in changing} == {
        key: other[key] for key in other if key not in changing
    }


def with_changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> dict[str, Any]:
    """Return a component as it was sent first, with the texts that may change."""
    return {**before, **{key: now[key] for key in CHANGING if key in now}}


def _each(values: Any, shown: Callable[[Any], Any]) -> Any:
    """Return a mapping with its values as they are shown; another value as it is."""
    values = {} if values is None else values
    return {key: shown(value) for key, value in values.items()} if isinstance(values, Mapping) else values


def _distribution(value: Any) -> Any:
    if not isinstance(value, Mapping):
        return value
    type_ = {"type": str(value["type"]).capitalize()} if value.get("type") else {}
    return {**_text(value), **type_}


def _input(value: Any) -> Any:
    if not isinstance(value, Mapping) or str(value.get("type")).lower() == "group":
        return value
    given = {key: inner for key, inner in value.items() if inner is not None}
    return {"type": value.get("type"), "optional": "False", **_text(given)}


def _environment(environment: Any) -> Any:
    """Return an environment's id: of a curated one in the registry ``azureml``."""
    if not isinstance(environment, str) or environment.startswith("azureml://"):
        return environment
    name, _, version = environment.removeprefix("azureml:").partition(":")
    if "/" not in name and version and is_curated(name):
        return f"azureml://registries/azureml/environments/{name}/versions/{version}"
    return environment


def _text(value: Any) -> Any:
    """Return a value with the numbers and flags in it as text."""
    if isinstance(value, Mapping):
        return {key: _text(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_text(inner) for inner in value]
    return str(value) if isinstance(value, bool | int | float) else value
