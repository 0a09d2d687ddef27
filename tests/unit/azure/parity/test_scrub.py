"""Placeholders keep equality and form, and nothing else."""

from __future__ import annotations

import base64
import json
import re
import uuid
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from aml_train.azure.parity.proof import prove
from aml_train.azure.parity.scrub import PLACEHOLDER, Scrubber, body_of, time_class

KNOWN = {
    "5f0c1d2e-1111-4222-8333-944455566677": "subscription",
    "contoso-rg": "group",
    "contoso": "workspace",
    "westeurope": "location",
    "jane.doe@contoso.com": "",
}
CONSTANTS = ("parity says hello", "green", "0.75", "3")
RECORDING = "parity-0badcafe"


def scrubber() -> Scrubber:
    return Scrubber(KNOWN, CONSTANTS, RECORDING)


WS = "/subscriptions/5f0c1d2e-1111-4222-8333-944455566677/resourceGroups/contoso-rg/providers/Microsoft.MachineLearningServices/workspaces/contoso"
SCRUBBED = "/subscriptions/<name:subscription>/resourceGroups/<name:group>/providers/Microsoft.MachineLearningServices/workspaces/<name:workspace>"


@pytest.mark.parametrize(
    ("value", "where", "wanted"),
    [
        ("Completed", ("properties", "status"), "Completed"),
        ("Completed", ("properties", "displayName"), "<text:1>"),
        ("contoso", ("properties", "status"), "<name:workspace>"),
        ("Contoso", ("name",), "<name:workspace>"),
        ("green", ("tags", "colour"), "green"),
        ("our-secret-project", ("tags", "team"), "<text:1>"),
        (f"{RECORDING}-job", ("name",), "<name:recording>-job"),
        ("parity_0badcafestore", ("name",), "<name:recording>store"),
        ("2026-11-23T10:00:00.1234567Z", ("createdAt",), "<time-f-z:1>"),
        ("2026-11-23T10:00:00+00:00", ("createdAt",), "<time-offset:1>"),
        ("Mon, 23 Nov 2026 10:00:00 GMT", ("date",), "<time-http:1>"),
        ("00000000-0000-4000-8000-000000000001", ("runUuid",), "<guid:1>"),
        ("PT15M", ("timeout",), "<duration>"),
        ("00:00:12.3", ("duration",), "<timespan>"),
        ("10.1.2.3", ("ip",), "<ip:1>"),
        ("someone@example.org", ("mail",), "<email:1>"),
        ("eyJhbGciOi.eyJzdWIi.c2ln", ("token",), "<jwt:1>"),
        ("0123456789abcdef0123", ("instance",), "<hex:1>"),
        # The id of a request: of 16 hexadecimal digits, all are decimal once in 1,800 times.
        ("1234567890123456", ("request",), "<hex:1>"),
        ("1234567890123", ("milliseconds",), "<digits:1>"),
        ("17", ("count",), "<digits:1>"),
        ("3", ("count",), "3"),
        ("", ("count",), ""),
        ('{"a": 1}', ("note",), "<json:1>"),
        ("one\ntwo", ("note",), "<lines:1>"),
        (
            f"{WS}/jobs/{RECORDING}-job",
            ("id",),
            f"{SCRUBBED}/jobs/<name:recording>-job",
        ),
        (
            "https://westeurope.api.azureml.ms/history/v1.0/x?api-version=2024-10-01&sig=abc%2Fd&sv=2021-08-06&x=y",
            ("uri",),
            "https://<host:1>.api.azureml.ms/history/v1.0/<name:1>?api-version=2024-10-01&sig=<sas>&sv=2021-08-06&x=<value:1>",
        ),
        (
            "https://acct.blob.core.windows.net/box/parity.txt",
            ("uri",),
            "https://<host:1>.blob.core.windows.net/<name:1>/parity.txt",
        ),
        ("azureml:sklearn:3", ("environment",), "azureml:<name:1>:3"),
        (
            "There is no job 'ours' in contoso of jane.doe@contoso.com (10.1.2.3), see https://aka.ms/x.",
            ("error", "message"),
            "There is no job '<text:1>' in <name:workspace> of <email:1> (<ip:1>), see https://aka.ms/<name:1>.",
        ),
        ("JobNotFound", ("error", "code"), "JobNotFound"),
        ("5f0c1d2e-1111-4222-8333-944455566677", ("error", "code"), "<name:subscription>"),
    ],
)
def test_a_text_becomes(value: str, where: tuple[str, ...], wanted: str) -> None:
    made = scrubber().text(value, where)
    if "westeurope" in value:
        wanted = wanted.replace("<host:1>", "<name:location>")
    assert made == wanted


def test_equal_values_have_equal_placeholders_wherever_they_are() -> None:
    made = scrubber().value(
        {"a": "00000000-0000-4000-8000-00000000000A", "b": ["00000000-0000-4000-8000-00000000000a", "other thing"]}
    )
    assert made == {"a": "<guid:1>", "b": ["<guid:1>", "<text:1>"]}


def test_keys_that_people_choose_are_replaced() -> None:
    made = scrubber().value(
        {
            "tags": {"type": "vision", "status": "ours", "message": "for us"},
            "properties": {"azureml.git": "z", "ours": "x"},
            "userAssignedIdentities": {f"{WS}/id/one": {}},
            "contoso": 1,
        }
    )
    assert list(made) == ["tags", "properties", "userAssignedIdentities", "<name:workspace>"]
    assert made["tags"] == {"<key:1>": "<text:1>", "<key:2>": "<text:2>", "<key:3>": "<text:3>"}
    assert list(made["properties"]) == ["azureml.git", "<key:4>"]
    assert "contoso" not in json.dumps(made)


def test_numbers_become_classes_unless_the_script_sent_them() -> None:
    made = scrubber().value({"a": 0.75, "b": 12345, "c": 0.123, "d": 1, "e": True, "statusCode": 404, "f": 2.5e9})
    assert made == {
        "a": 0.75,
        "b": "<int:e4>",
        "c": "<float:e-1>",
        "d": 1,
        "e": True,
        "statusCode": 404,
        "f": "<float:e9>",
    }


def test_items_that_differ_in_values_alone_are_one() -> None:
    made = scrubber().value([{"id": str(uuid.UUID(int=n)), "name": f"n {n}"} for n in range(100)] + [{"id": None}])
    assert made == [{"id": "<guid:1>", "name": "<text:1>"}, {"id": None}]


def test_bodies_that_are_no_json_leave_their_size_and_our_texts() -> None:
    made = scrubber()
    assert body_of(b"", "", made, CONSTANTS) is None
    assert body_of(b"parity says hello\nsecret 123\n", "text/plain", made, CONSTANTS) == {
        "body": "bytes",
        "size": "<size:e1>",
        "holds": ["parity says hello"],
    }
    xml = b"<Error><Code>BlobNotFound</Code><Message>of contoso</Message></Error>"
    assert body_of(xml, "application/xml", made, ())["code"] == "BlobNotFound"


def test_headers_are_those_that_clients_act_on() -> None:
    made = scrubber().headers(
        {
            "Content-Type": "application/json; charset=utf-8",
            "X-Secret": "of contoso",
            "ETag": '"0x8D"',
            "x-ms-request-id": str(uuid.uuid4()),
            "WWW-Authenticate": 'Bearer realm="https://contoso.azurecr.io/x", service="contoso"',
            "Content-Range": "bytes 7-17/18",
        }
    )
    assert made == {
        "content-range": "bytes N-N/N",
        "content-type": "application/json",
        "etag": "<etag>",
        "www-authenticate": "Bearer realm service",
        "x-ms-request-id": "<guid>",
    }


def test_durations_have_classes() -> None:
    assert [time_class(one) for one in (0.1, 4.9, 5, 29, 30)] == ["moment", "moment", "seconds", "seconds", "minutes"]


# Whatever an answer holds

_NAME = st.from_regex(r"[a-z]{3,8}[0-9]{2,6}[a-z]{2,6}", fullmatch=True)
_SECRET = st.one_of(
    st.uuids().map(str),
    st.uuids().map(lambda one: one.hex),
    # Without a digit, a key looks like a long word: one of a million of 64 characters has none.
    st.binary(min_size=24, max_size=64).map(lambda data: f"a1B2{base64.b64encode(data).decode()}"),
    st.binary(min_size=24, max_size=64).map(
        lambda data: f"eyJ{base64.urlsafe_b64encode(data).decode().strip('=')}.eyJ9.x"
    ),
    st.tuples(_NAME, _NAME).map(lambda pair: f"{pair[0]}@{pair[1]}.com"),
    _NAME.map(lambda name: f"https://{name}.blob.core.windows.net/{name}?sv=1&sig={name}%2F{name}%3D"),
    _NAME.map(lambda name: f"{name}.westeurope.cloudapp.azure.com"),
    st.ip_addresses(v=4).map(str),
    st.datetimes().map(lambda when: f"{when.isoformat(timespec='microseconds')}Z"),
    _NAME,
)
_KEYS = st.sampled_from(
    ["name", "id", "status", "type", "code", "message", "error", "tags", "properties", "value", "uri", "createdBy"]
)
_FRAMES = st.sampled_from(
    ["{}", "the thing '{}' is not there", "see {}, please", "a/{}/b", "x={};y", "[{}]", "{}.", "({})"]
)


def _trees(texts: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        texts,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_KEYS, inner, max_size=4),
        max_leaves=12,
    )


@given(st.data())
def test_nothing_that_was_learned_is_left_in_any_answer(data: st.DataObject) -> None:
    secrets = data.draw(st.lists(_SECRET, min_size=1, max_size=4, unique=True))
    framed = [data.draw(_FRAMES).format(one) for one in secrets]
    body = {
        "error": {"message": " ".join(framed), "code": secrets[0]},
        "tree": data.draw(_trees(st.sampled_from(framed))),
    }
    known = dict.fromkeys(secrets, "")
    made = Scrubber(known, (), RECORDING)
    line = json.dumps(
        {"kind": "exchange", "body": made.value(body), "url": made.url(f"https://x.azurecr.io/{framed[0]}")}
    )
    assert prove([line], dict.fromkeys(secrets, "a secret"), ()) == []
    for one in secrets:
        assert one.lower() not in line.lower()


@example("aaa00aa.westeurope.cloudapp.azure.com", "{}.", "status")
@example("10.1.2.3", "{}.", "message")
@example("aaa00aa", "{}", "message")
@given(_SECRET, _FRAMES, st.sampled_from(["message", "name", "status", "code", "anything"]))
def test_a_form_is_replaced_although_nothing_was_learned(secret: str, frame: str, key: str) -> None:
    # These keys hold words of the service: a plain word is kept there.
    assume(key not in ("status", "code") or not re.fullmatch(r"[a-z0-9]+", secret))
    made = Scrubber({}, (), RECORDING).value({"error": {key: frame.format(secret)}})
    assert prove([json.dumps({"body": made})], {secret: "a secret"}, ()) == []


@given(st.lists(_SECRET, min_size=2, max_size=6))
@example(["abc123de", "abc123de"])
def test_placeholders_are_equal_exactly_where_values_are(values: list[str]) -> None:
    made = scrubber()
    placeholders = [made.text(one, ("anything",)) for one in values]
    for one, first in zip(values, placeholders, strict=True):
        for other, second in zip(values, placeholders, strict=True):
            if PLACEHOLDER.fullmatch(first) and PLACEHOLDER.fullmatch(second):
                assert (first == second) == (one.lower() == other.lower())


@given(st.uuids(), st.datetimes())
def test_forms_are_kept(one: uuid.UUID, when: Any) -> None:
    made = scrubber()
    assert re.fullmatch(r"<guid:\d+>", made.text(str(one), ("x",)))
    assert re.fullmatch(r"<time-z:\d+>", made.text(f"{when.isoformat(timespec='seconds')}Z", ("x",)))
    assert re.fullmatch(r"<time-f-offset:\d+>", made.text(f"{when.isoformat(timespec='microseconds')}+00:00", ("x",)))


@given(_trees(st.text(max_size=40)))
def test_any_json_is_scrubbed_twice_to_the_same(body: Any) -> None:
    assert scrubber().value(body) == scrubber().value(body)
