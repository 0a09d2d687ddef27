"""System metrics by Azure Monitor's interface, which azure-mgmt-monitor reads."""

from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import pytest
from azure.core.credentials import AccessToken
from azure.core.rest import HttpRequest
from hypothesis import given
from hypothesis import strategies as st

from aml_emulator.domain.errors import DomainError
from aml_emulator.domain.metrics_query import usage_query
from aml_emulator.domain.usage import MEGABYTE, record_usage
from aml_emulator.executor.usage import GpuReading
from tests.support.memory_transport import MemoryTransport
from tests.unit.emulator.parts import IDENTITY, WS, Service, idle_reading

STARTED = 1_799_999_940.0
"""The beginning of a minute, shortly before the service's clock begins."""

PATH = f"{WS}/providers/Microsoft.Insights/metrics"
BASE = idle_reading(STARTED)


@pytest.fixture
def used(service: Service) -> Service:
    """Return a service with two jobs: one of two nodes with GPUs, one of one node."""
    for run, nodes in (("j", 2), ("k", 1)):
        assert service.submit(run).status == 201
        for node in range(nodes):
            gpus = (GpuReading(device="0", percentage=10.0 + node, used=1.0, capacity=2.0),) if run == "j" else ()
            for second in range(30, 121, 30):
                # Half of the processors in the first minute, all of them in the second.
                cpu = second if second <= 60 else 60 + 2 * (second - 60)
                reading = dataclasses.replace(
                    BASE,
                    node=node,
                    at=STARTED + second,
                    cpu_seconds=float(cpu),
                    received=MEGABYTE * second * (1 + node),
                    gpus=gpus,
                )
                record_usage(service.store, run, reading)
    return service


def ask(service: Service, **given: str) -> Any:
    query = {
        "metricnames": "CpuUtilizationPercentage",
        "timespan": "2027-01-15T07:59:00Z/2027-01-15T08:10:00Z",
        **given,
    }
    text = "&".join(f"{quote(name.replace('filter', '$filter'))}={quote(value)}" for name, value in query.items())
    return service.call("GET", f"{PATH}?{text}&api-version=2024-02-01")


def test_the_times_of_these_tests() -> None:
    assert datetime.fromtimestamp(STARTED, UTC).isoformat() == "2027-01-15T07:59:00+00:00"


def test_a_metric_of_a_run(used: Service) -> None:
    answer = ask(used, filter="RunId eq 'k'", aggregation="Average,Maximum,minimum")
    assert answer.status == 200
    assert (answer.json["interval"], answer.json["resourceregion"]) == ("PT1M", "eastus")
    (metric,) = answer.json["value"]
    assert metric["id"] == f"{PATH}/CpuUtilizationPercentage"
    assert metric["name"]["value"] == "CpuUtilizationPercentage"
    assert metric["timeseries"] == [
        {
            "metadatavalues": [{"name": {"value": "runid", "localizedValue": "runid"}, "value": "k"}],
            "data": [
                {"timeStamp": "2027-01-15T07:59:00Z", "average": 50.0, "maximum": 50.0, "minimum": 50.0},
                {"timeStamp": "2027-01-15T08:00:00Z", "average": 100.0, "maximum": 100.0, "minimum": 100.0},
            ],
        }
    ]


def test_dimensions_divide_the_answer(used: Service) -> None:
    def series(filter_: str, names: str = "GpuUtilizationPercentage") -> list[tuple[list[str], float]]:
        found = ask(used, filter=filter_, metricnames=names, interval="PT1H").json["value"][0]["timeseries"]
        return [([value["value"] for value in one["metadatavalues"]], one["data"][0]["average"]) for one in found]

    assert series("RunId eq 'j'") == [(["j"], 10.5)]
    assert series("RunId eq 'j' and InstanceId eq '*' and DeviceId eq '*'") == [
        (["j", "node-0", "0"], 10.0),
        (["j", "node-1", "0"], 11.0),
    ]
    assert series("InstanceId eq 'node-1'") == [(["node-1"], 11.0)]
    assert series("RunId eq 'k'") == []
    assert [names for names, _ in series("RunId eq '*'", "CpuUtilizationPercentage")] == [["j"], ["k"]]
    assert [names for names, _ in series("RunId eq 'k' or RunId eq 'j'", "CpuUtilizationPercentage")] == [
        ["j"],
        ["k"],
    ]
    assert series("", "CpuUtilizationPercentage") == [([], 50.0)]


def test_amounts_are_sums_of_minutes(used: Service) -> None:
    answer = ask(used, metricnames="NetworkInputMegabytes", aggregation="Total,Average", filter="RunId eq 'j'")
    points = answer.json["value"][0]["timeseries"][0]["data"]
    assert [point["total"] for point in points] == pytest.approx([180.0, 180.0]), (
        "60 of one node and 120 of the other"
    )
    assert [point["average"] for point in points] == pytest.approx([90.0, 90.0])


def test_several_metrics_and_times(used: Service) -> None:
    names = "cpuutilizationpercentage,CpuCapacityMillicores"
    answer = ask(used, metricnames=names, timespan="2027-01-15T08:00:00Z/2027-01-15T08:01:00Z").json
    assert [one["name"]["value"] for one in answer["value"]] == ["CpuUtilizationPercentage", "CpuCapacityMillicores"]
    assert [len(one["timeseries"][0]["data"]) for one in answer["value"]] == [1, 1]
    assert ask(used, timespan="PT1H").json["value"][0]["timeseries"] != []
    assert ask(used, timespan="2026-01-15T08:00:00Z/2026-01-15T08:01:00Z").json["value"][0]["timeseries"] == []


@pytest.mark.parametrize(
    ("given", "status", "words"),
    [
        ({"metricnames": "Loss"}, 400, "metric: Loss, Valid metrics: CpuUtilizationPercentage,"),
        ({"metricnames": ""}, 400, "name at least one metric"),
        ({"interval": "PT7M"}, 400, "'PT7M' is none of the supported time grains: PT1M,"),
        ({"aggregation": "Count"}, 400, "'Count' is none of Average, Minimum, Maximum and Total"),
        ({"aggregation": ","}, 400, "is none of Average"),
        ({"timespan": "yesterday"}, 400, "'yesterday' is neither two times"),
        ({"timespan": "2027-01-15T08:00:00Z/later"}, 400, "'later' is neither two times"),
        ({"timespan": "2027-01-15T08:00:00Z/2026-01-15T08:00:00Z"}, 400, "ends before it begins"),
        ({"timespan": "P"}, 400, "'P' is neither"),
        ({"timespan": "PT0M"}, 400, "ends before it begins"),
        ({"filter": "RunId = 'j'"}, 400, "is not of the form"),
        ({"filter": "RunId eq 'j' and"}, 400, "is not of the form"),
        ({"filter": "RunId eq 'j' and "}, 400, "ends with 'and'"),
        ({"filter": "RunId eq 'j' or DeviceId eq '0'"}, 400, "'or' joins values of one dimension"),
        ({"filter": "RunId eq 'j' and RunId eq 'k'"}, 400, "'or' joins values of one dimension"),
        ({"filter": "RunId eq 'j' RunId eq 'k'"}, 400, "is not of the form"),
        ({"filter": "Colour eq 'red'"}, 400, "no dimension 'Colour'"),
        ({"filter": "ComputeName eq 'c'"}, 501, "the dimension 'ComputeName'"),
    ],
)
def test_wrong_queries_are_refused(service: Service, given: dict[str, str], status: int, words: str) -> None:
    answer = ask(service, **given)
    assert answer.status == status, answer.body
    assert words in answer.json["error"]["message"]


def test_it_needs_a_token_and_a_version(service: Service) -> None:
    assert service.call("GET", PATH, token=None).status == 401
    assert service.call("GET", f"{PATH}?api-version=latest").json["error"]["code"] == "InvalidApiVersionParameter"


@given(text=st.text(alphabet="RunId eqandor'*jk ", max_size=60))
def test_any_filter_is_read_or_refused(text: str) -> None:
    try:
        query = usage_query(
            names="CpuUtilizationPercentage", timespan="", interval="", aggregation="", filter_=text, now=9e8
        )
    except DomainError:
        return
    assert set(query.wanted) <= {"runid", "instanceid", "deviceid"}


class Wired(MemoryTransport):
    """Hands a client's requests to a service, without a socket."""

    def __init__(self, service: Service) -> None:
        self.service = service

    def send(self, request: HttpRequest, **kwargs: Any) -> Any:
        from azure.core.rest._requests_basic import RestRequestsTransportResponse
        from requests import Response

        del kwargs
        address = urlsplit(request.url)
        made = self.service.call(request.method, f"{unquote(address.path)}?{address.query}", host=address.netloc)
        answer = Response()
        answer.status_code, answer.raw, answer.url = made.status, io.BytesIO(made.body), request.url
        answer.headers.update(made.headers)
        found = RestRequestsTransportResponse(request=request, internal_response=answer)
        found.read()
        return found


class Granted:
    """A credential with the service's own token."""

    def __init__(self, service: Service) -> None:
        self.token = AccessToken(service.token, 2**33)

    def get_token(self, *_scopes: str, **_options: Any) -> AccessToken:
        return self.token


def test_the_unmodified_client_reads_them(used: Service) -> None:
    from azure.mgmt.monitor import MonitorManagementClient

    client = MonitorManagementClient(
        Granted(used), IDENTITY.subscription_id, transport=Wired(used), base_user_agent="test"
    )
    answer = client.metrics.list(
        WS.lstrip("/"),
        timespan="2027-01-15T07:59:00Z/2027-01-15T08:10:00Z",
        interval="PT1M",
        metricnames="CpuUtilizationPercentage,GpuUtilizationPercentage",
        aggregation="Average,Maximum",
        filter="RunId eq 'j' and InstanceId eq '*'",
    )
    first, second = answer.value
    assert (first.name.value, first.unit, first.error_code) == ("CpuUtilizationPercentage", "Count", "Success")
    assert [series.metadatavalues[1].value for series in first.timeseries] == ["node-0", "node-1"]
    assert [(point.time_stamp, point.average, point.maximum) for point in first.timeseries[0].data] == [
        (datetime(2027, 1, 15, 7, 59, tzinfo=UTC), 50.0, 50.0),
        (datetime(2027, 1, 15, 8, 0, tzinfo=UTC), 100.0, 100.0),
    ]
    assert second.timeseries[1].data[0].average == 11.0
    assert answer.interval is not None
    assert answer.namespace == "Microsoft.MachineLearningServices/workspaces"
