"""Identities, tokens and federated credentials."""

from __future__ import annotations

from aml_emulator.identity.federation import FederatedCredential as FederatedCredential
from aml_emulator.identity.federation import Federation as Federation
from aml_emulator.identity.grants import DEVICE_SECONDS as DEVICE_SECONDS
from aml_emulator.identity.grants import Grant as Grant
from aml_emulator.identity.grants import Grants as Grants
from aml_emulator.identity.identity import Identity as Identity
from aml_emulator.identity.identity import load_or_create as load_or_create
from aml_emulator.identity.names import WorkspaceNames as WorkspaceNames
from aml_emulator.identity.roles import BUILT_IN as BUILT_IN
from aml_emulator.identity.roles import Roles as Roles
from aml_emulator.identity.tokens import LIFETIME_SECONDS as LIFETIME_SECONDS
from aml_emulator.identity.tokens import REPOSITORY_ACTIONS as REPOSITORY_ACTIONS
from aml_emulator.identity.tokens import Principal as Principal
from aml_emulator.identity.tokens import RegistryAccess as RegistryAccess
from aml_emulator.identity.tokens import TokenError as TokenError
from aml_emulator.identity.tokens import Tokens as Tokens
from aml_emulator.identity.tokens import decode_token as decode_token
