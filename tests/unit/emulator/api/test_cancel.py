"""azureml-core cancels a job by the address that its run shows."""

from __future__ import annotations

from tests.unit.emulator.parts import IDENTITY, WS, Service


def test_a_job_is_cancelled_by_the_address_of_its_run(service: Service) -> None:
    service.submit("job")
    shown = service.call("GET", f"/history/v1.0{WS}/runs/job", host=IDENTITY.api_host).json
    assert shown["cancelUri"] == shown["actionUris"]["Cancel"]
    host, _, path = shown["cancelUri"].removeprefix("https://").partition("/")
    assert service.call("POST", f"/{path}", host=host).status == 200
    assert service.store.runs.require("job").status == "CancelRequested"
    other = f"/{path}".replace("/workspaces/local/", "/workspaces/other/")
    assert service.call("POST", other, host=host).status == 404
