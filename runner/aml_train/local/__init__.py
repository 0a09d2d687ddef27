"""The container of the local AzureML: start, stop, settings, environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.local.admin import ask as ask
    from aml_train.local.admin import name_environments as name_environments
    from aml_train.local.environment import client_environment as client_environment
    from aml_train.local.environment import shell_exports as shell_exports
    from aml_train.local.lifecycle import find_running as find_running
    from aml_train.local.lifecycle import info as info
    from aml_train.local.lifecycle import logs as logs
    from aml_train.local.lifecycle import reset as reset
    from aml_train.local.lifecycle import start as start
    from aml_train.local.lifecycle import status as status
    from aml_train.local.lifecycle import stop as stop
    from aml_train.local.settings import EmulatorInfo as EmulatorInfo
    from aml_train.local.settings import EmulatorSettings as EmulatorSettings
    from aml_train.local.target import connect_local as connect_local
    from aml_train.local.target import local_names as local_names
    from aml_train.local.target import open_local as open_local

_MODULES = {
    "ask": "admin",
    "name_environments": "admin",
    "client_environment": "environment",
    "shell_exports": "environment",
    "find_running": "lifecycle",
    "info": "lifecycle",
    "logs": "lifecycle",
    "reset": "lifecycle",
    "start": "lifecycle",
    "status": "lifecycle",
    "stop": "lifecycle",
    "EmulatorInfo": "settings",
    "EmulatorSettings": "settings",
    "connect_local": "target",
    "local_names": "target",
    "open_local": "target",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
