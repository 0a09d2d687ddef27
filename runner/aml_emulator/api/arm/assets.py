"""Environments, codes, data and models as Azure Resource Manager has them."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.api.shapes import Item, archived_of, created, cut, page, resource
from aml_emulator.context import Context
from aml_emulator.domain.assets import (
    ASSET_CONTAINER,
    ASSET_KINDS,
    ASSET_VERSIONS,
    container_of,
    containers_of,
    delete_asset,
    delete_version,
    known_version,
    no_container,
    put_container,
    put_version,
    shown_component,
    start_upload,
    versions_of,
)
from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.locations import AssetId, JobOutput, parse_location
from aml_emulator.schema import TEXT, WORD, Fields, ListOf
from aml_emulator.store.assets import AssetContainer, AssetVersion, next_number


def resolve_routes(context: Context) -> Sequence[Route]:
    """Return the routes of ``/data/v1.0`` and ``/modelregistry/v1.0``."""
    plane = DataPlane(context)
    return (
        Route("POST", "/data/v1.0{WS}/dataversion/batchGetResolvedUris", plane.resolve),
        Route("POST", "/modelregistry/v1.0{WS}/models/batchGetResolvedUris", plane.resolve),
    )


class DataPlane(Answers):
    """Answers for asset ids."""

    def resolve(self, call: Call) -> dict[str, Any]:
        """Return the datastore address of each asset id that exists."""
        values = {}
        for asset_id in call.json(Fields({"values": ListOf(TEXT)})).get("values") or []:
            asset = parse_location(str(asset_id))
            if not isinstance(asset, AssetId):
                raise InvalidError(f"'{asset_id}' is not the id of an asset")
            kind = asset.kind or "data"
            version = self._context.asset_version(asset, kind)
            if version is not None:
                uri = self._context.datastore_uri(self._context.folder(str(asset_id)))
                values[asset_id] = {"uri": uri, "type": version.properties.get("dataType")}
        return {"values": values}


MAX_PAGE = 100
DEFAULT_VERSION = "azureml_default"
"""The version of a component that clients ask for if they name none (azure-ai-ml 1.35, ``constants/_component.py``)."""
_UNSET = {"autoDeleteSetting": None, "intellectualProperty": None, "stage": None}


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of assets."""
    found: list[Route] = []
    for kind in ASSET_KINDS:
        assets = Assets(context, kind)
        base = f"{{WS}}/{kind}"
        found += [
            Route("GET", base, assets.containers),
            Route("GET", f"{base}/{{name}}", assets.container),
            Route("PUT", f"{base}/{{name}}", assets.put_container),
            Route("DELETE", f"{base}/{{name}}", assets.delete_container),
            Route("GET", f"{base}/{{name}}/versions", assets.versions),
            Route("GET", f"{base}/{{name}}/versions/{{version}}", assets.version),
            Route("PUT", f"{base}/{{name}}/versions/{{version}}", assets.put),
            Route("DELETE", f"{base}/{{name}}/versions/{{version}}", assets.delete),
        ]
        if kind != "environments":
            pending = f"{base}/{{name}}/versions/{{version}}/startPendingUpload"
            found.append(Route("POST", pending, assets.start_upload))
    return found


class Assets:
    """Answers for one kind of asset.

    Args:
        kind: ARM's plural.
    """

    def __init__(self, context: Context, kind: str) -> None:
        self._context = context
        self._kind = kind

    def containers(self, call: Call) -> dict[str, Any]:
        """Return the names there are."""
        items = [item for item in self._all_containers(call) if _visible(call, item.properties)]
        shown, following = _shown(call, items)
        return page(call, [self._container_view(call, item) for item in shown], following)

    def container(self, call: Call) -> dict[str, Any]:
        """Return what is common to all versions of a name."""
        name = call.params["name"]
        found = self._container_of(call, name)
        if found is None:
            raise no_container(self._kind, name)
        return self._container_view(call, found)

    def put_container(self, call: Call) -> Reply:
        """Create or change what is common to all versions of a name."""
        name = call.params["name"]
        given = call.json(Fields({"properties": ASSET_CONTAINER})).get("properties") or {}
        container, new = put_container(self._context, self._kind, name, given)
        return created(call, self._container_view(call, container), new=new)

    def delete_container(self, call: Call) -> Reply:
        """Delete a name with all its versions; their blobs stay."""
        return Reply(status=200 if delete_asset(self._context, self._kind, call.params["name"]) else 204)

    def versions(self, call: Call) -> dict[str, Any]:
        """Return versions of a name, newest first, or all that a ``hash`` identifies."""
        name = call.params["name"]
        if call.query.get("hash"):
            items = self._context.store.assets.by_hash(self._kind, call.query["hash"])
        elif self._kind == "models" and "registry" not in call.params and self._container_of(call, name) is None:
            # Recorded in March 2026: model/e2etests, test_crud_model_with_stage. Of a registry, azure-ai-ml 1.35 reads the list
            # before it creates a model, and takes no error for an answer (``_get_latest``).
            raise no_container(self._kind, name)
        else:
            items = [item for item in self._all_versions(call, name) if _visible(call, item.properties)]
        if call.query.get("stage"):
            items = [item for item in items if item.stage == call.query["stage"]]
        if call.query.get("version"):
            items = [item for item in items if item.version == call.query["version"]]
        shown, following = _shown(call, items)
        # A client that asks for the newest one alone is not sent on to the next page.
        return page(call, [self._view(call, item) for item in shown], None if "$top" in call.query else following)

    def version(self, call: Call) -> dict[str, Any]:
        """Return one version."""
        found = self._view(call, self._known(call))
        if self._kind == "components" and call.params["version"].lower() == DEFAULT_VERSION:
            found["id"] = f"{found['id'].rpartition('/versions/')[0]}/labels/default"
        return found

    def put(self, call: Call) -> Reply:
        """Create a version, or change its tags and description."""
        shape = Fields({"properties": ASSET_VERSIONS[self._kind]}, required=("properties",))
        properties = call.json(shape)["properties"]
        name, version = call.params["name"], call.params["version"]
        if self._kind == "models" and self._context.store.assets.version("models", name, version) is None:
            self._check_files(str(properties.get("modelUri") or ""))
        stored, new = put_version(self._context, self._kind, name, version, properties)
        # Recorded: a change of an environment is answered like its creation.
        return created(call, self._view(call, stored), new=new or self._kind == "environments")

    def _check_files(self, uri: str) -> None:
        """Refuse a model of a job's output that has no file, as Azure does (azure-sdk-for-python#33978)."""
        location = parse_location(uri, what="The model's path")
        folder = self._context.folder(uri)
        if isinstance(location, JobOutput) and not any(self._context.blobs.walk(folder.container, folder.prefix)):
            message = f"No artifacts matching {location.path or location.output} found from Job."
            details = ({"code": "NoMatchingArtifactsFoundFromJob", "message": message},)
            raise InvalidError("The request is invalid.", details=details)

    def delete(self, call: Call) -> Reply:
        """Delete one version; its blobs stay."""
        delete_version(self._context, self._kind, call.params["name"], call.params["version"])
        return Reply(status=200)

    def start_upload(self, call: Call) -> dict[str, Any]:
        """Return a separate container to upload to, with a SAS."""
        upload, container = start_upload(self._context, self._kind)
        return {
            "pendingUploadId": call.json(Fields({"pendingUploadId": WORD})).get("pendingUploadId") or upload,
            "pendingUploadType": "TemporaryBlobReference",
            "blobReferenceForConsumption": blob_reference(self._context, container, "rcwl"),
        }

    def _known(self, call: Call) -> AssetVersion:
        return known_version(self._context, self._kind, call.params["name"], call.params["version"])

    def _all_containers(self, _call: Call) -> Sequence[AssetContainer]:
        return containers_of(self._context, self._kind)

    def _container_of(self, _call: Call, name: str) -> AssetContainer | None:
        return container_of(self._context, self._kind, name)

    def _all_versions(self, _call: Call, name: str) -> Sequence[AssetVersion]:
        return versions_of(self._context, self._kind, name)

    def _empty(self) -> dict[str, Any]:
        """Return the tags and properties of an asset that has none: of data alone, null."""
        return dict.fromkeys(("tags", "properties")) if self._kind == "data" else {"tags": {}, "properties": {}}

    def _place(self, _call: Call) -> tuple[str, str, str]:
        """Return the beginning of an asset's id, and the types of names and versions."""
        return (
            self._context.identity.workspace_arm_id,
            f"workspaces/{self._kind}",
            f"workspaces/{self._kind}/versions",
        )

    def _container_view(self, call: Call, container: AssetContainer) -> dict[str, Any]:
        versions = self._all_versions(call, container.name)
        place, type_, _ = self._place(call)
        # An archived version is no latest one while there is another.
        latest = next((one for one in versions if not one.properties.get("isArchived")), None)
        return resource(
            f"{place}/{self._kind}/{container.name}",
            type_,
            {
                "description": None,
                **self._empty(),
                "isArchived": False,
                **container.properties,
                "latestVersion": latest.version if latest else None,
                "nextVersion": self._next(versions),
                **({"dataType": versions[0].properties.get("dataType")} if self._kind == "data" and versions else {}),
            },
            created=container.created,
            modified=container.modified,
        )

    def _next(self, versions: Sequence[AssetVersion]) -> str:
        """Return the version that comes next: a number; of a component the time.

        Recorded: component/e2etests, test_command_component_create_autoincrement.
        """
        if self._kind != "components":
            return next_number(versions)
        now = datetime.datetime.fromtimestamp(self._context.clock(), datetime.UTC)
        return f"{now:%Y-%m-%d-%H-%M-%S-%f}0"

    def _view(self, call: Call, version: AssetVersion) -> dict[str, Any]:
        place, _, type_ = self._place(call)
        own: dict[str, Any] = {} if self._kind == "codes" else {**_UNSET}
        properties = dict(version.properties)
        if self._kind in ("components", "environments", "models"):
            own["stage"] = "Development"
        if self._kind == "components" and isinstance(spec := properties.get("componentSpec"), dict):
            # Its description is that of the specification alone.
            properties |= {
                "componentSpec": shown_component(spec, version.name, version.version),
                "description": None,
            }
        elif self._kind == "models":
            own |= {"flavors": {}, "jobName": None}
        elif self._kind == "environments":
            own |= {"environmentType": "UserCreated", "osType": "Linux", "condaFile": "", "autoRebuild": "Disabled"}
            if version.properties.get("isAnonymous"):
                own["stage"] = "Logged"
            named = (
                one.version for one in self._all_versions(call, version.name) if not one.properties.get("isAnonymous")
            )
            labels = {"azureml.labels": "latest" if next(named, None) == version.version else ""}
            properties["properties"] = {**(properties.get("properties") or {}), **labels}
        return resource(
            f"{place}/{self._kind}/{version.name}/versions/{version.version}",
            type_,
            {
                "description": None,
                **self._empty(),
                "isAnonymous": False,
                "isArchived": False,
                **own,
                **{key: value for key, value in properties.items() if value is not None},
                # Data alone has no such state.
                **({} if self._kind == "data" else {"provisioningState": "Succeeded"}),
            },
            created=version.created,
            modified=version.modified,
        )


def blob_reference(context: Context, container: str, permissions: str) -> dict[str, Any]:
    """Return a container with a signature that allows *permissions*."""
    address = context.blobs.container_sas_url(container, permissions=permissions)
    return {
        "blobUri": context.blobs.url(container),
        "storageAccountArmId": context.identity.storage_id,
        "credential": {"credentialType": "SAS", "sasUri": address},
    }


def _shown(call: Call, items: Sequence[Item]) -> tuple[Sequence[Item], int | None]:
    return cut(items, call.integer("$skip", 0), call.integer("$top", MAX_PAGE, low=1, high=MAX_PAGE))


def _visible(call: Call, properties: Mapping[str, Any]) -> bool:
    """Return whether a list shows an item: archived ones only on request."""
    return archived_of(call) in (None, bool(properties.get("isArchived")))
