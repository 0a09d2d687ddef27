"""Breaks requests between the proxy and a service on purpose, while rules say so.

It ends the client's TLS, reads one request, breaks it as the rule says or hands it on over TLS, and closes the
connection: one request on each, so that a fault hits the request that it was drawn for and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, fields
from fnmatch import translate
from http import HTTPStatus
from random import Random
from typing import Any, Literal, get_args
from xml.sax.saxutils import escape

from anyio import BrokenResourceError, DelimiterNotFound, EndOfStream, IncompleteRead, aclose_forcefully, connect_tcp
from anyio.abc import ByteSendStream
from anyio.streams.buffered import BufferedByteReceiveStream

from aml_emulator.network.heads import NO_HEAD, Head, parse_head
from aml_emulator.network.hosts import Destination
from aml_emulator.network.requests_log import RequestLog
from aml_emulator.network.upstream import CONNECT_TIMEOUT_SECONDS, MAX_HEAD_BYTES, Streams, send

Kind = Literal["status", "delay", "truncate", "reset", "outage"]

MAX_DELAY_SECONDS = 600.0


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One fault.

    Attributes:
        kind: ``status``: an error is answered; ``delay``: the right answer, late; ``truncate``: half of the right
            answer's body, then the connection breaks; ``reset``: the connection breaks instead of an answer;
            ``outage``: the host cannot be connected to.
        method, host, path: patterns of the shell (``*``, ``?``, ``[...]``), case does not matter. *path* is compared
            with the path alone and with path and query.
        status: what ``status`` answers.
        code: the error's code; empty is a fitting one.
        retry_after: seconds, for the header; None for no header.
        delay: seconds to wait before anything else.
        after: the request is handed on and takes effect, and only its answer is lost, or late.
        probability: of each request that fits.
        seed: of the draws.
        skip: so many requests that fit are let through first.
        count: at most so many faults; None for no limit.
        seconds: for how long from now; None for as long as it is not removed.
    """

    kind: Kind
    method: str = "*"
    host: str = "*"
    path: str = "*"
    status: int = 503
    code: str = ""
    retry_after: float | None = None
    delay: float = 0.0
    after: bool = False
    probability: float = 1.0
    seed: int = 0
    skip: int = 0
    count: int | None = None
    seconds: float | None = None

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise ValueError(f"kind: one of {', '.join(get_args(Kind))}, not '{self.kind}'")
        if not 400 <= self.status <= 599:
            raise ValueError(f"status: from 400 to 599, not {self.status}")
        if not 0 <= self.probability <= 1:
            raise ValueError(f"probability: from 0 to 1, not {self.probability:g}")
        if not 0 <= self.delay <= MAX_DELAY_SECONDS:
            raise ValueError(f"delay: from 0 to {MAX_DELAY_SECONDS:g} seconds, not {self.delay:g}")
        if self.kind == "delay" and not self.delay:
            raise ValueError("delay: a delay needs its seconds")
        if any(value is not None and value < 0 for value in (self.skip, self.count, self.seconds, self.retry_after)):
            raise ValueError("skip, count, seconds and retry_after: not below 0")
        if self.kind == "outage" and (self.method, self.path) != ("*", "*"):
            raise ValueError("an outage is a host's: it takes no method and no path")

    @classmethod
    def parse(cls, texts: Mapping[str, str]) -> Rule:
        """Return the rule that a query describes, by the names of the attributes.

        Raises:
            ValueError: an unknown name, or a value that is none; the message names it.
        """
        read: dict[str, Callable[[str], Any]] = {
            **{field.name: str for field in fields(cls)},
            **dict.fromkeys(("status", "seed", "skip", "count"), int),
            **dict.fromkeys(("retry_after", "delay", "probability", "seconds"), float),
            "after": _truth,
        }
        if "kind" not in texts:
            raise ValueError(f"kind is missing: one of {', '.join(get_args(Kind))}")
        values: dict[str, Any] = {}
        for name, text in texts.items():
            if name not in read:
                raise ValueError(f"'{name}' is unknown; known: {', '.join(read)}")
            try:
                values[name] = read[name](text)
            except ValueError as error:
                raise ValueError(f"{name}: {error}") from error
        return cls(**values)


def _truth(text: str) -> bool:
    if text not in ("0", "1", "false", "true"):
        raise ValueError(f"true or false, not '{text}'")
    return text in ("1", "true")


class _Active:
    """A rule at work."""

    def __init__(self, rule: Rule, *, number: int, until: float | None) -> None:
        self.rule = rule
        self.number = number
        self.until = until
        self.fitting = 0
        self.injected = 0
        self._patterns = tuple(
            re.compile(translate(text), re.IGNORECASE) for text in (rule.method, rule.host, rule.path)
        )
        self._random = Random(rule.seed)  # noqa: S311 - it must be the same again

    def fits_host(self, host: str) -> bool:
        return self._patterns[1].match(host) is not None

    def fits(self, method: str, host: str, target: str) -> bool:
        if self._patterns[0].match(method) is None or not self.fits_host(host):
            return False
        return (
            self._patterns[2].match(target) is not None
            or self._patterns[2].match(target.partition("?")[0]) is not None
        )

    def draw(self) -> bool:
        """Count one more request that fits, and return whether it gets the fault."""
        self.fitting += 1
        if self.fitting <= self.rule.skip:
            return False
        # Drawn also where the count is used up: the draws follow from the seed and the number alone.
        hit = self._random.random() < self.rule.probability
        if not hit or (self.rule.count is not None and self.injected >= self.rule.count):
            return False
        self.injected += 1
        return True


class Faults:
    """The rules at work. None is, until one is added; none outlives the process.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._active: tuple[_Active, ...] = ()
        self._number = 0
        self._listeners: list[Callable[[], object]] = []

    def __bool__(self) -> bool:
        return bool(self._active)

    def on_change(self, listener: Callable[[], object]) -> None:
        """Have *listener* called, in any thread, after a rule was added or removed."""
        self._listeners.append(listener)

    def add(self, rule: Rule) -> int:
        """Put a rule to work and return its number."""
        with self._lock:
            self._number += 1
            number = self._number
            until = None if rule.seconds is None else self._clock() + rule.seconds
            self._active = (*self._active, _Active(rule, number=number, until=until))
        self._notify()
        return number

    def remove(self, number: int | None = None) -> int:
        """Remove one rule, or all; return how many were removed."""
        with self._lock:
            kept = () if number is None else tuple(one for one in self._active if one.number != number)
            removed = len(self._active) - len(kept)
            self._active = kept
        self._notify()
        return removed

    def choose(self, method: str, host: str, target: str) -> tuple[int, Rule] | None:
        """Return the fault of a request with its rule's number, or None.

        The first rule that hits counts.

        Args:
            host: the host that the request is for.
            target: path and query.
        """
        with self._lock:
            for one in self._current():
                if one.rule.kind != "outage" and one.fits(method, host, target) and one.draw():
                    return one.number, one.rule
        return None

    def outage(self, host: str) -> bool:
        """Return whether the host cannot be connected to now."""
        if not self._active:
            return False
        with self._lock:
            return any(one.rule.kind == "outage" and one.fits_host(host) and one.draw() for one in self._current())

    def listed(self) -> list[dict[str, Any]]:
        """Return the active rules: number, changed fields, and effects so far."""
        with self._lock:
            return [
                {
                    "id": one.number,
                    **{
                        field.name: value
                        for field in fields(Rule)
                        if (value := getattr(one.rule, field.name)) != field.default
                    },
                    "fitting": one.fitting,
                    "injected": one.injected,
                }
                for one in self._current()
            ]

    def _current(self) -> tuple[_Active, ...]:
        """Return the rules whose time is not over, and forget the others."""
        if any(one.until is not None for one in self._active):
            now = self._clock()
            self._active = tuple(one for one in self._active if one.until is None or one.until > now)
        return self._active

    def _notify(self) -> None:
        for listener in self._listeners:
            listener()


logger = logging.getLogger(__name__)

HEAD_TIMEOUT_SECONDS = 75.0
LINGER_SECONDS = 30.0
LINGER_BYTES = 1 << 30
CHUNK_BYTES = 256 * 1024
_INTERRUPTED = (OSError, BrokenResourceError, DelimiterNotFound, IncompleteRead)

CODES = {
    Destination.SERVICE: {429: "TooManyRequests", 500: "InternalServerError", 503: "ServiceUnavailable"},
    Destination.SERVICE_FOR_JOBS: {429: "TooManyRequests", 500: "InternalServerError", 503: "ServiceUnavailable"},
    Destination.BLOB: {429: "ServerBusy", 500: "InternalError", 503: "ServerBusy"},
    Destination.REGISTRY: {429: "TOOMANYREQUESTS", 503: "UNAVAILABLE"},
}
"""The services' own words for a status, where the rule has none."""


class FaultFront:
    """Breaks requests to one service.

    Args:
        destination: which service; it decides how an error looks.
        port: the service's port on 127.0.0.1, with TLS.
        trust: a context that trusts the service's certificate.
        requests: where broken requests are noted.
    """

    def __init__(
        self, destination: Destination, port: int, *, trust: ssl.SSLContext, faults: Faults, requests: RequestLog
    ) -> None:
        self._destination = destination
        self._port = port
        self._trust = trust
        self._faults = faults
        self._requests = requests

    async def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one decrypted connection."""
        try:
            async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
                head = parse_head(await reader.readuntil(b"\r\n\r\n"))
            await self._serve(head, (reader, writer))
        except NO_HEAD as error:
            logger.debug("a connection without a request: %r", error)
        except _INTERRUPTED as error:
            logger.debug("a connection was interrupted: %r", error)
        finally:
            writer.close()

    async def _serve(self, head: Head, client: Streams) -> None:
        host = (head.header("host") or "").partition(":")[0].lower()
        chosen = self._faults.choose(head.method, host, head.target)
        if chosen is None:
            await self._hand_on(head, client)
            return
        number, rule = chosen
        path = head.target.partition("?")[0]
        logger.warning("FAULT %d: %s for %s %s%s", number, _words(rule), head.method, host, path)
        began = time.perf_counter()
        if not (rule.kind == "delay" and rule.after):
            await asyncio.sleep(rule.delay)
        if rule.kind == "delay":
            await self._hand_on(head, client, late=rule.delay if rule.after else 0.0)
            return
        answered = await self._break(rule, head, client)
        took = time.perf_counter() - began
        agent = head.header("user-agent") or ""
        self._requests.add(head.method, host, path, answered, took, client=agent, fault=number)

    async def _break(self, rule: Rule, head: Head, client: Streams) -> int | None:
        """Do to the request what the rule says, and return the status that was answered."""
        if rule.kind == "truncate":
            return await self._truncate(head, client)
        if rule.after:
            await self._take_effect(head, client)
        if rule.kind == "reset":
            client[1].transport.abort()
            return None
        await send(client[1], error_answer(rule, self._destination, with_body=head.method != "HEAD"))
        if not rule.after:
            await linger(client[0])
        return rule.status

    async def _take_effect(self, head: Head, client: Streams) -> None:
        """Hand the request on and read the answer away."""
        async with self._handed_on(head, client) as answer:
            while await _received(answer):
                pass

    async def _hand_on(self, head: Head, client: Streams, *, late: float = 0.0) -> None:
        """Let the request take effect, and delay its answer by *late* seconds."""
        async with self._handed_on(head, client) as answer:
            chunk = await _received(answer)
            await asyncio.sleep(late)
            while chunk:
                await send(client[1], chunk)
                chunk = await _received(answer)

    async def _truncate(self, head: Head, client: Streams) -> int | None:
        """Forward the request, return half of the answer's body, and close."""
        async with self._handed_on(head, client) as answer:
            start = await answer.receive_until(b"\r\n\r\n", MAX_HEAD_BYTES) + b"\r\n\r\n"
            client[1].write(start)
            # Until the end of the connection, which the request asks to close; half of a long body is its first half MB.
            body = await _received(answer)
            await send(client[1], body[: len(body) // 2])
        client[1].close()
        return int(start.split(b" ", 2)[1])

    @contextlib.asynccontextmanager
    async def _handed_on(self, head: Head, client: Streams) -> AsyncIterator[BufferedByteReceiveStream]:
        """Hand a request on as its body arrives; yield the reader of the answer.

        The service's end of TLS is anyio's: uvloop 0.23 loses the last bytes of an answer that a slower client has not
        taken when the service closes the connection.
        """
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            service = await connect_tcp(
                "127.0.0.1", self._port, tls=True, ssl_context=self._trust, tls_standard_compatible=False
            )
        try:
            await service.send(head.encoded(head.target, without=("connection", "keep-alive")))
            sending = asyncio.create_task(_send_on(client[0], service))
            try:
                yield BufferedByteReceiveStream(service)
            finally:
                sending.cancel()
        finally:
            await aclose_forcefully(service)


async def _send_on(reader: asyncio.StreamReader, service: ByteSendStream) -> None:
    with contextlib.suppress(*_INTERRUPTED):
        while data := await reader.read(CHUNK_BYTES):
            await service.send(data)


async def _received(answer: BufferedByteReceiveStream) -> bytes:
    """Return what has arrived of an answer; empty at its end."""
    try:
        return await answer.receive(2 * CHUNK_BYTES)
    except EndOfStream:
        return b""


async def linger(reader: asyncio.StreamReader) -> None:
    """Read the rest of the request: an early close could lose the answer."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LINGER_SECONDS):
            left = LINGER_BYTES
            while left > 0 and (data := await reader.read(CHUNK_BYTES)):
                left -= len(data)


def error_answer(rule: Rule, destination: Destination, *, with_body: bool = True) -> bytes:
    """Return a whole answer with the rule's status, as the service's own errors look."""
    code = rule.code or CODES[destination].get(rule.status) or _phrase(rule.status).replace(" ", "")
    message = "A fault that was put in on purpose: see aml-train emulator fault list."
    headers = {"Content-Type": "application/json; charset=utf-8", "Connection": "close"}
    if destination is Destination.BLOB:
        headers |= {"Content-Type": "application/xml", "x-ms-error-code": code}
        body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{escape(code)}</Code><Message>{message}</Message></Error>'
    elif destination is Destination.REGISTRY:
        body = json.dumps({"errors": [{"code": code, "message": message, "detail": None}]})
    else:
        body = json.dumps({"error": {"code": code, "message": message}, "error_code": code, "message": message})
    headers["Content-Length"] = str(len(body.encode()))
    if rule.retry_after is not None:
        headers["Retry-After"] = f"{rule.retry_after:g}"
    lines = [
        f"HTTP/1.1 {rule.status} {_phrase(rule.status)}",
        *(f"{name}: {value}" for name, value in headers.items()),
        "",
        "",
    ]
    return "\r\n".join(lines).encode("latin-1") + (body.encode() if with_body else b"")


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Fault"


def _words(rule: Rule) -> str:
    what = f"status {rule.status}" if rule.kind == "status" else rule.kind
    return what + (f" after {rule.delay:g} s" if rule.delay else "") + (", when it took effect" if rule.after else "")
