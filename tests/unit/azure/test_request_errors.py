"""What errors say of a request: how long to wait, what support asks for, and what to check if nothing answers."""

from __future__ import annotations

import datetime
import json
from typing import Any

import azure.identity  # noqa: F401 - its import looks for processes, which a test may not
import pytest
import requests

from aml_train.azure.names import WorkspaceId
from aml_train.azure.sign_in import SignIn
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import REACH, Answer, is_within, trace_of
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import exchange
from tests.support.wrong_answers import Answering, Reply, as_json, no_pauses

IDS = {"x-ms-request-id": "r-1", "x-ms-correlation-request-id": "c-2", "Date": "Thu, 01 Jan 2026 00:00:00 GMT"}
NOW = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)


class Signed:
    def get_token(self, *_scopes: str, **_options: Any) -> Any:
        return type("Token", (), {"token": "t"})


def asking(reply: Reply | Exception) -> AzureRest:
    def valid(_request: requests.PreparedRequest) -> Reply:
        if isinstance(reply, Exception):
            raise reply
        return reply

    workspace = WorkspaceId(subscription_id="s", resource_group="g", name="w")
    return AzureRest(workspace, SignIn(Signed(), way="secret"), session=Answering(valid).session())


def test_throttling_names_the_waiting_time_and_the_request() -> None:
    body = json.dumps({"error": {"code": "TooManyRequests", "message": "too many"}}).encode()
    service = asking(Reply(status=429, headers={**IDS, "Retry-After": "17"}, body=body))
    with no_pauses(), pytest.raises(ServiceError) as caught:
        service.find("j")
    assert "too many; it asks to wait 17 seconds" in caught.value.message
    assert (
        "x-ms-request-id r-1, x-ms-correlation-request-id c-2, Thu, 01 Jan 2026 00:00:00 GMT" in caught.value.message
    )
    assert caught.value.retry_after == 17


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        (IDS, "x-ms-request-id r-1, x-ms-correlation-request-id c-2, Thu, 01 Jan 2026 00:00:00 GMT"),
        ({}, "2026-01-02 03:04:05 UTC"),
        ({"x-ms-request-id": "\x1b[31m", "Date": "\x07"}, "2026-01-02 03:04:05 UTC"),
        ({"x-ms-client-request-id": "own"}, "x-ms-client-request-id own, 2026-01-02 03:04:05 UTC"),
    ],
)
def test_what_support_asks_for(headers: dict[str, str], expected: str) -> None:
    assert trace_of(headers, now=NOW) == expected


def test_what_does_not_answer_names_private_endpoint_firewall_and_proxy() -> None:
    with no_pauses(), pytest.raises(ServiceError, match="does not answer: ConnectionError") as caught:
        asking(requests.ConnectionError("refused")).find("j")
    assert caught.value.hint == REACH
    for word in ("private endpoint", "firewall", "HTTPS_PROXY"):
        assert word in REACH


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (b"<html>sign in</html>", "the answer 200 to GET .* is a page of HTML, as a proxy or a firewall sends it"),
        (b'{"properties": 5}', "has in `properties` a number where an object was expected"),
        (b'{"properties": {"status": ["Running"]}}', "has in `properties.status` a list where a text was expected"),
        (
            b'{"properties": {"status": "Running", "tags": {"a": 1}}}',
            "has in `properties.tags.a` a number where a text",
        ),
        (b"[" * 3000 + b"]" * 3000, "is nested too deeply"),
    ],
)
def test_a_wrong_answer_names_its_place_and_not_its_value(body: bytes, expected: str) -> None:
    with no_pauses(), pytest.raises(ServiceError, match=expected) as caught:
        asking(
            Reply(headers={"Content-Type": "application/json", "Content-Length": str(len(body)), **IDS}, body=body)
        ).find("j")
    assert "x-ms-request-id r-1" in caught.value.message


@pytest.mark.parametrize(
    "link", ["https://evil.invalid/x", "https://management.azure.com@evil.invalid/", "https://[", "x"]
)
def test_our_token_goes_to_no_other_host(link: str) -> None:
    service = asking(as_json({"value": [], "nextLink": link}))
    with pytest.raises(ServiceError, match="names a next page that is not at the same host"):
        list(service.items(service.arm("/jobs"), "Listing", params={}))


def test_the_same_next_page_for_ever_is_an_error() -> None:
    service = asking(as_json({"value": [], "nextLink": "https://management.azure.com:443/next"}))
    with pytest.raises(ServiceError, match="names a next page that it has named before"):
        list(service.items(service.arm("/jobs"), "Listing", params={}))


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("https://management.azure.com/x", True),
        ("https://management.azure.com:443/x", True),
        ("https://westeurope.management.azure.com/x", True),
        ("http://management.azure.com/x", False),
        ("https://management.azure.com.evil.invalid/x", False),
        ("https://evilmanagement.azure.com/x", False),
        ("https://management.azure.com:8443/x", False),
    ],
)
def test_what_is_the_same_host(url: str, expected: bool) -> None:
    assert is_within(url, "https://management.azure.com/subscriptions/s") is expected


def test_a_body_has_a_bound() -> None:
    session = Answering(lambda _request: Reply(body=b"x" * 100)).session()
    with pytest.raises(requests.RequestException, match="more than 50 bytes"):
        exchange(session, "GET", "https://x.invalid/", most=50)


@pytest.mark.parametrize(
    ("method", "headers", "body"),
    [
        ("HEAD", {"Content-Encoding": "deflate", "Location": "https://["}, b"3Q\xbf\xd8R\xb7\xf6"),
        ("GET", {"Location": "https://["}, b""),
        ("GET", {"Location": "\xbb"}, b""),
        ("GET", {"Location": "https://a:99999999/"}, b""),
    ],
)
def test_a_redirection_that_cannot_be_followed(method: str, headers: dict[str, str], body: bytes) -> None:
    session = Answering(lambda _request: Reply(status=301, headers=headers, body=body)).session()
    with pytest.raises(requests.RequestException):
        exchange(session, method, "https://x.invalid/")


@pytest.mark.parametrize("value", [2**63, 0.5, "9" * 20, float("nan"), float("inf"), False, {}])
def test_what_is_no_whole_number(value: object) -> None:
    with pytest.raises(ServiceError, match="where a whole number of 64 bits"):
        Answer({"a": value}, ServiceError).whole("a")
