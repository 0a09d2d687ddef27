"""AzureML's limits, in its words, at the interfaces that they bound."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.limits import LIMITS, check_limit
from tests.unit.emulator.parts import IDENTITY, WS, Answer, Service

TRACKING = f"/mlflow/v2.0{WS}/api/2.0/mlflow/runs"
HISTORY = f"/history/v1.0{WS}/runs"
API = IDENTITY.api_host


def over(field: str, limit: int, size: int) -> str:
    return (
        f"A field of the entity is over the size limit. FieldName={field}, Limit={limit}, Size={size}."
        " See https://aka.ms/azure-machine-learning-limits for service limits documentation."
    )


@pytest.mark.parametrize("limit", LIMITS, ids=lambda one: one.field)
def test_each_limit_allows_its_size_and_no_more(limit: Any) -> None:
    check_limit(limit, range(limit.most))
    with pytest.raises(InvalidError, match=rf"Limit={limit.most}, Size={limit.most + 1}\.") as refused:
        check_limit(limit, range(limit.most + 1))
    assert (refused.value.code, list(refused.value.reasons)) == ("ValidationError", [])
    assert limit.source.startswith(("https://", "azure-rest-api-specs"))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"displayName": "x" * 257}, over("RunDto.DisplayName/Length", 256, 257)),
        ({"description": "x" * 5001}, over("RunDto.Description/Length", 5000, 5001)),
        ({"tags": {f"t{number}": "1" for number in range(51)}}, over("RunDto.Tags/Count", 50, 51)),
        ({"tags": {"k" * 101: "1"}}, over("RunDto.Tags.Key/Length", 100, 101)),
        ({"tags": {"k": "v" * 1001}}, over("RunDto.Tags.Value/Length", 1000, 1001)),
        ({"properties": {"k" * 101: "1"}}, over("RunDto.Properties.Key/Length", 100, 101)),
        ({"experimentName": "e" * 257}, over("ExperimentDto.Name/Length", 256, 257)),
    ],
)
def test_a_job_beyond_a_limit_is_refused(service: Service, fields: dict[str, Any], message: str) -> None:
    refused = service.submit("job", **fields)
    assert (refused.status, refused.json["error"]["code"]) == (400, "ValidationError")
    assert refused.json["error"]["message"] == message
    assert service.call("GET", f"{WS}/jobs/job").status == 404


def test_a_job_at_its_limits_is_taken(service: Service) -> None:
    tags = {f"{number:0100}": "v" * 1000 for number in range(50)}
    assert service.submit("job", displayName="x" * 256, description="d" * 5000, tags=tags).status == 201


def test_tags_are_counted_with_those_that_a_run_has(service: Service) -> None:
    assert service.submit("job", tags={f"t{number}": "1" for number in range(49)}).status == 201
    for name, status in (("one", 200), ("two", 400), ("one", 200)):
        assert mlflow(service, "set-tag", {"run_id": "job", "key": name, "value": "1"}).status == status
    more = service.call("PATCH", f"{HISTORY}/job", {"tags": {"three": "1"}}, host=API)
    assert (more.status, more.json["error"]["message"]) == (400, over("RunDto.Tags/Count", 50, 51))


def test_a_run_has_two_hundred_parameters(service: Service) -> None:
    service.submit("job")
    first = [{"key": f"p{number}", "value": "1"} for number in range(150)]
    assert mlflow(service, "log-batch", {"run_id": "job", "params": first}).status == 200
    assert mlflow(service, "log-batch", {"run_id": "job", "params": first}).status == 200
    more = [{"key": f"q{number}", "value": "1"} for number in range(60)]
    refused = mlflow(service, "log-batch", {"run_id": "job", "params": more})
    assert (refused.status, refused.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert over("Parameters", 200, 210) in refused.json["message"]
    assert mlflow(service, "log-parameter", {"run_id": "job", "key": "last", "value": "1"}).status == 200


def test_a_batch_has_two_hundred_and_fifty_values_of_a_metric(service: Service) -> None:
    service.submit("job")

    def batch(**counts: int) -> Answer:
        values = [
            {"key": name, "value": 0.5, "timestamp": 1, "step": step}
            for name, count in counts.items()
            for step in range(count)
        ]
        return mlflow(service, "log-batch", {"run_id": "job", "metrics": values})

    assert batch(loss=250, acc=250).status == 200
    refused = batch(loss=699)
    assert (refused.status, refused.json["error_code"]) == (400, "INVALID_PARAMETER_VALUE")
    assert over("MetricV2Dto.Value/Count", 250, 699) in refused.json["message"]


def test_artifacts_are_recorded_a_hundred_at_a_time(service: Service) -> None:
    service.submit("job")
    address = f"/artifact/v2.0{WS}/artifacts/batch/metadata/ExperimentRun/dcid.job"
    for count, status in ((100, 200), (101, 400)):
        paths = [{"path": f"outputs/{number}.txt"} for number in range(count)]
        answer = service.call("POST", address, {"paths": paths}, host=API)
        assert answer.status == status
    assert answer.json["error"]["message"] == "Artifact batch size exceeded the limit of 100"


def mlflow(service: Service, operation: str, body: Mapping[str, Any]) -> Answer:
    return service.call("POST", f"{TRACKING}/{operation}", dict(body), host=API)


@pytest.mark.parametrize(
    ("kind", "properties", "message"),
    [
        (
            "data",
            {"dataUri": "azureml://datastores/workspaceblobstore/paths/x", "dataType": "folder"},
            "dataType 'folder'",
        ),
        ("environments", {"image": "python 3.11"}, "image 'python 3.11'"),
        ("environments", {"image": "--privileged"}, "not a reference of a container image"),
    ],
)
def test_content_that_the_specification_does_not_know(
    service: Service, kind: str, properties: dict[str, str], message: str
) -> None:
    refused = service.call("PUT", f"{WS}/{kind}/thing/versions/1", {"properties": properties})
    assert (refused.status, message in refused.json["error"]["message"]) == (400, True)
