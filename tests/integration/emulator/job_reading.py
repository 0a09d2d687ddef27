"""Whether a job reads back as it was written: its YAML against what azure-ai-ml and the service show of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

NAMES_OF_KINDS = {"managed_identity": "managed"}


def differences(
    written: Mapping[str, Any], back: Mapping[str, Any], raw: Mapping[str, Any], *, lost: tuple[str, ...] = ()
) -> list[str]:
    """Return what of a job is not shown as it was written.

    Args:
        written: the job's YAML.
        back: the job as azure-ai-ml reads it, as YAML again.
        raw: the job's ``properties`` as the service shows them.
        lost: keys that azure-ai-ml does not read, which are compared with *raw* by :data:`RAW`.
    """
    found: list[str] = []
    for key, value in written.items():
        if key in lost:
            continue
        compare = COMPARED.get(key, _equal)
        found += [f"{key}: {text}" for text in compare(value, back.get(key), lost)]
    for key in lost:
        found += RAW[key](written, raw)
    return found


def _equal(value: Any, shown: Any, _lost: tuple[str, ...]) -> list[str]:
    return [] if value == shown else [f"{value!r} is shown as {shown!r}"]


def _texts(value: Mapping[str, Any], shown: Mapping[str, Any] | None, lost: tuple[str, ...]) -> list[str]:
    """Compare mappings of text; what is added by the service or by aml-train is not looked at."""
    texts = {key: str(item) for key, item in value.items()}
    return _equal(texts, {key: (shown or {}).get(key) for key in value}, lost)


def _reference(value: Any, shown: Any, _lost: tuple[str, ...]) -> list[str]:
    """Compare a reference to something in the workspace: the service shows its whole name, with a version."""
    if isinstance(value, Mapping) or str(value).startswith("file:"):
        return [] if shown else ["nothing is shown"]
    name, _, version = str(value).rpartition("/")[2].removeprefix("azureml:").partition(":")
    if "@" in name:
        name, version = name.partition("@")[0], ""
    if "/versions/" in str(value):
        name, version = str(value).split("/")[-3], str(value).split("/")[-1]
    wanted = f":{name}:{version}" if version else name
    short = str(shown).replace("/versions/", ":")
    return (
        []
        if (f":{name}:{version}" in short or f"/{name}:{version}" in short or wanted in short)
        else [f"{value!r} is shown as {shown!r}"]
    )


def _code(_value: Any, shown: Any, _lost: tuple[str, ...]) -> list[str]:
    return [] if "codes" in str(shown) or "azureml:" in str(shown) else [f"the code is shown as {shown!r}"]


def _inputs(value: Mapping[str, Any], shown: Mapping[str, Any] | None, _lost: tuple[str, ...]) -> list[str]:
    found = []
    for name, item in value.items():
        seen = (shown or {}).get(name)
        if not isinstance(item, Mapping) or "value" in item:
            text = str(item["value"] if isinstance(item, Mapping) else item)
            found += [] if seen == text else [f"{name}: {text!r} is shown as {seen!r}"]
            continue
        seen = seen or {}
        found += _same(name, item, seen, ("type", "mode"))
        path = str(item["path"])
        if "://" in path and seen.get("path") not in (path, f"azureml:{path}"):
            found.append(f"{name}.path: {path!r} is shown as {seen.get('path')!r}")
        elif not seen.get("path"):
            found.append(f"{name}.path: nothing is shown")
    return found


def _outputs(value: Mapping[str, Any], shown: Mapping[str, Any] | None, lost: tuple[str, ...]) -> list[str]:
    found = []
    for name, item in value.items():
        seen = (shown or {}).get(name) or {}
        wanted = {"type": "uri_folder", **(item or {})}
        found += _same(name, wanted, seen, ("type", "mode", "name", "path"))
        if "version" in wanted and "version" not in lost:
            found += _same(name, wanted, seen, ("version",))
    return found


def _same(name: str, item: Mapping[str, Any], seen: Mapping[str, Any], keys: tuple[str, ...]) -> list[str]:
    return [
        f"{name}.{key}: {item[key]!r} is shown as {seen.get(key)!r}"
        for key in keys
        if key in item and item[key] != seen.get(key)
    ]


def _record(value: Mapping[str, Any], shown: Mapping[str, Any] | None, lost: tuple[str, ...]) -> list[str]:
    seen = shown or {}
    wanted = {key: NAMES_OF_KINDS.get(str(item), item) for key, item in value.items() if key not in lost}
    found = {key: NAMES_OF_KINDS.get(str(seen.get(key)), seen.get(key)) for key in wanted}
    return _equal(wanted, found, lost)


def _name(value: str, shown: Any, _lost: tuple[str, ...]) -> list[str]:
    """aml-train adds a hash and a number to the name."""
    return [] if str(shown).startswith(value[:40].rstrip("-")) else [f"{value!r} is shown as {shown!r}"]


def _raw_priority(written: Mapping[str, Any], raw: Mapping[str, Any]) -> list[str]:
    wanted = {"low": 1, "medium": 2, "high": 3}[written["queue_settings"]["priority"]]
    return _equal(wanted, raw["queueSettings"].get("priority"), ())


def _raw_version(written: Mapping[str, Any], raw: Mapping[str, Any]) -> list[str]:
    wanted = {name: str(item["version"]) for name, item in written["outputs"].items() if "version" in (item or {})}
    return _equal(wanted, {name: raw["outputs"][name].get("assetVersion") for name in wanted}, ())


def _raw_parent(written: Mapping[str, Any], raw: Mapping[str, Any]) -> list[str]:
    return _equal(written["parent_job_name"], raw.get("parentJobName"), ())


def _raw_arguments(written: Mapping[str, Any], raw: Mapping[str, Any]) -> list[str]:
    return _equal(written["resources"]["docker_args"], raw["resources"].get("dockerArgsList"), ())


Compare = Callable[[Any, Any, tuple[str, ...]], list[str]]

COMPARED: Mapping[str, Compare] = {
    "code": _code,
    "compute": _reference,
    "distribution": _record,
    "environment": _reference,
    "environment_variables": _texts,
    "identity": _record,
    "inputs": _inputs,
    "limits": _record,
    "name": _name,
    "outputs": _outputs,
    "properties": _texts,
    "queue_settings": _record,
    "resources": _record,
    "tags": _texts,
}

RAW: Mapping[str, Callable[[Mapping[str, Any], Mapping[str, Any]], list[str]]] = {
    "docker_args": _raw_arguments,
    "parent_job_name": _raw_parent,
    "priority": _raw_priority,
    "version": _raw_version,
}
