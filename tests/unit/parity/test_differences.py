"""The rules of the comparison, one by one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from aml_train.azure.parity.file import Recording
from parity.differences import KINDS, SEVERITIES, compare

JOB = "https://management.azure.com/subscriptions/<name:subscription>/resourceGroups/<name:group>/providers/Microsoft.MachineLearningServices/workspaces/<name:workspace>/jobs/<name:recording>-job?api-version=2024-10-01"


def line(body: Any = None, *, step: str = "job", **more: Any) -> dict[str, Any]:
    known = {
        "kind": "exchange",
        "step": step,
        "method": "GET",
        "url": JOB,
        "status": 200,
        "headers": {},
        "time": "moment",
    }
    return {**known, "body": body, **more}


def recording(*lines: Mapping[str, Any]) -> Recording:
    return Recording(header={"format": 1, "script": 1}, lines=tuple(lines))


def found(theirs: Mapping[str, Any], ours: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(one.kind, one.place) for one in compare(recording(theirs), recording(ours))]


@pytest.mark.parametrize(
    ("theirs", "ours", "wanted"),
    [
        # Equal, but for whose the values are
        ({"id": "<guid:1>"}, {"id": "<guid:9>"}, []),
        ({"n": "<int:e3>"}, {"n": "<int:e1>"}, []),
        ({"n": "<int:e3>"}, {"n": 1}, []),
        ({"n": 0}, {"n": 1}, []),
        ({"t": "<text:1>"}, {"t": "<name:4>"}, []),
        ({"<key:1>": "<text:1>"}, {}, []),
        ({}, {"<key:1>": "<text:1>"}, []),
        ([{"a": "<guid:1>"}], [{"a": "<guid:1>"}, {"a": "<guid:2>"}], []),
        ([], [{"a": 1}], []),
        ({"status": "Queued"}, {"status": "Running", "startTimeUtc": "<time-z:1>"}, []),
        ({"status": "Queued", "end": None}, {"status": "Completed", "end": "<time-z:1>"}, []),
        # Different
        ({"a": 1}, {}, [("missing", ".a")]),
        ({}, {"a": 1}, [("extra", ".a")]),
        ({"a": 1}, {"a": "<text:1>"}, [("type", ".a")]),
        ({"a": "<text:1>"}, {"a": None}, [("type", ".a")]),
        ({"a": True}, {"a": False}, [("value", ".a")]),
        ({"a": True}, {"a": "true"}, [("type", ".a")]),
        ({"a": []}, {"a": {}}, [("type", ".a")]),
        ({"a": [1]}, {"a": []}, [("empty", ".a")]),
        ({"a": 0.75}, {"a": 0.5}, [("value", ".a")]),
        ({"a": "<float:e-1>"}, {"a": "<int:e1>"}, [("form", ".a")]),
        ({"a": "<guid:1>"}, {"a": "<text:1>"}, [("form", ".a")]),
        ({"a": "<time-f-z:1>"}, {"a": "<time-z:1>"}, [("form", ".a")]),
        ({"a": "<guid:1>", "b": "<guid:1>"}, {"a": "<guid:1>", "b": "<guid:2>"}, [("same", ".b")]),
        ({"status": "Completed"}, {"status": "Canceled"}, [("word", ".status")]),
        ({"jobType": "Command"}, {"jobType": "command"}, [("word", ".jobType")]),
        ({"error": {"code": "UserError"}}, {"error": {"code": "Usererror"}}, [("code", ".error.code")]),
        (
            {"error": {"message": "No <name:1>."}},
            {"error": {"message": "Not <name:1>."}},
            [("text", ".error.message")],
        ),
        ({"error": {"message": "No <name:1>."}}, {"error": {"message": "No <name:7>."}}, []),
        ({"a": 1}, {"body": "bytes", "size": "<size:e1>"}, [("body", "")]),
        ({"x": [{"a": 1, "b": 1}, {"c": 1}]}, {"x": [{"c": 1}, {"a": 1}]}, [("missing", ".x[].b")]),
    ],
)
def test_bodies(theirs: Any, ours: Any, wanted: list[tuple[str, str]]) -> None:
    assert found(line(theirs), line(ours)) == wanted


@pytest.mark.parametrize(
    ("theirs", "ours", "wanted"),
    [
        ({"status": 404}, {"status": 400}, [("status", "")]),
        ({"headers": {"etag": "<etag>"}}, {}, [("header", "header etag")]),
        ({"headers": {}}, {"headers": {"etag": "<etag>"}}, []),
        ({"headers": {"content-type": "application/json"}}, {"headers": {"content-type": "text/html"}}, [("header", "header content-type")]),
        ({"headers": {"x-ms-request-id": "<guid>"}}, {"headers": {"x-ms-request-id": "<text>"}}, [("header", "header x-ms-request-id")]),
        ({"time": "moment"}, {"time": "seconds"}, [("time", "time")]),
        ({"time": "minutes"}, {"time": "moment"}, []),
    ],
)  # fmt: skip
def test_the_rest_of_an_answer(theirs: dict[str, Any], ours: dict[str, Any], wanted: list[tuple[str, str]]) -> None:
    assert found(line(**theirs), line(**ours)) == wanted


@pytest.mark.parametrize(
    ("theirs", "ours", "equal"),
    [
        ("Starting Queued Running Completed", "Queued Running Completed", True),
        ("Running Completed", "NotStarted Preparing Running Finalizing Completed", True),
        ("Preparing Queued Running Completed", "Preparing Queued Running Completed", True),
        ("Queued Preparing Completed", "Completed", True),
        ("Provisioned Running Completed", "Provisioned Running Completed", True),
        ("Queued Running Completed", "Running Queued Completed", False),
        ("Queued Preparing Completed", "Preparing Queued Completed", False),
        ("Queued Running Completed", "Queued Running Failed", False),
        ("Queued Running Completed", "Queued running Completed", False),
        ("Queued Running Completed", "Queued Running", False),
        ("Queued Running Completed", "Queued Running Queued Running Completed", False),
        ("Queued Running Completed", "", False),
        ("Running Completed", "Finalizing Preparing Completed", False),
    ],
)
def test_orders_of_states(theirs: str, ours: str, equal: bool) -> None:
    made = found(line(states=theirs.split()), line(states=ours.split()))
    assert made == ([] if equal else [("states", ".states")])


def test_a_step_that_is_not_taken_is_an_error() -> None:
    (one,) = compare(recording(line()), recording({"kind": "skipped", "step": "job", "why": "needs registry"}))
    assert (one.kind, one.severity) == ("step", "error")
    assert compare(recording({"kind": "skipped", "step": "job", "why": "x"}), recording(line())) == []


def call(outcome: str, *lines: Mapping[str, Any]) -> Sequence[Mapping[str, Any]]:
    return [
        {"kind": "call", "step": "sdk", "outcome": outcome},
        *({**one, "step": "sdk", "call": "sdk"} for one in lines),
    ]


def test_calls_are_compared_by_outcome_and_operation() -> None:
    twice = recording(*call("ok", line({"a": 1}), line({"a": 1})))
    assert compare(twice, recording(*call("ok", line({"a": 1})))) == []
    kinds = [one.kind for one in compare(twice, recording(*call("HttpResponseError", line({}))))]
    assert kinds == ["outcome", "missing"]
    assert [one.kind for one in compare(twice, recording(*call("ok")))] == ["requests"]


def test_a_difference_names_operation_and_place() -> None:
    (one,) = compare(recording(line({"properties": {"a": 1}})), recording(line({"properties": {}})))
    assert str(one) == "error: job (GET {WS}/jobs/{name}) .properties.a: missing: recorded number, local absent"


def test_operations_of_a_region_are_those_of_the_page() -> None:
    url = JOB.replace("https://management.azure.com", "https://<name:location>.api.azureml.ms/history/v1.0")
    url = url.replace("/jobs/<name:recording>-job?api-version=2024-10-01", "/runs/<name:recording>-job/details")
    (one,) = compare(recording(line(url=url)), recording(line(url=url, status=404)))
    assert one.operation == "GET /history/v1.0{WS}/runs/{run}/details"


def test_each_kind_has_a_severity() -> None:
    assert set(KINDS.values()) == set(SEVERITIES)
