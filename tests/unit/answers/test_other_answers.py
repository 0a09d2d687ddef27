"""What is read besides: records of promotions, headers, the local AzureML's administration. Arbitrary bytes end as they are promised to."""

from __future__ import annotations

import dataclasses
import http.client
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_train.azure.credentials import claims_of
from aml_train.azure.sign_in import reason, remedy
from aml_train.core import retry as retries
from aml_train.core.answers import clean, date_of, is_within, split, trace_of
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.image.records import parse_record
from aml_train.image.registry.auth import parse_challenge
from aml_train.jobs.states import JobStatus, failure_of
from aml_train.local import admin as emulator_admin
from aml_train.local.settings import EmulatorSettings
from aml_train.models.promotion.record import Change, Record, decode, encode
from tests.support.wrong_answers import CASES, DECISIONS, HEADERS, PHASES, TEXTS, Choices, Reply, as_json, reply_of
from tests.unit.answers.test_registry_answers import RECORD_BLOB

CHANGE = Change(
    id="1",
    action="promote",
    stage="production",
    version="2",
    previous=("1",),
    came_from=None,
    path="azureml://x",
    digest=None,
    actor="a",
    reason="",
    at="2026-01-01T00:00:00+00:00",
    run_url=None,
    gate="passed",
    rules=("acc",),
)
RECORD = encode(Record(model="m", revision=1, history=(CHANGE,)).begun(CHANGE))
INFO = {
    **dict.fromkeys(("version", "instance", "tenant_id", "client_id", "client_secret", "subscription_id"), "x"),
    **dict.fromkeys(
        ("resource_group", "workspace", "location", "compute", "storage_account", "api_host", "ca_pem"), "x"
    ),
    "registry": {"login_server": "r", "engine": "e"},
}


def content_of(choices: Choices, valid: bytes) -> bytes:
    return reply_of(choices, Reply(headers={"Content-Type": "application/json"}, body=valid)).body


def promotion(choices: Choices) -> None:
    """``promotion.promote.decoded`` makes a ServiceError of a ValueError."""
    try:
        record = decode(content_of(choices, RECORD), "m")
    except ValueError as error:
        str(error).encode()
        return
    encode(record)
    for change in record.history:
        assert all(isinstance(one, str) for one in (*change.previous, *change.rules, change.version, change.at))


def test_record(choices: Choices) -> None:
    """``load_record`` makes an ImageError of these."""
    try:
        parse_record(content_of(choices, RECORD_BLOB))
    except (KeyError, TypeError, ValueError) as error:
        str(error).encode()


def headers(choices: Choices) -> None:
    found = {name: choices.pick((*HEADERS[name], *TEXTS)) for name in HEADERS}
    wait = retries.retry_after(found, now=0.0)
    assert wait is None or 0 <= wait <= 1e9
    date_of(found)
    trace_of(found).encode("ascii")
    parse_challenge(found["WWW-Authenticate"])


def texts(choices: Choices) -> None:
    text = choices.pick(TEXTS) + choices.pick(TEXTS)
    clean(text).encode()
    split(text)
    is_within(text, "https://management.azure.com")
    claims_of(text)
    remedy(reason(clean(text)))
    for status in (JobStatus.FAILED, JobStatus.CANCELED, JobStatus.NOT_RESPONDING):
        assert isinstance(failure_of(status, job="j", reason=clean(text), tail="", codes=[text]), AmlTrainError)


class Connection:
    """An HTTP connection to something that answers with given bytes."""

    reply = Reply()

    def __init__(self, *_place: Any, **_options: Any) -> None:
        self.status, self.body = self.reply.status, self.reply.body

    def request(self, *_args: Any, **_options: Any) -> None: ...

    def getresponse(self) -> Connection:
        return self

    def read(self, most: int) -> bytes:
        return self.body[:most]

    def close(self) -> None: ...


def administration(choices: Choices) -> None:
    settings_ = EmulatorSettings()
    Connection.reply = reply_of(choices, as_json(INFO))
    try:
        found = emulator_admin.emulator_info(settings_)
        emulator_admin.healthy(settings_)
    except ServiceError as error:
        str(error).encode()
        return
    assert found is not None
    for item in dataclasses.fields(found):
        assert isinstance(getattr(found, item.name), int if item.name == "port" else str)


READERS: Mapping[str, Callable[[Choices], None]] = {
    "a promotion's record": promotion,
    "a test record": test_record,
    "headers": headers,
    "texts": texts,
    "the local AzureML": administration,
}
test_record.__test__ = False  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", READERS)
def test_arbitrary_contents(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.client, "HTTPConnection", Connection)

    @settings(max_examples=max(1, CASES * 2 // 20 // len(READERS)), phases=PHASES)
    @given(data=st.binary(min_size=DECISIONS, max_size=DECISIONS))
    def case(data: bytes) -> None:
        READERS[name](Choices(data))

    case()


def test_valid_contents_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http.client, "HTTPConnection", Connection)
    assert decode(RECORD, "m").pending == CHANGE
    assert parse_record(RECORD_BLOB).command == "pytest"
    Connection.reply = as_json(INFO)
    found = emulator_admin.emulator_info(EmulatorSettings())
    assert found is not None
    assert found.workspace == "x"


@pytest.mark.parametrize("value", [5, None, [1], {"a": 1}])
@pytest.mark.parametrize("key", ["version", "previous", "at", "actor", "rules"])
def test_a_change_of_wrong_types_is_no_record(key: str, value: object) -> None:
    document = json.loads(RECORD)
    document["history"][0][key] = value
    if (key, value) in (("previous", None), ("rules", None)):
        assert decode(json.dumps(document).encode(), "m").history[0].rules in ((), ("acc",))
        return
    with pytest.raises(ValueError, match=f"`{key}`|lacks {key}|{key}"):
        decode(json.dumps(document).encode(), "m")


@pytest.mark.parametrize(
    "text",
    [
        "Bearer " + "w" * 65536,
        "Bearer " + 'a="' * 21845,
        "Bearer " + "a=" * 32768,
        'Bearer realm="' + "x" * 65536,
        " " * 65536,
        "\u2100" * 65536,
    ],
)
def test_a_challenge_is_read_in_linear_time(text: str) -> None:
    began = time.process_time()
    parse_challenge(text)
    assert time.process_time() - began < 1.0  # seconds; what is quadratic takes 40


@pytest.mark.parametrize(
    "text", [" " * 65536 + "x", "'" * 65536, "eyJ" * 21845, "eyJ" + "a." * 32768, "Trace ID" * 8192]
)
def test_a_refusal_is_read_in_linear_time(text: str) -> None:
    began = time.process_time()
    reason(text)
    assert time.process_time() - began < 1.0
