"""Kinds of resources that there are none of: empty lists, and 404 for a name.

Scripts that take stock of a workspace read all of them. The words of a refusal are those of recorded answers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from aml_emulator.api.errors import HistoryError, ServiceError
from aml_emulator.api.routing import Call, Route
from aml_emulator.api.shapes import page
from aml_emulator.context import Context

KINDS: Final = ("schedules", "connections", "onlineEndpoints", "batchEndpoints")


def routes(context: Context) -> Sequence[Route]:
    """Return the routes of lists and single resources."""
    workspace = context.identity.workspace
    found: list[Route] = []
    for kind in KINDS:
        found.append(Route(method="GET", path=f"{{WS}}/{kind}", handler=_none))
        found.append(Route(method="GET", path=f"{{WS}}/{kind}/{{name}}", handler=_missing(kind, workspace)))
    return found


def _none(call: Call) -> dict[str, Any]:
    """Return an empty list."""
    return page(call, [], None)


def _missing(kind: str, workspace: str) -> Callable[[Call], Any]:
    def missing(call: Call) -> Any:
        """Answer that there is none of this name."""
        raise _error(kind, call.params["name"], workspace)

    return missing


def _error(kind: str, name: str, workspace: str) -> ServiceError:
    """Return the error for a name, as recorded for its kind."""
    if kind == "connections":
        return HistoryError(
            404, "UserError", f"Connection {name} can't be found in this workspace", inner=("NotFoundError",)
        )
    if kind == "schedules":
        return ServiceError(404, "UserError", f"Resource Trigger {name} not found", inner=("NotFound",))
    details = ({"code": "NoSuchEndpoint", "message": f"There is no endpoint with name: {name} in {workspace}"},)
    return ServiceError(404, "NotFound", "The specified resource was not found.", details=details)
