"""Places of assets, which azure-ai-ml requests when it downloads outputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from aml_emulator.api.routing import Answers, Call, Route
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.locations import AssetId, parse_location
from aml_emulator.schema import TEXT, Fields, ListOf


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of ``/data/v1.0`` and ``/modelregistry/v1.0``."""
    plane = DataPlane(context)
    return (
        Route(method="POST", path="/data/v1.0{WS}/dataversion/batchGetResolvedUris", handler=plane.resolve),
        Route(method="POST", path="/modelregistry/v1.0{WS}/models/batchGetResolvedUris", handler=plane.resolve),
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
