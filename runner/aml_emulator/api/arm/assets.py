"""Versioned assets: environments, codes, data and models all behave alike, with few rules of their own.

A version of an environment, of code or of data never changes what it holds; a model's tags and description may.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from aml_emulator.api.bodies import ANYTHING, FLAG, OBJECT, TEXT, WORD, Fields, MapOf
from aml_emulator.api.routing import Call, Reply, Route
from aml_emulator.api.shapes import page, resource, text
from aml_emulator.context import Services
from aml_emulator.domain.locations import JobOutput, LocationError, parse
from aml_emulator.domain.v1_environments import conda_of
from aml_emulator.errors import ServiceError, not_found
from aml_emulator.store.assets import AssetContainer, AssetVersion

KINDS = ("environments", "codes", "data", "models")

IMMUTABLE: Mapping[str, tuple[str, ...]] = {
    "environments": ("image", "build", "condaFile"),
    "codes": ("codeUri",),
    "data": ("dataUri", "dataType"),
    "models": ("modelUri", "modelType"),
}
"""What a version holds, by kind: fields that another PUT may not change."""

MAX_PAGE = 100


_ASSET = {
    "description": TEXT,
    "tags": MapOf(ANYTHING),
    "properties": MapOf(ANYTHING),
    "isAnonymous": FLAG,
    "isArchived": FLAG,
    "stage": TEXT,
}

CONTAINER = Fields(
    {"properties": Fields({key: _ASSET[key] for key in ("description", "tags", "properties", "isArchived")})}
)
"""The body of what is common to all versions of a name."""

VERSIONS = {
    "environments": Fields(
        {
            **_ASSET,
            "image": TEXT,
            "condaFile": TEXT,
            "autoRebuild": TEXT,
            "build": Fields({"contextUri": TEXT, "dockerfilePath": TEXT}),
        }
    ),
    "codes": Fields({**_ASSET, "codeUri": TEXT}, required=("codeUri",)),
    "data": Fields({**_ASSET, "dataUri": TEXT, "dataType": TEXT}, required=("dataUri",)),
    "models": Fields({**_ASSET, "modelUri": TEXT, "modelType": TEXT, "flavors": OBJECT, "jobName": TEXT}),
}
"""The properties of a version, by kind."""


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of assets."""
    found: list[Route] = []
    for kind in KINDS:
        assets = Assets(services, kind)
        base = f"{{WS}}/{kind}"
        found += [
            Route(method="GET", path=base, handler=assets.containers),
            Route(method="GET", path=f"{base}/{{name}}", handler=assets.container),
            Route(method="PUT", path=f"{base}/{{name}}", handler=assets.put_container),
            Route(method="DELETE", path=f"{base}/{{name}}", handler=assets.delete_container),
            Route(method="GET", path=f"{base}/{{name}}/versions", handler=assets.versions),
            Route(method="GET", path=f"{base}/{{name}}/versions/{{version}}", handler=assets.version),
            Route(method="PUT", path=f"{base}/{{name}}/versions/{{version}}", handler=assets.put),
            Route(method="DELETE", path=f"{base}/{{name}}/versions/{{version}}", handler=assets.delete),
        ]
        if kind != "environments":
            pending = f"{base}/{{name}}/versions/{{version}}/startPendingUpload"
            found.append(Route(method="POST", path=pending, handler=assets.start_upload))
    return found


class Assets:
    """Answers for one kind of asset.

    Args:
        services: what handlers share.
        kind: ARM's plural.
    """

    def __init__(self, services: Services, kind: str) -> None:
        self._services = services
        self._kind = kind

    def containers(self, call: Call) -> dict[str, Any]:
        """Return the names there are."""
        items = [
            item for item in self._services.store.assets.containers(self._kind) if _visible(call, item.properties)
        ]
        skip, size = call.integer("$skip", 0), call.integer("$top", MAX_PAGE, low=1, high=MAX_PAGE)
        shown = [self._container_view(item) for item in items[skip : skip + size]]
        return page(call, shown, offset=skip + size, more=len(items) > skip + size)

    def container(self, call: Call) -> dict[str, Any]:
        """Return what is common to all versions of a name."""
        container = self._services.store.assets.container(self._kind, call.params["name"])
        if container is None:
            raise not_found(f"{self._kind} container '{call.params['name']}'")
        return self._container_view(container)

    def put_container(self, call: Call) -> Reply:
        """Create or change what is common to all versions of a name."""
        name = call.params["name"]
        new = self._services.store.assets.container(self._kind, name) is None
        given = call.json(CONTAINER).get("properties") or {}
        kept = {key: value for key, value in given.items() if key not in ("latestVersion", "nextVersion")}
        container = self._services.store.assets.put_container(self._kind, name, kept)
        return Reply(status=201 if new else 200, value=self._container_view(container))

    def delete_container(self, call: Call) -> Reply:
        """Delete a name with all its versions; their blobs stay."""
        return Reply(status=200 if self._services.store.assets.delete(self._kind, call.params["name"]) else 204)

    def versions(self, call: Call) -> dict[str, Any]:
        """Return versions of a name, newest first; with ``hash``, whatever was uploaded with that hash."""
        store = self._services.store.assets
        if call.query.get("hash"):
            items = store.by_hash(self._kind, call.query["hash"])
        else:
            items = [
                item for item in store.versions(self._kind, call.params["name"]) if _visible(call, item.properties)
            ]
        if call.query.get("stage"):
            items = [item for item in items if item.stage == call.query["stage"]]
        if call.query.get("version"):
            items = [item for item in items if item.version == call.query["version"]]
        skip, size = call.integer("$skip", 0), call.integer("$top", MAX_PAGE, low=1, high=MAX_PAGE)
        shown = [self._view(item) for item in items[skip : skip + size]]
        # A client that asks for the newest one alone is not sent on to the next page.
        return page(call, shown, offset=skip + size, more=len(items) > skip + size and "$top" not in call.query)

    def version(self, call: Call) -> dict[str, Any]:
        """Return one version."""
        return self._view(self._known(call))

    def put(self, call: Call) -> Reply:
        """Create a version, or change what may be changed of it."""
        name, version = call.params["name"], call.params["version"]
        properties = dict(
            call.json(Fields({"properties": VERSIONS[self._kind]}, required=("properties",)))["properties"]
        )
        for field in ("properties", "tags"):
            # Clients send numbers as well (``hash_version``); the service keeps and answers text.
            if isinstance(properties.get(field), dict):
                properties[field] = {key: text(value) for key, value in properties[field].items()}
        if self._kind == "models":
            self._complete_model(properties)
        if self._kind == "environments" and properties.get("condaFile"):
            conda_of(str(properties["condaFile"]))
        # Of two that make one version at the same moment, one is refused.
        with self._services.store.transaction():
            known = self._services.store.assets.version(self._kind, name, version)
            if known is not None:
                self._refuse_changes(known, properties)
                properties = {**known.properties, **properties}
            hash_ = (properties.get("properties") or {}).get("hash_sha256")
            stored = self._services.store.assets.put(
                self._kind, name, version, properties, hash_=None if hash_ is None else str(hash_)
            )
        return Reply(status=201 if known is None else 200, value=self._view(stored))

    def _refuse_changes(self, known: AssetVersion, properties: Mapping[str, Any]) -> None:
        changed = [key for key in IMMUTABLE[self._kind] if known.properties.get(key) != properties.get(key)]
        if changed:
            raise ServiceError(
                409,
                "UserError",
                f"A version with name {known.name} and version {known.version} exists already in {self._kind}, and its"
                f" {', '.join(changed)} cannot be changed. Use another version.",
                inner=("Conflict",),
            )

    def delete(self, call: Call) -> Reply:
        """Delete one version; its blobs stay."""
        known = self._known(call)
        self._services.store.assets.delete_version(self._kind, known.name, known.version)
        return Reply(status=200)

    def start_upload(self, call: Call) -> dict[str, Any]:
        """Return a container of its own to upload to, with a SAS."""
        upload = str(uuid.uuid4())
        container = f"{upload[:8]}-{self._services.identity.instance}-{self._kind}-{upload[9:]}"[:63].rstrip("-")
        self._services.blobs.create_container(container)
        return {
            "pendingUploadId": call.json(Fields({"pendingUploadId": WORD})).get("pendingUploadId") or upload,
            "pendingUploadType": "TemporaryBlobReference",
            "blobReferenceForConsumption": {
                "blobUri": self._services.blobs.url(container),
                "storageAccountArmId": f"{self._services.identity.resource_group_id}/providers/Microsoft.Storage"
                f"/storageAccounts/{self._services.identity.storage_account}",
                "credential": {
                    "credentialType": "SAS",
                    "sasUri": self._services.blobs.container_sas_url(container),
                },
            },
        }

    def _complete_model(self, properties: dict[str, Any]) -> None:
        """Say where a model's files lie, as the service does, and which job made them."""
        uri = str(properties.get("modelUri") or "")
        try:
            location = parse(uri)
        except LocationError as error:
            raise ServiceError(400, "UserError", f"The model's path: {error}", inner=("BadArgument",)) from error
        folder = self._services.folder(uri)
        properties["modelUri"] = self._services.datastore_uri(folder) or uri
        if isinstance(location, JobOutput):
            properties["jobName"] = location.job

    def _known(self, call: Call) -> AssetVersion:
        name, version = call.params["name"], call.params["version"]
        known = self._services.store.assets.version(self._kind, name, version)
        if known is None:
            raise not_found(f"{self._kind} '{name}', version '{version}'")
        return known

    def _container_view(self, container: AssetContainer) -> dict[str, Any]:
        store = self._services.store.assets
        versions = store.versions(self._kind, container.name)
        return resource(
            f"{self._services.identity.workspace_arm_id}/{self._kind}/{container.name}",
            f"workspaces/{self._kind}",
            {
                "description": None,
                "tags": {},
                "properties": {},
                "isArchived": False,
                **container.properties,
                "latestVersion": versions[0].version if versions else None,
                "nextVersion": store.next_version(self._kind, container.name),
                **({"dataType": versions[0].properties.get("dataType")} if self._kind == "data" and versions else {}),
            },
            created=container.created,
            modified=container.modified,
        )

    def _view(self, version: AssetVersion) -> dict[str, Any]:
        own: dict[str, Any] = {}
        if self._kind == "models":
            own = {"flavors": {}}
        elif self._kind == "environments":
            own = {"environmentType": "UserCreated", "osType": "Linux"}
        return resource(
            f"{self._services.identity.workspace_arm_id}/{self._kind}/{version.name}/versions/{version.version}",
            f"workspaces/{self._kind}/versions",
            {
                "description": None,
                "tags": {},
                "properties": {},
                "isAnonymous": False,
                "isArchived": False,
                **own,
                **{key: value for key, value in version.properties.items() if value is not None},
                # Data alone has no such state.
                **({} if self._kind == "data" else {"provisioningState": "Succeeded"}),
            },
            created=version.created,
            modified=version.modified,
        )


def _visible(call: Call, properties: Mapping[str, Any]) -> bool:
    """Return whether a list shows something: what is not archived, unless the caller asks for more."""
    view = {key.lower(): value for key, value in call.query.items()}.get("listviewtype", "ActiveOnly")
    archived = bool(properties.get("isArchived"))
    return view == "All" or archived == (view == "ArchivedOnly")
