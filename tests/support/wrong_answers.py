"""Wrong answers of services: made of valid ones by mutation, and arbitrary ones; and a transport that gives them.

Everything follows from bytes that hypothesis draws, one for each decision. Zeros mean valid answers.
"""

from __future__ import annotations

import copy
import io
import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final, TypeVar

import requests
import stamina
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from requests.adapters import BaseAdapter
from urllib3 import HTTPResponse

from aml_train.core.errors import AmlTrainError

#: How many cases all modules together try. `make test-all` tries 10,000, and the nightly session a million.
CASES: Final = int(os.environ.get("AML_TRAIN_ANSWERS", "600"))
#: Decisions for one case, and requests that one case may send: more means that it does not end.
DECISIONS: Final = 96
MOST_REQUESTS: Final = 400
#: Without shrinking, which can take minutes: the answers that led to a failure are shown with it.
PHASES: Final = (Phase.explicit, Phase.generate)
_Item = TypeVar("_Item")


class Choices:
    """Decisions by *data*; the first of everything where that has ended."""

    def __init__(self, data: bytes) -> None:
        self._data = iter(data)

    def below(self, count: int) -> int:
        return next(self._data, 0) % count

    def pick(self, items: Sequence[_Item]) -> _Item:
        return items[self.below(len(items))]


URLS: Final = (
    "https://management.azure.com/subscriptions/s",
    "https://evil.invalid/x",
    "https://[",
    "http://a:99999999/",
    "//evil.invalid/x",
    "?x",
    "",
    "https://management.azure.com@evil.invalid/",
    "https://a\u2100.invalid/",
    "\x00\x01",
    "https://ä.invalid/\ud800",
)
TEXTS: Final = (
    "x",
    "\ud800",
    "\x00",
    "\x1b[31m",
    "NaN",
    "9" * 50,
    "-1",
    "../..",
    "é" * 300,
    "Completed",
    "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00",
    "PT" + "9" * 400 + "S",
    "exited with code " + "9" * 5000,
    "sha256:" + "a" * 64,
    *URLS,
)
NUMBERS: Final = (0, 1, -1, 2**63, 10**400, 1e308, float("nan"), float("inf"), 0.5, True, False)
KEYS: Final = ("name", "value", "properties", "error", "message", "tags", "status", "\ud800", "", "errors", "id")
BODIES: Final = (
    b"",
    b"<!DOCTYPE html><html><body>Sign in</body></html>",
    b"null",
    b"[]",
    b"\xff\xfe\x00",
    b"{",
    b'{"error": null, "message": 5}',
    b'{"a": ' + b"9" * 5000 + b"}",
    "{}".encode("utf-16"),
    b'\xef\xbb\xbf{"a": 1}',
    b'{"value": [{}], "nextLink": 5}',
    b'{"properties":' * 3000 + b"1" + b"}" * 3000,
)
STATUSES: Final = (
    *(200, 200, 200, 200, 201, 202, 204, 206, 226, 301, 302, 303, 307, 308, 400, 401, 401, 403, 404, 405, 408, 409),
    *(410, 412, 416, 418, 429, 429, 500, 501, 502, 503, 504, 511, 599, 999),
)
HEADERS: Final[Mapping[str, Sequence[str]]] = {
    "Content-Type": ("application/json", "text/html", "application/json; charset=\xff"),
    "Location": URLS,
    "Link": ('</v2/r/tags/list?last=a>; rel="next"', '<https://[>; rel="next"', '<>; rel="next"', "," * 50),
    "Retry-After": ("1", "86400", "9" * 400, "Fri, 31 Dec 9999999 23:59:59 GMT", "-5", "1e400", "\u0663"),
    "Date": ("Fri, 31 Dec 9999999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 +9959", "x"),
    "WWW-Authenticate": (
        'Bearer realm="https://auth.invalid/token",service="s"',
        'Bearer realm="https://["',
        'Bearer realm="https://auth.invalid:99999999/"',
        "Bearer",
        'Basic realm="' + 'a="' * 50,
    ),
    "Docker-Content-Digest": ("sha256:" + "a" * 64, "sha256:x", "", "\u2100"),
    "Content-Range": ("bytes */" + "9" * 5000, "x/y", "bytes 0-1/-5"),
    "Content-Length": ("0", "x", "-1", "9" * 30),
    "Transfer-Encoding": ("chunked", "x"),
    "Content-Encoding": ("gzip", "deflate", "br", "x"),
    "x-ms-creation-time": ("a", "b"),
    "x-ms-request-id": ("5d2c", "\x1b]0;x\x07", "x" * 1000),
}


def value_of(choices: Choices, depth: int = 3) -> Any:
    """Return some JSON value."""
    match choices.below(8 if depth else 6):
        case 0:
            return None
        case 1 | 2:
            return choices.pick(TEXTS)
        case 3:
            return choices.pick(NUMBERS)
        case 4:
            return {}
        case 5:
            return []
        case 6:
            return {choices.pick(KEYS): value_of(choices, depth - 1) for _ in range(choices.below(4))}
        case _:
            return [value_of(choices, depth - 1) for _ in range(choices.below(4))]


def mutated(choices: Choices, document: Any) -> Any:
    """Return a valid document with some of its values replaced, removed or wrapped."""
    document = copy.deepcopy(document)
    for _ in range(1 + choices.below(3)):
        places = list(_places(document))
        if not places:
            return value_of(choices)
        holder, key = choices.pick(places)
        match choices.below(6):
            case 0 | 1 | 2:
                holder[key] = value_of(choices)
            case 3:
                holder[key] = [holder[key]]
            case 4:
                holder[key] = {"value": holder[key]}
            case _:
                del holder[key]
    return document


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    members = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, member in list(members):
        yield value, key
        yield from _places(member)


@dataclass(frozen=True, kw_only=True)
class Reply:
    """What a service answers."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


def as_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Reply:
    """Return JSON."""
    told = {"Content-Type": "application/json", **(headers or {})}
    return Reply(status=status, headers=told, body=json.dumps(value).encode())


def reply_of(choices: Choices, valid: Reply) -> Reply:
    """Return the valid answer, a mutation of it, or anything."""
    way = choices.below(12)
    if way < 4:
        return valid
    headers = dict(valid.headers)
    for _ in range(choices.below(4)):
        name = choices.pick(tuple(HEADERS))
        headers[name] = choices.pick(HEADERS[name])
    if way < 8 and valid.headers.get("Content-Type") == "application/json":
        document = mutated(choices, json.loads(valid.body))
        return Reply(status=valid.status, headers=headers, body=json.dumps(document).encode())
    if way == 8:
        return Reply(status=valid.status, headers=headers, body=valid.body)
    status = choices.pick(STATUSES) if way < 11 else valid.status
    match choices.below(4):
        case 0:
            body = json.dumps(value_of(choices)).encode()
        case 1:
            body = choices.pick(BODIES)
        case 2:
            body = valid.body[: choices.below(256)]
        case _:
            body = bytes(choices.below(256) for _ in range(choices.below(40)))
    return Reply(status=status, headers=headers, body=body)


class Answering(BaseAdapter):
    """A transport that answers each request as *choices* decide, starting from what *valid* answers to it.

    A case that sends too many requests does not end; it fails.
    """

    def __init__(self, valid: Callable[[requests.PreparedRequest], Reply]) -> None:
        super().__init__()
        self.valid = valid
        self.choices = Choices(b"")
        self.sent = 0
        self.seen: list[tuple[str, Reply]] = []

    def begin(self, data: bytes) -> None:
        """Start another case."""
        self.choices, self.sent, self.seen = Choices(data), 0, []

    def send(self, request: requests.PreparedRequest, *_rest: Any, **_options: Any) -> requests.Response:
        self.sent += 1
        assert self.sent < MOST_REQUESTS, "it does not end"
        if self.choices.below(16) == 15:
            raise self.choices.pick((requests.ConnectionError("reset"), requests.ReadTimeout("slow")))
        reply = reply_of(self.choices, self.valid(request))
        self.seen.append((f"{request.method} {request.url}", reply))
        response = requests.Response()
        response.request, response.url, response.status_code = request, str(request.url), reply.status
        response.headers.update(reply.headers)
        response.encoding = requests.utils.get_encoding_from_headers(response.headers)
        raw = HTTPResponse(
            io.BytesIO(reply.body),
            headers=reply.headers,
            status=reply.status,
            preload_content=False,
            reason="R",
            request_method=request.method,
        )
        response.raw, response.reason = raw, "R"
        return response

    def close(self) -> None:
        return

    def session(self) -> requests.Session:
        """Return a session that this answers."""
        session = requests.Session()
        session.trust_env = False
        session.mount("https://", self)
        session.mount("http://", self)
        return session


@contextmanager
def no_pauses(attempts: int = 2) -> Iterator[None]:
    """Repeat at once, and less often."""
    with stamina.set_testing(True, attempts=attempts):
        yield


def tries(
    answering: Answering, operation: Callable[[], object], *, count: int, allowed: tuple[type[Exception], ...] = ()
) -> None:
    """Let *operation* meet so many sequences of answers; only our own errors may come out.

    Args:
        answering: the transport that it uses.
        operation: uses everything that it gets.
        count: how many.
        allowed: other errors that are promised.
    """

    promised: tuple[type[Exception], ...] = (AmlTrainError, *allowed)

    @settings(max_examples=count, phases=PHASES)
    @given(data=st.binary(min_size=DECISIONS, max_size=DECISIONS))
    def case(data: bytes) -> None:
        answering.begin(data)
        try:
            operation()
        except promised as error:
            # What is shown must be text that any terminal can be sent.
            str(error).encode("utf-8")
        except Exception as error:
            error.add_note("\n".join(f"{asked} → {reply}"[:400] for asked, reply in answering.seen[-8:]))
            raise
        finally:
            # Also where what is tried takes the failure of a request for an answer.
            assert answering.sent < MOST_REQUESTS, "it does not end"

    with no_pauses():
        case()
