"""Kinds of resources that there are none of, and keys."""

from __future__ import annotations

import pytest

from aml_emulator.api.arm.workspaces import KINDS
from tests.unit.emulator.parts import IDENTITY, WS, Service


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_nothing_of_this_kind(service: Service, kind: str) -> None:
    listed = service.call("GET", f"{WS}/{kind}?listViewType=EnabledOnly")
    assert (listed.status, listed.json) == (200, {"value": []})
    one = service.call("GET", f"{WS}/{kind}/mine")
    error = one.json["error"]
    assert one.status == 404
    assert "mine" in f"{error['message']} {error['details']}"


def test_the_keys_of_a_workspace_are_those_of_its_storage_and_registry(service: Service) -> None:
    keys = service.call("POST", f"{WS}/listKeys").json
    assert (keys["userStorageKey"], keys["userStorageArmId"]) == (IDENTITY.storage_key, IDENTITY.storage_id)
    user, password = service.tokens.registry_admin
    registry = keys["containerRegistryCredentials"]
    assert (registry["username"], registry["passwords"][0]["value"]) == (user, password)
