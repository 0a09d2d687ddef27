"""Which requests get a fault, and how an error that was put in looks."""

from __future__ import annotations

import json

import pytest

from aml_emulator.network.fault_injection import Faults, Rule, error_answer
from aml_emulator.network.hosts import Destination
from aml_emulator.network.requests_log import KEPT_REQUESTS, RequestLog
from tests.unit.emulator.parts import Clock

HOST = "management.azure.com"


def _hits(rule: Rule, requests: int) -> list[int]:
    faults = Faults(clock=Clock())
    faults.add(rule)
    return [number for number in range(requests) if faults.choose("GET", HOST, "/a") is not None]


def test_the_same_seed_hits_the_same_requests() -> None:
    rule = Rule(kind="reset", probability=0.1, seed=7)
    hits = _hits(rule, 2000)
    assert hits == _hits(rule, 2000)
    assert 150 < len(hits) < 250
    assert hits != _hits(Rule(kind="reset", probability=0.1, seed=8), 2000)
    assert _hits(Rule(kind="reset", probability=0.1, seed=7, count=5), 2000) == hits[:5]


@pytest.mark.parametrize(
    ("pattern", "fits"),
    [
        ({"method": "put"}, False),
        ({"method": "get"}, True),
        ({"host": "*.blob.core.windows.net"}, False),
        ({"host": "management.*"}, True),
        ({"path": "*/JOBS/*"}, True),
        ({"path": "*/jobs"}, False),
        ({"path": "*api-version=2024*"}, True),
    ],
)
def test_patterns(pattern: dict[str, str], fits: bool) -> None:
    faults = Faults(clock=Clock())
    faults.add(Rule(kind="reset", **pattern))  # type: ignore[arg-type]
    assert (faults.choose("GET", HOST, "/x/jobs/y?api-version=2024-01-01") is not None) == fits


def test_a_fault_ends_with_its_time_and_by_its_number() -> None:
    clock = Clock()
    faults = Faults(clock=clock)
    first, second = faults.add(Rule(kind="reset", seconds=5)), faults.add(Rule(kind="status", status=429))
    chosen = faults.choose("GET", HOST, "/")
    assert chosen is not None
    assert chosen[0] == first
    clock.now += 6
    chosen = faults.choose("GET", HOST, "/")
    assert chosen is not None
    assert chosen[0] == second
    assert faults.listed() == [{"id": 2, "kind": "status", "status": 429, "fitting": 1, "injected": 1}]
    assert faults.remove(second) == 1
    assert not faults


@pytest.mark.parametrize(
    ("texts", "words"),
    [
        ({}, "kind is missing"),
        ({"kind": "explode"}, "kind: one of status, delay"),
        ({"kind": "status", "status": "200"}, "status: from 400 to 599, not 200"),
        ({"kind": "status", "status": "many"}, "status: invalid literal"),
        ({"kind": "delay"}, "a delay needs its seconds"),
        ({"kind": "reset", "probability": "2"}, "probability: from 0 to 1"),
        ({"kind": "reset", "after": "maybe"}, "after: true or false"),
        ({"kind": "reset", "colour": "red"}, "'colour' is unknown"),
        ({"kind": "outage", "path": "/x"}, "takes no method and no path"),
        ({"kind": "reset", "count": "-1"}, "not below 0"),
    ],
)
def test_what_is_no_rule_is_told(texts: dict[str, str], words: str) -> None:
    with pytest.raises(ValueError, match=words.replace("(", r"\(")):
        Rule.parse(texts)


@pytest.mark.parametrize(
    ("destination", "words"),
    [
        (Destination.SERVICE, b'{"error": {"code": "TooManyRequests"'),
        (Destination.BLOB, b"<Error><Code>ServerBusy</Code>"),
        (Destination.REGISTRY, b'{"errors": [{"code": "TOOMANYREQUESTS"'),
    ],
)
def test_an_error_has_the_shape_of_the_service(destination: Destination, words: bytes) -> None:
    head, _, body = error_answer(Rule(kind="status", status=429, retry_after=2), destination).partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 429 Too Many Requests\r\n")
    assert b"\r\nRetry-After: 2" in head
    assert f"\r\nContent-Length: {len(body)}".encode() in head
    assert words in body
    assert error_answer(Rule(kind="status", status=499), destination).startswith(b"HTTP/1.1 499 Fault\r\n")


def test_the_log_of_requests_is_bounded_and_keeps_no_query() -> None:
    log = RequestLog(clock=Clock())
    for number in range(KEPT_REQUESTS + 10):
        log.add("GET", HOST, f"/{number}?sig=secret", 200, 0.0015, client="x" * 500)
    kept = log.since()
    assert (len(kept), kept[0]["number"], log.total) == (KEPT_REQUESTS, 11, KEPT_REQUESTS + 10)
    assert "secret" not in json.dumps(kept)
    assert [entry["path"] for entry in log.since(KEPT_REQUESTS + 8)] == ["/1008", "/1009"]
    assert (kept[0]["ms"], len(kept[0]["client"])) == (1.5, 120)
