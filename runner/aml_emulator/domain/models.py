"""Models: the places of their files, and azureml-core's additional fields.

azureml-core first creates an asset, a list of prefixes of artifacts, and then a model of it. Models that other clients
registered have an asset as well, which follows from where their files are.
"""

from __future__ import annotations

import posixpath
import re
import uuid
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotFoundError, NotSupportedError
from aml_emulator.domain.locations import JobOutput, parse_location
from aml_emulator.domain.workspace import Workspace
from aml_emulator.executor.spec import Folder
from aml_emulator.reading import whole
from aml_emulator.store.assets import AssetContainer, AssetVersion

STAGES: Final = ("None", "Staging", "Production", "Archived")
"""The stages of a version; "in the MLflow SDK, stage names are case sensitive" (the page above)."""

# mlflow/utils/validation.py, _validate_model_alias_name: at most 255 of these, no version (v1) and not "latest".
_ALIAS: Final = re.compile(r"(?!v\d+$)(?!latest$)[\w-]{1,255}", re.IGNORECASE)


def stage_of(workspace: Workspace, version: AssetVersion) -> str:
    """Return a version's stage; ``None`` is the name of the first one."""
    stored = workspace.store.assets.container(MLFLOW_VERSIONS, f"{version.name}:{version.version}")
    return STAGES[0] if stored is None else str(stored.properties["stage"])


def move_to_stage(workspace: Workspace, version: AssetVersion, stage: str, *, archive_others: bool) -> None:
    """Put a version into a stage.

    Args:
        archive_others: whether versions that are in it move to ``Archived``.

    Raises:
        InvalidError: there is no such stage, or others cannot be archived for it.
    """
    _check_stages((stage,))
    if archive_others and stage not in ("Staging", "Production"):
        raise InvalidError(f"Existing versions can be archived for Staging and Production, and not for '{stage}'.")
    with workspace.store.transaction():
        for other in workspace.store.assets.versions("models", version.name) if archive_others else ():
            if other.version != version.version and stage_of(workspace, other) == stage:
                _store_stage(workspace, other, "Archived")
        _store_stage(workspace, version, stage)


def newest_in_stages(workspace: Workspace, name: str, stages: Sequence[str] = ()) -> list[AssetVersion]:
    """Return a model's newest version in each of some stages, or in each one there is.

    Raises:
        InvalidError: there is no such stage.
    """
    _check_stages(stages)
    newest: dict[str, AssetVersion] = {}
    for version in sorted(workspace.store.assets.versions("models", name), key=_number):
        newest[stage_of(workspace, version)] = version
    return [newest[stage] for stage in stages or STAGES if stage in newest]


def set_alias(workspace: Workspace, version: AssetVersion, alias: str) -> None:
    """Point an alias to a version, in place of its previous one.

    Raises:
        InvalidError: it cannot be an alias.
    """
    if not _ALIAS.fullmatch(alias):
        raise InvalidError(
            f"Invalid alias name: '{alias}'. It has letters, digits, '_' and '-', and is neither a version nor 'latest'."
        )
    with workspace.store.transaction():
        store_aliases(workspace, version.name, {**aliases_of(workspace, version.name), alias: version.version})


def delete_alias(workspace: Workspace, name: str, alias: str) -> None:
    """Remove an alias; nothing happens if there is none."""
    with workspace.store.transaction():
        kept = {key: version for key, version in aliases_of(workspace, name).items() if key != alias}
        store_aliases(workspace, name, kept)


def version_by_alias(workspace: Workspace, name: str, alias: str) -> AssetVersion:
    """Return the version that an alias stands for.

    Raises:
        InvalidError: there is no such alias; MLflow's own registry answers so too.
    """
    number = aliases_of(workspace, name).get(alias)
    found = None if number is None else workspace.store.assets.version("models", name, number)
    if found is None:
        raise InvalidError(f"Registered model alias {alias} not found.")
    return found


def delete_registered_version(workspace: Workspace, version: AssetVersion) -> None:
    """Delete a version; with the last one the model's name goes as well.

    "To achieve this task, delete all model versions for a given model" is what Azure's documentation says of models as
    a whole, which cannot be deleted.
    """
    with workspace.store.transaction():
        delete_model(workspace, version)
        if not workspace.store.assets.versions("models", version.name):
            delete_model_name(workspace, version.name)


def download_address(workspace: Workspace, version: AssetVersion) -> str:
    """Return the address of a version's files in the form that azureml-mlflow reads.

    It parses two forms, ``…/experiments/E/runs/R/artifacts/P`` and ``azureml://artifacts/ORIGIN/CONTAINER/PATH``
    (``artifact_uri_decomp`` of azureml-mlflow 1.62, ``azureml/mlflow/_store/artifact/utils.py``). The second also reaches
    files that belong to no run; `azureml://artifacts/ExperimentRun/dcid.RUN/PATH` is one of a run.

    Raises:
        NotFoundError: the run or the datastore of its files is gone.
        NotSupportedError: the form cannot name the place.
    """
    prefix = model_artifact_prefix(workspace, version).strip("/")
    if prefix.count("/") < 2:
        raise NotSupportedError(
            f"downloading '{version.name}' with MLflow: its files are at the top of a datastore ({prefix}), which"
            " azureml://artifacts/ORIGIN/CONTAINER/PATH cannot name. Register it from a folder below another one"
        )
    return f"azureml://artifacts/{prefix}"


def known_model(workspace: Workspace, name: str) -> AssetContainer:
    """Return what is common to all versions of a model.

    Raises:
        NotFoundError: there is no model of that name.
    """
    known = workspace.store.assets.container("models", name)
    if known is None:
        raise NotFoundError(f"Registered Model with name={name}")
    return known


def _check_stages(stages: Sequence[str]) -> None:
    for stage in stages:
        if stage not in STAGES:
            raise InvalidError(f"Invalid Model Version stage: {stage}. Value must be one of {', '.join(STAGES)}.")


def _store_stage(workspace: Workspace, version: AssetVersion, stage: str) -> None:
    workspace.store.assets.put_container(MLFLOW_VERSIONS, f"{version.name}:{version.version}", {"stage": stage})


def _number(version: AssetVersion) -> tuple[int, float]:
    """Return a sort key: by number, after versions that are no numbers, by age."""
    number = whole(version.version, most=255)
    return (-1 if number is None else number, version.created)


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
