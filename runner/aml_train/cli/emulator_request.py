"""Requests of the commands to the running local AzureML."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

if TYPE_CHECKING:
    from aml_train.local import EmulatorInfo, EmulatorSettings


def emulator_settings() -> EmulatorSettings:
    """Return the settings of the local AzureML in the environment."""
    from aml_train.local import EmulatorSettings

    return EmulatorSettings.from_environment(dict(os.environ))


def ask_emulator(
    path: str, query: Mapping[str, object] | None = None, *, method: str = "GET", seconds: float = 60.0
) -> dict[str, Any]:
    """Send an admin request to the running local AzureML; return its answer.

    Entries of *query* that are None are left out.

    Raises:
        InvalidError: it refuses the request.
        ServiceError: it does not run, or fails.
    """
    from aml_train.core.errors import InvalidError, ServiceError
    from aml_train.local import request_admin

    settings = emulator_settings()
    given = {name: value for name, value in (query or {}).items() if value is not None}
    target = settings.path_of(f"{path}?{urlencode(given)}" if given else path)
    answer = request_admin(settings, target, method=method, seconds=seconds)
    if answer is None:
        raise ServiceError(f"{settings.name} does not run.", hint="Start it: aml-train emulator start")
    status, value = answer
    reason = str(value.get("error", status)).rstrip(".")
    if status in (400, 404) or (status == 409 and path == "workspaces"):
        raise InvalidError(f"{settings.name} refused the request: {reason}.")
    if status >= 400:
        raise ServiceError(f"{settings.name} failed: {reason}.", hint="aml-train emulator logs")
    return value


def running_emulator(workspace: str | None = None) -> EmulatorInfo:
    """Return the description of the running local AzureML.

    Args:
        workspace: one of its workspaces; that of the environment if None.

    Raises:
        InvalidError: it has no such workspace.
        ServiceError: it does not run.
    """
    from aml_train.core.errors import ServiceError
    from aml_train.local import emulator_info

    settings = emulator_settings()
    settings = settings if workspace is None else replace(settings, workspace=workspace)
    found = emulator_info(settings)
    if found is None:
        raise ServiceError(f"{settings.name} does not run.", hint="Start it: aml-train emulator start")
    return found
