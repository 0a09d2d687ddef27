"""The HTTP interfaces of the local AzureML: parse, call the domain, shape answers."""

from __future__ import annotations

from aml_emulator.api.admin import Admin as Admin
from aml_emulator.api.admin import prepare_workspace as prepare_workspace
from aml_emulator.api.app import Answered as Answered
from aml_emulator.api.app import App as App
from aml_emulator.api.app import Asked as Asked
from aml_emulator.api.directory import Directory as Directory
from aml_emulator.api.directory import OpenWorkspace as OpenWorkspace
from aml_emulator.api.errors import MlflowError as MlflowError
from aml_emulator.api.errors import ServiceError as ServiceError
from aml_emulator.api.errors import service_error as service_error
from aml_emulator.api.gateway import Gateway as Gateway
from aml_emulator.api.routing import Call as Call
from aml_emulator.api.routing import Route as Route
from aml_emulator.api.routing import Router as Router
