"""The answers of the local AzureML have the shapes of recorded ones of Azure."""

from __future__ import annotations

import json
from collections.abc import Iterator
from fnmatch import fnmatchcase
from typing import Any

import pytest

from tests.contracts import recorded
from tests.contracts.recorded.facts import Exchange
from tests.contracts.recorded.replay import Answer, Replayer, differing
from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import IDENTITY, WS, Service

REASONS = recorded.differences()
CASES = [
    (family, number, one) for family in recorded.FAMILIES for number, one in enumerate(recorded.exchanges(family))
]


def _finish(service: Service, name: str) -> None:
    service.store.runs.finish(name, "Canceled")


@pytest.fixture(scope="module")
def replayer() -> Iterator[Replayer]:
    service = Service(blobs=StoredBlobs())

    def send(method: str, host: str, path: str, body: Any) -> Answer:
        answer = service.call(method, path, body, host=host)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        return Answer(status=answer.status, headers=headers, body=json.loads(answer.body) if answer.body else None)

    made = Replayer(
        send=send,
        workspace=WS,
        location=IDENTITY.location,
        api_host=IDENTITY.api_host,
        blobs=f"https://{IDENTITY.blob_host}/{IDENTITY.blob_container}",
        account=IDENTITY.storage_account,
        container=IDENTITY.blob_container,
        compute=IDENTITY.compute,
    )
    made.finish = lambda name: _finish(service, name)  # type: ignore[method-assign]
    made.prepare()
    yield made
    service.close()


@pytest.mark.parametrize(("family", "number", "exchange"), CASES, ids=[f"{f}-{n}" for f, n, _ in CASES])
def test_an_answer_has_the_recorded_shape(replayer: Replayer, family: str, number: int, exchange: Exchange) -> None:
    if REASONS.refuse(exchange):
        return
    assert differing(replayer, exchange, REASONS) == {}, f"{exchange.operation} {exchange.status}, {exchange.source}"


def test_there_are_enough_exchanges() -> None:
    held = [one for _, _, one in CASES if not REASONS.refuse(one)]
    assert len(CASES) >= 300
    assert len(held) >= 250


def test_every_reason_is_needed() -> None:
    operations = {one.operation for _, _, one in CASES}
    unused = [pattern for pattern in REASONS.answers if not any(fnmatchcase(one, pattern) for one in operations)]
    assert unused == []
    left = [one for one in REASONS.refused if not any(REASONS.refuse(case) == one["reason"] for _, _, case in CASES)]
    assert left == []


@pytest.mark.parametrize(
    ("shape", "value", "place"),
    [
        ({"a": "text"}, {}, ".a"),
        ({"a": "number"}, {"a": True}, ".a"),
        ({"a": "null"}, {"a": {}}, ".a"),
        ({"a": {"b": "time"}}, {"a": {"b": "soon"}}, ".a.b"),
        ({"status": "=Starting"}, {"status": "Queued"}, ".status"),
        ({"value": [{"a": "guid", "c": "text"}, {"b": "flag"}]}, {"value": [{"b": "no"}]}, ".value[].b"),
        ({"id": "arm:jobs"}, {"id": "jobs/x"}, ".id"),
    ],
)
def test_a_difference_is_found(shape: object, value: object, place: str) -> None:
    assert [at for at, _ in recorded.deviations(shape, value)] == [place]


def test_names_of_users_are_no_facts() -> None:
    shape = {"properties": {"properties": {"aa": "text"}, "tags": {"aa": "text"}, "inputs": {"aa": "object"}}}
    given: dict[str, object] = {"properties": {"properties": {}, "tags": {}, "inputs": {}}}
    assert [at for at, _ in recorded.deviations(shape, given)] == [".properties.inputs.aa"]
