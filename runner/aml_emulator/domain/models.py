"""Models: the places of their files, and azureml-core's additional fields.

azureml-core first creates an asset, a list of prefixes of artifacts, and then a model of it. Models that other clients
registered have an asset as well, which follows from where their files are.
"""

from __future__ import annotations

import posixpath
import uuid
from collections.abc import Iterable, Mapping
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotSupportedError
from aml_emulator.domain.locations import JobOutput, parse_location
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import Folder
from aml_emulator.store.assets import AssetContainer, AssetVersion

MODEL_ASSETS: Final = "v1-assets"
"""The kind under which azureml-core's assets are stored, by their ids."""

MODELS: Final = "v1-models"
"""The kind under which a model's fields are stored that azureml-core alone has, by ``name:version``."""

MLFLOW_VERSIONS: Final = "mlflow-versions"
"""The kind under which a version's stage is stored, which MLflow alone has, by ``name:version``."""

MLFLOW_ALIASES: Final = "mlflow-models"
"""The kind under which a model's aliases are stored, which MLflow alone has, by the model's name."""

ASSET_PREFIX: Final = "aml://asset/"

OWN_FIELDS: Final = (
    "framework",
    "frameworkVersion",
    "url",
    "mimeType",
    "unpack",
    "experimentName",
    "datasets",
    "sampleInputData",
    "sampleOutputData",
    "resourceRequirements",
)
"""The fields of a model that azureml-core alone has."""

PATCHED: Final = {"kvTags": "tags", "properties": "properties", "description": "description"}
"""The fields of a model that may change, and azure-ai-ml's names for them; of `OWN_FIELDS`, all but those of its files."""


def locate_model(workspace: Workspace, uri: str) -> dict[str, Any]:
    """Return a model's properties that follow from its files: address and job.

    Raises:
        InvalidError: *uri* has an unknown form.
        NotFoundError: it leads to something that does not exist.
    """
    location = parse_location(uri, what="The model's path")
    found = {"modelUri": workspace.datastore_uri(workspace.folder(uri)) or uri}
    return {**found, "jobName": location.job} if isinstance(location, JobOutput) else found


def create_model_asset(workspace: Workspace, fields: Mapping[str, Any]) -> AssetContainer:
    """Store which artifacts belong together."""
    if not fields.get("artifacts"):
        raise InvalidError("An asset has artifacts.")
    identifier = str(uuid.uuid4())
    return workspace.store.assets.put_container(MODEL_ASSETS, identifier, {**fields, "id": identifier})


def model_artifact_prefix(workspace: Workspace, version: AssetVersion) -> str:
    """Return the prefix by which the artifact service finds a model's files.

    Raises:
        NotSupportedError: it has no prefix for them.
    """
    folder = workspace.folder(str(version.properties["modelUri"]))
    if folder.container == workspace.identity.artifact_container:
        return folder.prefix
    for datastore in workspace.local_datastores():
        if datastore.container == folder.container:
            return f"{datastore.name}/{folder.prefix}"
    raise NotSupportedError(f"models in the container '{folder.container}' for azureml-core")


def register_model(workspace: Workspace, fields: Mapping[str, Any]) -> AssetVersion:
    """Register the next version of a model, of an asset's artifacts.

    Args:
        fields: azureml-core's fields of a model; ``url`` names the asset.

    Raises:
        InvalidError: the name is missing, or there is no such asset.
    """
    assets = workspace.store.assets
    name, url = str(fields.get("name") or ""), str(fields.get("url") or "")
    asset = assets.container(MODEL_ASSETS, url.removeprefix(ASSET_PREFIX)) if url.startswith(ASSET_PREFIX) else None
    if not name or asset is None:
        raise InvalidError(f"A model has a name and the url of an asset, not '{url}'.")
    properties = {
        "tags": _texts(fields.get("kvTags")),
        "properties": _texts(fields.get("properties")),
        "description": fields.get("description"),
        "isArchived": False,
        "isAnonymous": False,
        "modelUri": _uri_of(workspace, asset.properties["artifacts"]),
        "modelType": "custom_model",
        "flavors": {},
        **({"jobName": fields["runId"]} if fields.get("runId") else {}),
    }
    with workspace.store.transaction():
        version = assets.next_version("models", name)
        stored = assets.put("models", name, version, properties)
        assets.put_container(MODELS, f"{name}:{version}", {key: fields.get(key) for key in OWN_FIELDS})
    return stored


def patch_model(workspace: Workspace, known: AssetVersion, operations: Iterable[Mapping[str, Any]]) -> AssetVersion:
    """Change a model's fields by a JSON patch (RFC 6902).

    Raises:
        InvalidError: a field cannot be changed, or not to this value.
        NotSupportedError: another operation than add, replace and remove.
    """
    properties, own = dict(known.properties), own_model_fields(workspace, known)
    for operation in operations:
        field, action = str(operation.get("path") or "").lstrip("/"), operation.get("op")
        value = None if action == "remove" else operation.get("value")
        if action not in ("add", "replace", "remove"):
            raise NotSupportedError(f"the operation '{action}' on a model's {field}")
        if field in PATCHED:
            properties[PATCHED[field]] = value if field == "description" else _texts(value)
            if field == "properties":  # more can be added, and none changed
                properties[field] = {**properties[field], **(known.properties.get(field) or {})}
        elif field in OWN_FIELDS and field not in ("url", "unpack"):
            own[field] = value
        else:
            raise InvalidError(f"A model's '{field}' cannot be changed.")
    stored = workspace.store.assets.put("models", known.name, known.version, properties)
    workspace.store.assets.put_container(MODELS, f"{known.name}:{known.version}", own)
    return stored


def delete_model(workspace: Workspace, known: AssetVersion) -> None:
    """Delete one version of a model; its files stay."""
    assets = workspace.store.assets
    with workspace.store.transaction():
        assets.delete_version("models", known.name, known.version)
        # The number may be given again, to a version that has none of this.
        for kind in (MODELS, MLFLOW_VERSIONS):
            assets.delete(kind, f"{known.name}:{known.version}")
        aliases = aliases_of(workspace, known.name)
        store_aliases(workspace, known.name, {key: at for key, at in aliases.items() if at != known.version})


def delete_model_name(workspace: Workspace, name: str) -> bool:
    """Delete a model with all its versions; its files stay.

    Returns:
        whether there was one.
    """
    assets = workspace.store.assets
    with workspace.store.transaction():
        for version in assets.versions("models", name):
            delete_model(workspace, version)
        assets.delete(MLFLOW_ALIASES, name)
        return assets.delete("models", name)


def aliases_of(workspace: Workspace, name: str) -> Mapping[str, str]:
    """Return the aliases of a model with the version of each."""
    stored = workspace.store.assets.container(MLFLOW_ALIASES, name)
    return {} if stored is None else stored.properties


def store_aliases(workspace: Workspace, name: str, aliases: Mapping[str, str]) -> None:
    """Store the aliases of a model in place of those it has."""
    if aliases or workspace.store.assets.container(MLFLOW_ALIASES, name) is not None:
        workspace.store.assets.put_container(MLFLOW_ALIASES, name, aliases)


def own_model_fields(workspace: Workspace, version: AssetVersion) -> dict[str, Any]:
    """Return azureml-core's own fields of a model, empty for another client's model."""
    stored = workspace.store.assets.container(MODELS, f"{version.name}:{version.version}")
    return {} if stored is None else dict(stored.properties)


def _uri_of(workspace: Workspace, artifacts: Iterable[Mapping[str, Any]]) -> str:
    """Return the address of an asset's files: their common folder, or the one file."""
    prefixes = [str(one.get("prefix") or one.get("id") or "").strip("/") for one in artifacts]
    common = prefixes[0] if len(prefixes) == 1 else posixpath.commonpath(prefixes)
    container = workspace.identity.artifact_container
    own = [one for one in workspace.local_datastores() if common.startswith(f"{one.name}/")]
    if own:
        container, common = own[0].container, common.removeprefix(f"{own[0].name}/")
    return workspace.address(Folder(container=container, prefix=common))


def _texts(value: Any) -> dict[str, str]:
    if not isinstance(value, dict | None):
        raise InvalidError("Tags and properties are objects.")
    return {str(key): str(item) for key, item in (value or {}).items()}
