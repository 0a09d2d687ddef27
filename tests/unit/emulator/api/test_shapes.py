"""Shapes of answers that a recording alone does not decide, and refusals of data."""

from __future__ import annotations

from typing import Any

import pytest

from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

STORE = "azureml://datastores/workspaceblobstore/paths"


def data(service: Service, version: str = "1", **properties: Any) -> Answer:
    body = {"properties": {"dataUri": f"{STORE}/x", "dataType": "uri_folder", **properties}}
    return service.call("PUT", f"{WS}/data/d/versions/{version}", body)


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"dataUri": "some text"}, "The dataUri: 'some text' is not an address that AzureML knows"),
        ({"dataUri": "azureml://datastores/none/paths/x"}, "Could not find datastore: none."),
        ({"dataUri": None}, "dataUri: it is missing"),
        ({"dataType": None}, "dataType: it is missing"),
        ({"dataType": "table"}, "The dataType 'table' is invalid: uri_file, uri_folder, mltable."),
    ],
)
def test_data_that_nothing_could_read_are_refused(service: Service, properties: dict[str, Any], message: str) -> None:
    refused = data(service, **properties)
    assert refused.status == 400
    assert message in refused.json["error"]["message"]
    assert service.call("GET", f"{WS}/data/d").status == 404


@pytest.mark.parametrize(
    "uri",
    [f"{STORE}/x", "https://example.com/x.csv", "wasbs://c@a.blob.core.windows.net/x", "azureml://jobs/j/outputs/o"],
)
def test_data_may_be_at_any_known_address(service: Service, uri: str) -> None:
    assert data(service, dataUri=uri).status == 201


@pytest.mark.parametrize("version", ["a b", "1:2", "x@y", "v" * 256])
def test_a_version_fits_into_references(service: Service, version: str) -> None:
    refused = data(service, version.replace(" ", "%20"))
    assert refused.status == 400
    assert "ersion" in refused.json["error"]["message"]


def test_data_show_the_tags_that_they_were_sent_with(service: Service) -> None:
    shown = data(service).json["properties"]
    assert (shown["tags"], shown["properties"]) == (None, None)
    shown = data(service, "2", tags={}, properties={}).json["properties"]
    assert (shown["tags"], shown["properties"]) == ({}, {})


@pytest.mark.parametrize(("anonymous", "stage"), [(True, "Logged"), (False, "Development")])
def test_an_environment_has_a_stage(service: Service, *, anonymous: bool, stage: str) -> None:
    made = {"properties": {"image": "x:1", "isAnonymous": anonymous}}
    assert service.call("PUT", f"{WS}/environments/e/versions/1", made).json["properties"]["stage"] == stage


def test_an_output_shows_its_place_when_it_is_stored(service: Service) -> None:
    place = {"jobOutputType": "uri_folder", "uri": f"{STORE}/own"}
    outputs = {"open": {"jobOutputType": "uri_folder"}, "placed": place}
    shown = service.submit("job", outputs=outputs).json["properties"]["outputs"]
    assert (shown["open"]["uri"], shown["placed"]["uri"]) == (None, f"{STORE}/own")
    service.store.runs.output_stored("job", "open")
    shown = service.call("GET", f"{WS}/jobs/job").json["properties"]["outputs"]
    assert shown["open"]["uri"] == f"{STORE}/azureml/job/open/"


def test_a_tag_without_a_value_is_shown_by_its_job_alone(service: Service) -> None:
    shown = service.submit("job", tags={"a": None, "b": "c"}, properties={"p": None}).json["properties"]
    assert shown["tags"] == {"a": None, "b": "c"}
    assert shown["properties"]["p"] is None
    assert service.store.runs.require("job").tags == {"b": "c"}


def test_run_history_shows_the_nodes_of_a_job(service: Service) -> None:
    service.submit("job", resources={"instanceCount": 2}, distribution={"distributionType": "Mpi"})
    run = service.call("GET", f"/history/v1.0{WS}/runs/job", host=IDENTITY.api_host).json
    assert run["computeRequest"] == {"nodeCount": 2, "gpuCount": 0}
    assert (run["compute"]["targetType"], run["compute"]["instanceCount"]) == ("amlcompute", 2)


def test_a_missing_workspace_is_the_gateways_error(service: Service) -> None:
    refused = service.call("GET", f"{WS.rpartition('/')[0]}/none/jobs")
    assert (refused.status, refused.headers["x-ms-failure-cause"]) == (404, "gateway")
    assert "x-ms-failure-cause" not in service.call("GET", f"{WS}/jobs/none").headers


def test_connections_refuse_in_the_form_of_run_history(service: Service) -> None:
    refused = service.call("GET", f"{WS}/connections/none").json
    assert refused["error"]["innerError"] == {"code": "NotFoundError", "innerError": None}
    assert (refused["error"]["messageFormat"], refused["statusCode"]) == (None, 404)
