"""The caller's permissions, as Azure Resource Manager lists them for a resource.

https://learn.microsoft.com/rest/api/authorization/permissions/list-for-resource.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from aml_emulator.api.errors import resource_not_found
from aml_emulator.api.routing import Call, Route
from aml_emulator.context import Context

_GROUP: Final = "/subscriptions/{sub}/resourceGroups/{rg}"
_PERMISSIONS: Final = "providers/Microsoft.Authorization/permissions"


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of permissions."""
    identity = context.identity

    def workspace(call: Call) -> dict[str, Any]:
        del call
        return {"value": context.roles.permissions("workspace")}

    def registry(call: Call) -> dict[str, Any]:
        if call.params["name"].lower() != identity.login_server.partition(".")[0]:
            raise resource_not_found(f"Microsoft.ContainerRegistry/registries/{call.params['name']}")
        return {"value": context.roles.permissions("registry")}

    def storage(call: Call) -> dict[str, Any]:
        if call.params["name"].lower() != identity.storage_account:
            raise resource_not_found(f"Microsoft.Storage/storageAccounts/{call.params['name']}")
        return {"value": context.roles.permissions("storage")}

    def group(call: Call) -> dict[str, Any]:
        del call
        return {"value": context.roles.permissions("subscription")}

    providers = f"{_GROUP}/providers"
    return (
        Route(method="GET", path=f"{_GROUP}/{_PERMISSIONS}", handler=group),
        Route(method="GET", path=f"{{WS}}/{_PERMISSIONS}", handler=workspace),
        Route(
            method="GET",
            path=f"{providers}/Microsoft.ContainerRegistry/registries/{{name}}/{_PERMISSIONS}",
            handler=registry,
        ),
        Route(
            method="GET",
            path=f"{providers}/Microsoft.Storage/storageAccounts/{{name}}/{_PERMISSIONS}",
            handler=storage,
        ),
    )
