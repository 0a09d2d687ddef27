"""The container of the local AzureML: start, stop, settings, environment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.core.lazy import lazily

if TYPE_CHECKING:
    from aml_train.local.admin import emulator_info as emulator_info
    from aml_train.local.admin import register_environments as register_environments
    from aml_train.local.admin import request_admin as request_admin
    from aml_train.local.browser import answer_program as answer_program
    from aml_train.local.browser import browser_variables as browser_variables
    from aml_train.local.browser import is_sign_in as is_sign_in
    from aml_train.local.browser import sign_in_page as sign_in_page
    from aml_train.local.environment import client_environment as client_environment
    from aml_train.local.environment import shell_exports as shell_exports
    from aml_train.local.lifecycle import emulator_logs as emulator_logs
    from aml_train.local.lifecycle import emulator_status as emulator_status
    from aml_train.local.lifecycle import find_emulator as find_emulator
    from aml_train.local.lifecycle import reset_emulator as reset_emulator
    from aml_train.local.lifecycle import start_emulator as start_emulator
    from aml_train.local.lifecycle import stop_emulator as stop_emulator
    from aml_train.local.settings import EmulatorInfo as EmulatorInfo
    from aml_train.local.settings import EmulatorSettings as EmulatorSettings
    from aml_train.local.target import LOCAL_PACE as LOCAL_PACE
    from aml_train.local.target import connect_local as connect_local
    from aml_train.local.target import environment_before as environment_before
    from aml_train.local.target import leave_local as leave_local
    from aml_train.local.target import local_names as local_names
    from aml_train.local.target import open_local as open_local

_MODULES = {
    "emulator_info": "admin",
    "register_environments": "admin",
    "request_admin": "admin",
    "answer_program": "browser",
    "browser_variables": "browser",
    "is_sign_in": "browser",
    "sign_in_page": "browser",
    "client_environment": "environment",
    "shell_exports": "environment",
    "emulator_logs": "lifecycle",
    "emulator_status": "lifecycle",
    "find_emulator": "lifecycle",
    "reset_emulator": "lifecycle",
    "start_emulator": "lifecycle",
    "stop_emulator": "lifecycle",
    "EmulatorInfo": "settings",
    "EmulatorSettings": "settings",
    "LOCAL_PACE": "target",
    "connect_local": "target",
    "environment_before": "target",
    "leave_local": "target",
    "local_names": "target",
    "open_local": "target",
}
__all__ = list(_MODULES)
__getattr__ = lazily(__name__, _MODULES)
