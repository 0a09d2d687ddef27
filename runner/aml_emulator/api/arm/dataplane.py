"""Where assets lie: the small part of the data and model services that azure-ai-ml asks when it downloads outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_emulator.api.bodies import TEXT, Fields, ListOf
from aml_emulator.api.routing import Call, Route
from aml_emulator.context import Services
from aml_emulator.domain.locations import AssetId, LocationError, parse
from aml_emulator.errors import bad_request


def routes(services: Services) -> Sequence[Route]:
    """Return the routes of ``/data/v1.0`` and ``/modelregistry/v1.0``."""
    plane = DataPlane(services)
    return (
        Route(method="POST", path="/data/v1.0{WS}/dataversion/batchGetResolvedUris", handler=plane.resolve),
        Route(method="POST", path="/modelregistry/v1.0{WS}/models/batchGetResolvedUris", handler=plane.resolve),
    )


class DataPlane:
    """Answers for asset ids."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def resolve(self, call: Call) -> dict[str, Any]:
        """Return the datastore address of each asset id; ids of assets that are not there are left out."""
        values = {}
        for asset_id in call.json(Fields({"values": ListOf(TEXT)})).get("values") or []:
            try:
                asset = parse(str(asset_id))
            except LocationError as error:
                raise bad_request(str(error)) from error
            if not isinstance(asset, AssetId):
                raise bad_request(f"'{asset_id}' is not the id of an asset")
            kind = asset.kind or "data"
            version = self._services.store.assets.version(kind, asset.name, asset.version)
            if version is not None:
                uri = self._services.datastore_uri(self._services.folder(str(asset_id)))
                values[asset_id] = {"uri": uri, "type": version.properties.get("dataType")}
        return {"values": values}
