"""The local AzureML as a workspace."""

from __future__ import annotations

from typing import Any

import pytest

from aml_train.azure.names import WorkspaceId
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.azure.target import Registries
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.image.registry.client import RegistryLocation
from aml_train.local.settings import EmulatorSettings, local_names
from tests.support.plain_answers import answered


def test_a_job_is_looked_at_on_the_page_and_not_in_the_studio(monkeypatch: pytest.MonkeyPatch) -> None:
    studio = {"Studio": {"endpoint": "https://ml.azure.com/x"}}
    job = {"properties": {"status": "Running", "experimentName": "hand written", "services": studio}}

    def find_job(_self: AzureRest, name: str) -> Answer | None:
        return None if name == "none" else answered({"name": name, **job})

    monkeypatch.setattr(AzureRest, "find_job", find_job)
    nobody: Any = None
    place = WorkspaceId(subscription_id="s", resource_group="g", name="w")
    workspace = AzureV2(place, nobody, page="http://127.0.0.1:7380")
    found = workspace.find("digits-1")
    assert found is not None
    assert (found.name, found.studio_url) == ("digits-1", "http://127.0.0.1:7380/ui/runs/digits-1")
    assert workspace.find("none") is None


def test_the_registry_is_reached_by_the_name_that_jobs_use() -> None:
    nobody: Any = None
    names = local_names(EmulatorSettings())
    loopback = RegistryLocation(push_name="", job_name=names.registry_for_jobs, url="http://127.0.0.1:5000")
    registry = Registries(
        settings=nobody, service=nobody, secrets={}, outer={}, listener=nobody, fetched=nobody, loopback=loopback
    )
    assert registry.named("other.azurecr.io") is None
    assert registry.administered("other.azurecr.io") is None
    location = registry.named("amllocal.azurecr.io")
    assert location is not None
    with location.client() as client:
        assert client.host == "127.0.0.1:5000"
