"""The transport of a replay: requests are answered from the bundle in order."""

from __future__ import annotations

import contextlib
import http.client
import io
import json
import re
import socket
import threading
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit
from xml.etree import ElementTree as ET

import urllib3
from urllib3 import exceptions as errors
from urllib3.connectionpool import HTTPConnectionPool

from simulation.incident.interruptions import Interruptions
from simulation.incident.virtual_time import VirtualTime

_ID: Final = re.compile(r"[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}|(?<![0-9a-z])[0-9a-f]{32,64}(?![0-9a-z])", re.I)
_OURS: Final = "00000000-0000-4000-8000-"
#: Parameters that differ in each run: signatures and their times, and the hash of files that are not in the bundle.
_VOLATILE: Final = frozenset(
    {"hash", "sig", "se", "st", "sp", "sv", "sr", "ske", "skt", "sks", "skv", "skoid", "sktid"}
)
#: Methods that may be repeated more often than in the recording: reads.
_READS: Final = frozenset({"GET", "HEAD", "POST"})


class UnknownRequestError(BaseException):
    """A request that the recorded run did not send; no handler catches it."""


class Answers:
    """Answers requests as they were answered in the recording.

    Args:
        exchange: the recorded requests.
        clock: moves to the moment of each answer.
        interruptions: those of the recorded run.
    """

    def __init__(self, exchange: list[dict[str, Any]], clock: VirtualTime, interruptions: Interruptions) -> None:
        self._exchange = exchange
        self._clock = clock
        self._interruptions = interruptions
        self._lock = threading.Lock()
        self._exact: dict[tuple[str, str], list[int]] = {}
        self._wild: dict[tuple[str, str], list[int]] = {}
        #: Requests that are not in the bundle, in order.
        self.unknown: list[str] = []
        for number, one in enumerate(exchange):
            key = one["method"], address_key(one["address"])
            self._exact.setdefault(key, []).append(number)
            self._wild.setdefault((key[0], _ID.sub("*", key[1])), []).append(number)

    @property
    def answered(self) -> int:
        """How many of the recorded requests were sent again."""
        return len(self._interruptions.sent)

    @contextlib.contextmanager
    def in_place(self) -> Iterator[None]:
        """Answer every request of the process during the block: nothing reaches a network."""
        original = HTTPConnectionPool.urlopen

        def urlopen(pool: HTTPConnectionPool, method: str, url: str, *_args: Any, **options: Any) -> Any:
            address = url if "://" in url else f"{pool.scheme}://{pool.host}{url}"
            return self._answer(pool, method.upper(), address, preload=options.get("preload_content", True))

        HTTPConnectionPool.urlopen = urlopen  # type: ignore[method-assign, assignment]
        try:
            yield
        finally:
            HTTPConnectionPool.urlopen = original  # type: ignore[method-assign]

    def _answer(self, pool: HTTPConnectionPool, method: str, address: str, *, preload: bool) -> Any:
        found = self._recorded(method, unquote(address))
        number, again = self._next(method, found)
        self._interruptions.before_request(number, again=again)
        number = None if self._interruptions.over else self._take(method, found)
        if number is None:
            what = f"{method} {unquote(address).partition('?')[0]}"
            if not self._interruptions.hold():
                self.unknown.append(what)
            raise UnknownRequestError(what)
        one = self._exchange[number]
        self._clock.reach(one["ended"])
        if "KeyboardInterrupt" in one["error"]:
            self._interruptions.interrupt()
        if one["status"] is None:
            raise error_of(one["error"], pool, address)
        body = self._body(one)
        headers = {name: value for name, value in one["headers"].items() if name != "content-length"}
        stream: io.BytesIO = _CutOff(body) if one["error"] else io.BytesIO(body)
        self._interruptions.after_answer()
        return urllib3.HTTPResponse(
            body=stream,
            headers=headers,
            status=one["status"],
            reason=http.client.responses.get(one["status"], ""),
            preload_content=preload,
            request_method=method,
            request_url=address,
        )

    def _recorded(self, method: str, address: str) -> list[int]:
        """Return the recorded requests of the key, in order."""
        key = method, address_key(address)
        fresh = any(not match[0].startswith(_OURS) for match in _ID.finditer(key[1]))
        return self._exact.get(key) or (self._wild.get((method, _ID.sub("*", key[1])), []) if fresh else [])

    def _next(self, method: str, found: list[int]) -> tuple[int | None, bool]:
        """Return the first of *found* that was not sent yet, or the last read again.

        Returns:
            its number, None if there is none, and whether it is sent again.
        """
        left = next((number for number in found if number not in self._interruptions.sent), None)
        if left is None and found and method in _READS:
            return found[-1], True
        return left, False

    def _take(self, method: str, found: list[int]) -> int | None:
        """Return the same, and note that it is sent."""
        with self._lock:
            number, _ = self._next(method, found)
            if number is not None:
                self._interruptions.sent.add(number)
        return number

    def _body(self, one: dict[str, Any]) -> bytes:
        body = one.get("body") or {}
        if "same" in body:
            body = self._exchange[int(body["same"])].get("body") or {}
        if "json" in body:
            return json.dumps(body["json"]).encode()
        if "xml" in body:
            written: bytes = ET.tostring(_element(body["xml"]), encoding="utf-8", xml_declaration=True)
            return written
        return filler(int(body.get("bytes", 0)), int(body.get("lines", 0)))


def address_key(address: str) -> str:
    """Return an address without what differs in each run."""
    parts = urlsplit(address)
    query = sorted((name, value) for name, value in parse_qsl(parts.query) if name.lower() not in _VOLATILE)
    return f"{parts.hostname}{parts.path.rstrip('/')}?{query}"


def filler(length: int, lines: int) -> bytes:
    """Return a text of *length* bytes and so many lines."""
    if length <= 0:
        return b""
    count = min(lines, length)
    ends = {length - 1 - number * (length // count) for number in range(count)}
    return bytes(10 if number in ends else 46 for number in range(length))


def _element(value: list[Any]) -> ET.Element:
    name, attributes, text, children = value
    made = ET.Element(name, attributes)
    made.text = text
    made.extend(_element(child) for child in children)
    return made


class _CutOff(io.BytesIO):
    """A body that was cut off: the connection breaks at its end."""

    def read(self, size: int | None = -1, /) -> bytes:
        data = super().read(size)
        if not data:
            raise http.client.IncompleteRead(b"")
        return data


def error_of(names: list[str], pool: HTTPConnectionPool, url: str) -> Exception:
    """Return an error of urllib3 as it was recorded by the names of its classes."""
    text = "as recorded"
    inner = names[-1] if names else ""
    made: Exception
    match inner:
        case "NewConnectionError":
            made = errors.NewConnectionError(pool, text)  # type: ignore[arg-type]
        case "NameResolutionError":
            made = errors.NameResolutionError(str(pool.host), pool, socket.gaierror(text))  # type: ignore[arg-type]
        case "ConnectTimeoutError":
            made = errors.ConnectTimeoutError(pool, text)
        case "ReadTimeoutError":
            made = errors.ReadTimeoutError(pool, url, text)
        case "SSLError":
            made = errors.SSLError(text)
        case "ProxyError":
            made = errors.ProxyError(text, OSError(text))
        case _:
            made = errors.ProtocolError(text)
    return errors.MaxRetryError(pool, url, made) if names[:1] == ["MaxRetryError"] else made
