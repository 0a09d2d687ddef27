"""Assets of registries, under the addresses that their discovery names.

Statuses, headers and bodies are those of azure-sdk-for-python, sdk/ml/azure-ai-ml/tests/recordings:
dataset/e2etests/test_data_get_latest_label_in_registry, environment/e2etests/test_registry_environment_create_conda_and_get.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

from aml_emulator.api.arm.assets import Assets, blob_reference
from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Answers, Call, Reply, Route
from aml_emulator.context import Context
from aml_emulator.domain.assets import ASSET_CONTAINER, ASSET_VERSIONS, start_upload
from aml_emulator.domain.errors import ConflictError
from aml_emulator.domain.registries import (
    REGISTRY_KINDS,
    Registry,
    import_asset,
    known_registry,
    put_shared,
    put_shared_container,
    shared_container,
    shared_containers,
    shared_version,
    shared_versions,
)
from aml_emulator.schema import TEXT, WORD, Fields
from aml_emulator.store.assets import AssetContainer, AssetVersion

FRONT: Final = "/mferp/managementfrontend"
"""The first part of the paths under a registry's own host."""

BASE: Final = (
    f"{FRONT}/subscriptions/{{sub}}/resourceGroups/{{rg}}/providers/Microsoft.MachineLearningServices"
    "/registries/{registry}"
)
_OPERATION: Final = "registry-"
"""The first part of the kind of an operation on a registry's asset."""

_NULL: Final = {"content-type": "application/json; charset=utf-8", "x-ms-async-operation-timeout": "PT1H"}
"""Headers of an answer that begins an operation; its body is null."""

_REFERENCE = Fields({"assetId": TEXT, "temporaryDataReferenceType": TEXT})
_IMPORT = Fields(
    {
        "properties": Fields(
            {"sourceAssetId": TEXT, "destinationName": TEXT, "destinationVersion": WORD}, required=("sourceAssetId",)
        )
    },
    required=("properties",),
)


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of registries' assets, files and operations."""
    found: list[Route] = []
    for kind in REGISTRY_KINDS:
        assets = RegistryAssets(context, kind)
        base = f"{BASE}/{kind}"
        found += [
            Route("GET", base, assets.containers),
            Route("GET", f"{base}/{{name}}", assets.container),
            Route("PUT", f"{base}/{{name}}", assets.put_container),
            Route("GET", f"{base}/{{name}}/versions", assets.versions),
            Route("GET", f"{base}/{{name}}/versions/{{version}}", assets.version),
            Route("PUT", f"{base}/{{name}}/versions/{{version}}", assets.put),
        ]
    files = RegistryFiles(context)
    return (
        *found,
        Route("PUT", f"{BASE}/tempdatarefs/{{name}}/versions/{{version}}", files.upload),
        Route("POST", f"{BASE}/datarefs/{{name}}/versions/{{version}}", files.download),
        Route("POST", f"{BASE}/import", files.copy),
        Route("GET", "/assetstore/v1.0/operations/{id}", files.operation),
    )


class RegistryAssets(Assets):
    """Answers for one kind of asset of registries."""

    def put_container(self, call: Call) -> Reply:
        """Create or change what is common to all versions of a name."""
        given = call.json(Fields({"properties": ASSET_CONTAINER})).get("properties") or {}
        name = call.params["name"]
        container, new = put_shared_container(self._context, self._registry(call), self._kind, name, given)
        return Reply(status=201 if new else 200, value=self._container_view(call, container))

    def put(self, call: Call) -> Reply:
        """Create a version, or change its tags and description, by an operation."""
        shape = Fields({"properties": ASSET_VERSIONS[self._kind]}, required=("properties",))
        registry, name, version = self._registry(call), call.params["name"], call.params["version"]
        put_shared(self._context, registry, self._kind, name, version, call.json(shape)["properties"])
        return _started(self._context, registry, self._kind, name, version)

    def _registry(self, call: Call) -> Registry:
        return known_registry(self._context, call.params["registry"])

    def _known(self, call: Call) -> AssetVersion:
        registry, name = self._registry(call), call.params["name"]
        return shared_version(self._context, registry, self._kind, name, call.params["version"])

    def _all_containers(self, call: Call) -> Sequence[AssetContainer]:
        return shared_containers(self._context, self._registry(call), self._kind)

    def _container_of(self, call: Call, name: str) -> AssetContainer | None:
        return shared_container(self._context, self._registry(call), self._kind, name)

    def _all_versions(self, call: Call, name: str) -> Sequence[AssetVersion]:
        return shared_versions(self._context, self._registry(call), self._kind, name)

    def _place(self, call: Call) -> tuple[str, str, str]:
        return self._registry(call).address, self._kind, self._kind


class RegistryFiles(Answers):
    """Answers for the files of registries' assets, and for operations."""

    def upload(self, call: Call) -> dict[str, Any]:
        """Return a container to upload an asset to; 409 for a version that exists."""
        kind = self._kind_of(call)
        registry, name, version = known_registry(self._context, call.params["registry"]), *_names(call)
        if any(one.version == version for one in shared_versions(self._context, registry, kind, name)):
            raise ConflictError(f"The registry '{registry.name}' has '{name}', version '{version}', in {kind}.")
        upload, container = start_upload(self._context, kind)
        return {
            **self._reference(container, "rcwl"),
            "imageReferenceForConsumption": None,
            "temporaryDataReferenceId": upload,
            "temporaryDataReferenceType": None,
        }

    def download(self, call: Call) -> dict[str, Any]:
        """Return a signed address by which the files of an asset can be read."""
        given = call.json(Fields({"assetId": TEXT, "blobUri": TEXT}, required=("assetId", "blobUri")))
        shared_version(
            self._context, known_registry(self._context, call.params["registry"]), self._kind_of(call), *_names(call)
        )
        return self._reference(self._context.folder(str(given["blobUri"])).container, "rl")

    def copy(self, call: Call) -> Reply:
        """Copy an asset of the workspace, by an operation."""
        given = call.json(_IMPORT)["properties"]
        registry = known_registry(self._context, call.params["registry"])
        name, version = given.get("destinationName"), given.get("destinationVersion")
        source = str(given["sourceAssetId"])
        stored = import_asset(
            self._context, registry, source, name=name, version=None if version is None else str(version)
        )
        return _started(self._context, registry, "import", stored.name, stored.version)

    def operation(self, call: Call) -> Reply:
        """Return the result of an operation on an asset: it has succeeded."""
        known = self._context.store.assets.operation(call.params["id"])
        if known is None or not known[0].startswith(_OPERATION):
            raise resource_not_found(f"operations/{call.params['id']}")
        kind, (registry, name, version) = known[0].removeprefix(_OPERATION), known[1].split("/")
        address = known_registry(self._context, registry).address
        asset_id = f"{address}/{kind}/{name}/versions/{version}"
        if kind == "data":
            return Reply(status=200, value={"assetId": asset_id})
        if kind == "models":
            # azure-ai-ml 1.35 takes the model from this answer (operations/_model_operations.py).
            params = {"registry": registry, "name": name, "version": version}
            model = RegistryAssets(self._context, kind).version(replace(call, params=params))
            return Reply(status=200, value={"assetId": asset_id, **model})
        return Reply(status=200)

    def _kind_of(self, call: Call) -> str:
        """Return the kind of asset that a body's id names."""
        asset_id = str(call.json(_REFERENCE).get("assetId") or "")
        parts = asset_id.split("/")
        kind = parts[4].lower() if len(parts) > 4 else ""
        if kind not in REGISTRY_KINDS:
            raise resource_not_found(f"registries/{call.params['registry']}: '{asset_id}'")
        return kind

    def _reference(self, container: str, permissions: str) -> dict[str, Any]:
        found = blob_reference(self._context, container, permissions)
        found["credential"]["wasbsUri"] = None
        return {"blobReferenceForConsumption": found}


def _names(call: Call) -> tuple[str, str]:
    return call.params["name"], call.params["version"]


def _started(context: Context, registry: Registry, kind: str, name: str, version: str) -> Reply:
    """Return the answer to a request that begins an operation, as recorded."""
    operation = context.store.assets.start_operation(f"{_OPERATION}{kind}", f"{registry.name}/{name}/{version}")
    service = "environment" if kind == "environments" else "assetstore"
    address = f"https://{context.identity.api_host}/{service}/v1.0/operations/{operation}"
    return Reply(status=202, data=b"null", headers={**_NULL, "Location": address})
