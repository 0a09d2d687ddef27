"""Kinds of resources that there are none of, and jobs that are deleted."""

from __future__ import annotations

import pytest

from aml_emulator.api.arm.workspaces import KINDS
from tests.unit.emulator.parts import WS, Service


@pytest.mark.parametrize("kind", KINDS)
def test_there_is_nothing_of_this_kind(service: Service, kind: str) -> None:
    listed = service.call("GET", f"{WS}/{kind}?listViewType=EnabledOnly")
    assert (listed.status, listed.json) == (200, {"value": []})
    one = service.call("GET", f"{WS}/{kind}/mine")
    error = one.json["error"]
    assert one.status == 404
    assert "mine" in f"{error['message']} {error['details']}"


def test_a_job_that_has_ended_is_deleted(service: Service) -> None:
    assert service.submit("job").status == 201
    refused = service.call("DELETE", f"{WS}/jobs/job")
    assert (refused.status, "cancel it" in refused.json["error"]["message"]) == (409, True)
    service.store.runs.finish("job", "Completed")
    assert service.call("DELETE", f"{WS}/jobs/job").status == 200
    assert service.call("GET", f"{WS}/jobs/job").status == 404
    assert service.call("DELETE", f"{WS}/jobs/job").status == 404
    assert service.submit("job").status == 201
