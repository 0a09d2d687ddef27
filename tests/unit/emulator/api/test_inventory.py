"""Kinds of resources that there are none of, and keys."""

from __future__ import annotations

import pytest

from aml_emulator.api.arm.workspaces import KINDS
from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_nothing_of_this_kind(service: Service, kind: str) -> None:
    listed = service.call("GET", f"{WS}/{kind}?listViewType=EnabledOnly")
    assert (listed.status, listed.json) == (200, {"value": []})
    assert service.call("GET", f"{WS}/{kind}/mine").status == 501


def test_the_keys_of_a_workspace_are_those_of_its_storage_and_registry(service: Service) -> None:
    keys = service.call("POST", f"{WS}/listKeys").json
    assert (keys["userStorageKey"], keys["userStorageArmId"]) == (IDENTITY.storage_key, IDENTITY.storage_id)
    user, password = service.tokens.registry_admin
    registry = keys["containerRegistryCredentials"]
    assert (registry["username"], registry["passwords"][0]["value"]) == (user, password)


def test_a_component_is_validated_and_other_resources_are_refused_by_name(service: Service) -> None:
    group = f"/subscriptions/{IDENTITY.subscription_id}/resourcegroups/{IDENTITY.resource_group}"
    url = f"{group}/providers/Microsoft.Resources/deployments/{IDENTITY.workspace}/validate"

    def validated(kind: str, name: str) -> Answer:
        template = {"resources": [{"type": kind, "name": name, "properties": {}}]}
        return service.call("POST", url, {"properties": {"template": template, "mode": "Incremental"}})

    component = "Microsoft.MachineLearningServices/workspaces/components/versions"
    shown = validated(component, f"{IDENTITY.workspace}/azureml_anonymous/0.0.1").json["properties"]
    assert shown["provisioningState"] == "Succeeded"
    assert shown["validatedResources"] == [{"id": f"{WS}/components/azureml_anonymous/versions/0.0.1"}]
    assert service.store.assets.containers("components") == []
    refused = validated("Microsoft.Storage/storageAccounts", "mine")
    assert (refused.status, "Microsoft.Storage/storageAccounts" in refused.json["error"]["message"]) == (501, True)
