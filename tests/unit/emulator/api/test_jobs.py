"""Jobs as Azure Resource Manager takes and shows them."""

from __future__ import annotations

from tests.unit.emulator.parts import WS, Service


def test_a_job_that_has_ended_is_deleted(service: Service) -> None:
    assert service.submit("job").status == 201
    refused = service.call("DELETE", f"{WS}/jobs/job")
    assert (refused.status, "cancel it" in refused.json["error"]["message"]) == (409, True)
    service.store.runs.finish("job", "Completed")
    assert service.call("DELETE", f"{WS}/jobs/job").status == 200
    assert service.call("GET", f"{WS}/jobs/job").status == 404
    assert service.call("DELETE", f"{WS}/jobs/job").status == 404
    assert service.submit("job").status == 201


def test_members_that_azures_models_do_not_have_are_named(service: Service) -> None:
    output = {"jobOutputType": "uri_folder", "assetName": "n", "assetVersion": "2"}
    job = {"properties": service.job(outputs={"o": output, "p": output})}
    refused = service.call("PUT", f"{WS}/jobs/job?api-version=2025-01-01-preview", job)
    error = refused.json["error"]
    assert (refused.status, error["code"], error["message"]) == (
        400,
        "UserError",
        "Request is invalid and/or missing fields.",
    )
    assert [one["code"] for one in error["details"]] == ["RequestInvalid", "RequestInvalid"]
    assert (
        "Could not find member 'assetVersion' on object of type 'UriFolderJobOutput'"
        in error["details"][0]["message"]
    )
    assert service.call("PUT", f"{WS}/jobs/job", job).status == 201


def test_services_of_a_job_are_shown_and_named_in_its_log(service: Service) -> None:
    shown = service.submit("job", services={"shell": {"jobServiceType": "SSH", "properties": {"sshPublicKeys": "k"}}})
    services = shown.json["properties"]["services"]
    assert (services["shell"]["jobServiceType"], services["shell"]["endpoint"]) == ("SSH", None)
    assert services.keys() == {"shell", "Tracking", "Studio"}
    assert service.runner.submitted[0].notes == (
        "services.shell: no SSH service is started, and no port is opened; the command runs alone.",
    )
