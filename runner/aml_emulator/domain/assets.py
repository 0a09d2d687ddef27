"""Versioned assets: environments, codes, data and models, with few special rules.

A version of an environment, of code or of data never changes its content; a model's tags and description may change.
"""

from __future__ import annotations

import json
import re
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final

from aml_emulator.domain.curated import (
    curated_container,
    curated_containers,
    curated_version,
    curated_versions,
    is_curated,
)
from aml_emulator.domain.environments import conda_of, context_as_known
from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.domain.locations import AssetId, in_datastore, parse_location
from aml_emulator.domain.models import delete_model, delete_model_name, locate_model
from aml_emulator.domain.workspace import Workspace, shelf
from aml_emulator.schema import ANYTHING, FLAG, OBJECT, TEXT, Fields, MapOf
from aml_emulator.store.assets import AssetContainer, AssetVersion

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
    if isinstance(task := spec.get("task"), Mapping) and "environment" in task:
        whole["task"] = {**task, "environment": _environment(task["environment"])}
    if kind.lower() == "command" and isinstance(whole["resources"] or {}, Mapping):
        whole["resources"] = {"instance_count": "1", **(whole["resources"] or {})}
    if kind.lower() == "spark":  # recorded: component/e2etests, test_spark_component
        whole |= {ports: _each(whole[ports], _without_mode) for ports in ("inputs", "outputs")}
    if kind.lower() == "pipeline" and isinstance(inputs := whole["inputs"], dict):
        # The default of an input that is a node's compute is a mere name (recorded: test_simple_pipeline_component_create).
        for name in re.findall(r'"computeId": "\$\{\{parent\.inputs\.(\w+)', json.dumps(spec.get("jobs"))):
            if isinstance(value := inputs.get(name), Mapping) and "default" in value:
                inputs[name] = {**value, "default": str(value["default"]).removeprefix("azureml:")}
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


def _without_mode(port: Any) -> Any:
    return {key: value for key, value in port.items() if key != "mode"} if isinstance(port, Mapping) else port


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


ASSET_KINDS: Final = ("environments", "codes", "data", "models", "components")

_ANONYMOUS: Final = "azureml_anonymous"
"""The name of components in place; azure-ai-ml's hash of their content is the version, but Azure keeps those of other names apart
(recorded: component/e2etests, test_anonymous_component_reuse)."""

_NO_COMPONENT: Final = ("NotFound", "ComponentNotFound")
"""Recorded: component/e2etests, test_command_component_create_autoincrement."""

DATA_TYPES: Final = ("uri_file", "uri_folder", "mltable")
MODEL_TYPES: Final = ("custom_model", "mlflow_model", "triton_model")
_IMAGE: Final = re.compile(r"[A-Za-z0-9][\w.:/@+-]*")
"""The form of an image's reference, roughly: neither empty nor with spaces, and no option of a command."""

_NAME: Final = re.compile(r"[a-zA-Z0-9_][a-zA-Z0-9._-]{0,254}")
_VERSION_NAME: Final = re.compile(r"[^\s/:@]{1,255}")

IMMUTABLE: Final[Mapping[str, tuple[str, ...]]] = {
    "environments": ("image", "build", "condaFile"),
    "codes": ("codeUri",),
    "data": ("dataUri", "dataType"),
    "models": ("modelUri", "modelType"),
    "components": ("componentSpec",),
}
"""The content of a version, by kind: fields that cannot be changed."""

_COMMON: Final = {"description": TEXT, "tags": MapOf(ANYTHING), "properties": MapOf(ANYTHING), "isArchived": FLAG}

ASSET_CONTAINER: Final = Fields(_COMMON)
"""The properties of what is common to all versions of a name."""

_VERSION: Final = {**_COMMON, "isAnonymous": FLAG, "stage": TEXT}

ASSET_VERSIONS: Final = {
    "environments": Fields(
        {
            **_VERSION,
            "image": TEXT,
            "condaFile": TEXT,
            "autoRebuild": TEXT,
            "build": Fields({"contextUri": TEXT, "dockerfilePath": TEXT}),
        }
    ),
    "codes": Fields({**_VERSION, "codeUri": TEXT}, required=("codeUri",)),
    "data": Fields({**_VERSION, "dataUri": TEXT, "dataType": TEXT}, required=("dataUri", "dataType")),
    "models": Fields({**_VERSION, "modelUri": TEXT, "modelType": TEXT, "flavors": OBJECT, "jobName": TEXT}),
    "components": Fields({**_VERSION, "componentSpec": OBJECT}, required=("componentSpec",)),
}
"""The properties of a version, by kind."""


def _check_content(kind: str, given: Mapping[str, Any]) -> None:
    """Raise InvalidError for content that the specification does not know."""
    type_ = given.get("dataType")
    if kind == "data" and type_ is not None and type_.lower() not in DATA_TYPES:
        raise InvalidError(f"The dataType '{type_}' is invalid: {', '.join(DATA_TYPES)}.")
    if kind == "data" and given.get("dataUri") is not None:
        parse_location(str(given["dataUri"]), what="The dataUri")
    image = given.get("image")
    if kind == "environments" and image and not _IMAGE.fullmatch(image):
        raise InvalidError(f"The image '{image}' of the environment is not a reference of a container image.")
    if kind == "environments" and not (image or given.get("build")):
        # The service's words: Azure/azureml-previews#213 and #333.
        raise InvalidError("BaseImage, BaseDockerfile, or BuildContext must be set for Docker-based environments.")
    model = given.get("modelType") or MODEL_TYPES[0]
    if kind == "models" and model not in MODEL_TYPES:
        # Refused, says MicrosoftDocs/azure-docs#105689; the words are not known.
        raise InvalidError(f"The model type '{model}' is not supported. Use one of: {', '.join(MODEL_TYPES)}.")


def known_version(workspace: Workspace, kind: str, name: str, version: str) -> AssetVersion:
    """Return a version of an asset.

    Raises:
        NotFoundError: there is none.
    """
    known = workspace.store.assets.version(kind, name, version)
    if known is None and kind == "environments" and is_curated(name):
        known = curated_version(workspace, name, version)
    if known is None and kind == "components":
        known = workspace.asset_version(AssetId(kind=kind, name=name, version=version), kind)
    if known is None:
        raise no_version(kind, name, version)
    return known


def container_of(workspace: Workspace, kind: str, name: str) -> AssetContainer | None:
    """Return the common part of a name in the workspace, or None."""
    found = workspace.store.assets.container(kind, name)
    if found is None and kind == "environments" and is_curated(name) and curated_versions(workspace, name):
        return curated_container(workspace, name)
    return found


def put_container(
    workspace: Workspace, place: str, name: str, given: Mapping[str, Any]
) -> tuple[AssetContainer, bool]:
    """Create or change the common part of a name; return it and whether it is new.

    Args:
        place: ARM's plural, or the shelf of a registry.

    Raises:
        InvalidError: no asset can have this name.
    """
    # The service computes these from the versions.
    properties = {key: value for key, value in given.items() if key not in ("latestVersion", "nextVersion")}
    with workspace.store.transaction():
        new = workspace.store.assets.container(place, name) is None
        if new:
            check_asset_name(name)
        return workspace.store.assets.put_container(place, name, properties), new


def containers_of(workspace: Workspace, kind: str) -> list[AssetContainer]:
    """Return the names of assets in the workspace, with those of curated environments."""
    found = workspace.store.assets.containers(kind)
    if kind == "environments":
        names = {one.name.lower() for one in found}
        found += [
            one for one in curated_containers(workspace) if is_curated(one.name) and one.name.lower() not in names
        ]
    return found


def versions_of(workspace: Workspace, kind: str, name: str) -> list[AssetVersion]:
    """Return the versions of an asset in the workspace, the newest first."""
    found = workspace.store.assets.versions(kind, name)
    return curated_versions(workspace, name) if not found and kind == "environments" and is_curated(name) else found


def no_container(kind: str, name: str) -> NotFoundError:
    """Return the error for a name that no asset has, in the service's words."""
    if kind == "environments":
        return no_version(kind, name, "")
    if kind == "components":
        return NotFoundError(f"component '{name}'", message=f"Not found component {name}.", reasons=_NO_COMPONENT)
    if kind == "models":
        message = f"Model container with name: {name} not found."
        return _no_resource(f"{kind} container '{name}'", "ModelNotFound", message)
    return NotFoundError(f"{kind} container '{name}'")


def no_version(kind: str, name: str, version: str) -> NotFoundError:
    """Return the error for a version that there is not, in the service's words."""
    what = f"{kind} '{name}', version '{version}'"
    if kind == "environments":
        message = f"No environment exists for name: {name}, version: {version}, label: "
        return NotFoundError(what, message=message)
    if kind == "data":
        # Recorded: azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings/dataset.
        return NotFoundError(what, message=f"Data version {name}:{version} (dataContainerName:version) not found.")
    return NotFoundError(what)


def _no_resource(what: str, code: str, message: str) -> NotFoundError:
    details = ({"code": code, "message": message},)
    return NotFoundError(what, message="The specified resource was not found.", reasons=(), details=details)


def put_version(
    workspace: Workspace, kind: str, name: str, version: str, given: Mapping[str, Any], *, registry: str | None = None
) -> tuple[AssetVersion, bool]:
    """Create a version of an asset, or change one; return it and whether it is new.

    Args:
        kind: ARM's plural.
        given: its properties, of the types of `VERSIONS`.
        registry: its registry; None for the workspace.

    Raises:
        ConflictError: the content of an existing version would change.
        DomainError: the content cannot be read, or does not exist.
    """
    place = shelf(kind, registry)
    if workspace.store.assets.container(place, name) is None:
        check_asset_name(name)
    before = workspace.store.assets.version(place, name, version)
    if before is None:
        check_asset_version(version)
    _check_content(kind, given)
    called, before_called = (
        ((one or {}).get("componentSpec") or {}).get("name") for one in (given, before and before.properties)
    )
    if name == _ANONYMOUS and before and called != before_called:
        version = str(uuid.uuid5(uuid.NAMESPACE_URL, f"{version}/{called}"))
    properties = dict(given)
    if kind == "environments" and before is not None:
        properties = context_as_known(workspace, before.properties, properties)
    for field in ("properties", "tags"):
        # Clients send numbers as well (``hash_version``); the service stores and answers text.
        if isinstance(properties.get(field), dict):
            properties[field] = {key: text(value) for key, value in properties[field].items()}
    if kind == "environments" and properties.get("condaFile"):
        # The service keeps it as JSON, also if it was written as YAML.
        properties["condaFile"] = json.dumps(conda_of(str(properties["condaFile"])), indent=2)
    # If two requests create one version at the same moment, one of them is refused. The place of a model or of data cannot be removed
    # in between.
    with workspace.store.transaction():
        if kind == "models" and registry is None:
            properties |= locate_model(workspace, str(properties.get("modelUri") or ""))
        if kind == "data" and registry is None:
            properties["dataUri"] = data_uri(workspace, str(properties["dataUri"]), str(properties.get("dataType")))
        known = workspace.store.assets.version(place, name, version)
        if known is not None:
            _refuse_changes(workspace, kind, known, properties)
            if kind == "components":
                properties["componentSpec"] = with_changes(
                    known.properties["componentSpec"], properties["componentSpec"]
                )
            # Properties of the registration stay.
            kept = {**(properties.get("properties") or {}), **(known.properties.get("properties") or {})}
            properties = {**known.properties, **properties, "properties": kept}
        hash_ = (properties.get("properties") or {}).get("hash_sha256")
        stored = workspace.store.assets.put(
            place, name, version, properties, hash_=None if hash_ is None else str(hash_)
        )
    return stored, known is None


def delete_version(workspace: Workspace, kind: str, name: str, version: str) -> None:
    """Delete a version of an asset; its blobs stay.

    Raises:
        NotFoundError: there is none.
    """
    known = known_version(workspace, kind, name, version)
    if kind == "models":
        delete_model(workspace, known)
    else:
        workspace.store.assets.delete_version(kind, name, version)


def delete_asset(workspace: Workspace, kind: str, name: str) -> bool:
    """Delete an asset with all its versions; its blobs stay.

    Returns:
        whether there was one.
    """
    return delete_model_name(workspace, name) if kind == "models" else workspace.store.assets.delete(kind, name)


def start_upload(workspace: Workspace, kind: str) -> tuple[str, str]:
    """Create a separate container to upload an asset to; return the upload's id and the container."""
    upload = str(uuid.uuid4())
    container = f"{upload[:8]}-{workspace.identity.instance}-{kind}-{upload[9:]}"[:63].rstrip("-")
    workspace.blobs.create_container(container)
    return upload, container


def text(value: Any) -> str | None:
    """Return a tag's or a property's value as stored: as text, in JSON's form."""
    return value if value is None or isinstance(value, str) else json.dumps(value)


def _same(key: str, before: Any, now: Any) -> bool:
    """Return whether a field is unchanged: conda files are compared as values, and one that is absent is shown empty."""
    if key == "condaFile" and before and now:
        return bool(conda_of(str(before)) == conda_of(str(now)))
    if key == "componentSpec":
        return same_content(before, now)
    return bool((before or None) == (now or None))


def data_uri(workspace: Workspace, uri: str, data_type: str) -> str:
    """Return an asset's address as AzureML shows it.

    The form is the long one, with a slash at the end of folders. See azure-sdk-for-python,
    sdk/ml/azure-ai-ml/tests/recordings/dataset/e2etests, test_create_uri_folder: sent is
    ``azureml://datastores/NAME/paths/PATH``, shown ``azureml://subscriptions/…/datastores/NAME/paths/PATH/``.
    """
    place = in_datastore(uri)
    if place is None:
        return uri
    if workspace.find_datastore(place.datastore) is None:
        raise InvalidError(
            f"Could not find datastore: {place.datastore}.", reasons=("BadArgument", "DatastoreNotFound")
        )
    slash = "/" if place.path and data_type.lower() in ("uri_folder", "mltable") else ""
    return workspace.long_uri(place.datastore, f"{place.path}{slash}")


def _refuse_changes(workspace: Workspace, kind: str, known: AssetVersion, properties: Mapping[str, Any]) -> None:
    stored = dict(known.properties)
    changed = [key for key in IMMUTABLE[kind] if not _same(key, stored.get(key), properties.get(key))]
    if changed:
        raise ConflictError(
            f"A version with name {known.name} and version {known.version} exists already in {kind}, and its"
            f" {', '.join(changed)} cannot be changed. Use another version."
        )


def check_asset_version(version: str) -> None:
    """Raise InvalidError if no version of an asset can be called this."""
    if not _VERSION_NAME.fullmatch(version):
        raise InvalidError(
            f"The version '{version}' of the asset is invalid: at most 255 characters, and spaces, '/', ':' and '@' have"
            " a meaning in references to it."
        )


def check_asset_name(name: str) -> None:
    """Raise InvalidError if an asset cannot have this name."""
    if not _NAME.fullmatch(name):
        raise InvalidError(
            f"The name '{name}' of the asset is invalid: at most 255 letters, digits, '.', '_' and '-', not beginning"
            " with '.' or '-'."
        )
