"""The local AzureML as a workspace."""

from __future__ import annotations

from typing import Any

import pytest

from aml_train.azure.http import WorkspaceId
from aml_train.azure.workspace import AzureRest
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from aml_train.local.target import LocalAzureML


def test_a_job_is_looked_at_on_the_page_and_not_in_the_studio(monkeypatch: pytest.MonkeyPatch) -> None:
    def find(_self: AzureRest, name: str) -> JobView | None:
        return (
            None
            if name == "none"
            else JobView(name=name, status=JobStatus.RUNNING, studio_url="https://ml.azure.com/x")
        )

    monkeypatch.setattr(AzureRest, "find", find)
    nobody: Any = None
    place = WorkspaceId(subscription_id="s", resource_group="g", name="w")
    workspace = LocalAzureML(place, nobody, page="http://127.0.0.1:7380", name="aml-emulator")
    found = workspace.find("digits-1")
    assert found is not None
    assert (found.name, found.studio_url) == ("digits-1", "http://127.0.0.1:7380/ui/runs/digits-1")
    assert workspace.find("none") is None
