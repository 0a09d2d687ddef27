"""What stands between the proxy and a service while faults are put in on purpose, and only then.

It ends the client's TLS, reads one request, breaks it as the rule says or hands it on over TLS, and closes the
connection: one request on each, so that a fault hits the request that it was drawn for and no other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import ssl
import time
from http import HTTPStatus
from xml.sax.saxutils import escape

from aml_emulator.network.faults import Faults, Rule
from aml_emulator.network.hosts import Destination
from aml_emulator.network.proxy import BadHeadError, Head, join, parse_head
from aml_emulator.network.requests_log import RequestLog
from aml_emulator.network.upstream import CONNECT_TIMEOUT_SECONDS, MAX_HEAD_BYTES, Streams

logger = logging.getLogger(__name__)

HEAD_TIMEOUT_SECONDS = 75.0
LINGER_SECONDS = 30.0
CHUNK_BYTES = 256 * 1024

CODES = {
    Destination.SERVICE: {429: "TooManyRequests", 500: "InternalServerError", 503: "ServiceUnavailable"},
    Destination.SERVICE_FOR_JOBS: {429: "TooManyRequests", 500: "InternalServerError", 503: "ServiceUnavailable"},
    Destination.BLOB: {429: "ServerBusy", 500: "InternalError", 503: "ServerBusy"},
    Destination.REGISTRY: {429: "TOOMANYREQUESTS", 503: "UNAVAILABLE"},
}
"""The services' own words for a status, where the rule has none."""


class FaultFront:
    """Stands in front of one service.

    Args:
        destination: which service; it decides how an error looks.
        port: the service's port on 127.0.0.1, with TLS.
        trust: a context that trusts the service's certificate.
        faults: the rules.
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
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadHeadError) as error:
            logger.debug("a connection without a request: %r", error)
        except OSError as error:
            logger.debug("a connection broke off: %s", error)
        finally:
            writer.close()

    async def _serve(self, head: Head, client: Streams) -> None:
        headers = {name.lower(): value for name, value in head.headers}
        host = headers.get("host", "").partition(":")[0].lower()
        chosen = self._faults.choose(head.method, host, head.target)
        if chosen is None:
            await join(client, await self._forward(head))
            return
        number, rule = chosen
        path = head.target.partition("?")[0]
        logger.warning("FAULT %d: %s for %s %s%s", number, _words(rule), head.method, host, path)
        began = time.perf_counter()
        if rule.kind == "delay" and rule.after:
            await self._answer_late(rule.delay, head, client)
            return
        await asyncio.sleep(rule.delay)
        if rule.kind == "delay":
            await join(client, await self._forward(head))
            return
        answered = await self._break(rule, head, client)
        took = time.perf_counter() - began
        agent = headers.get("user-agent", "")
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
        client[1].write(error_answer(rule, self._destination, with_body=head.method != "HEAD"))
        await client[1].drain()
        if not rule.after:
            await linger(client[0])
        return rule.status

    async def _take_effect(self, head: Head, client: Streams) -> None:
        """Hand the request on and read the answer away."""
        upstream = await self._forward(head)
        sending = asyncio.create_task(_send_on(client[0], upstream[1]))
        try:
            while await upstream[0].read(CHUNK_BYTES):
                pass
        finally:
            sending.cancel()
            upstream[1].close()

    async def _answer_late(self, delay: float, head: Head, client: Streams) -> None:
        """Let the request take effect, and give its answer *delay* seconds after it was ready."""
        upstream = await self._forward(head)
        sending = asyncio.create_task(_send_on(client[0], upstream[1]))
        try:
            chunk = await upstream[0].readuntil(b"\r\n\r\n")
            await asyncio.sleep(delay)
            while chunk:
                client[1].write(chunk)
                await client[1].drain()
                chunk = await upstream[0].read(CHUNK_BYTES)
        finally:
            sending.cancel()
            upstream[1].close()

    async def _truncate(self, head: Head, client: Streams) -> int | None:
        """Hand the request on, give back the head of the answer and half of its body, and break off."""
        upstream = await self._forward(head)
        sending = asyncio.create_task(_send_on(client[0], upstream[1]))
        try:
            answer = await upstream[0].readuntil(b"\r\n\r\n")
            client[1].write(answer)
            # Until the end of the connection, for it is asked to be closed; half of a long body is its first half MB.
            body = await upstream[0].read(2 * CHUNK_BYTES)
            client[1].write(body[: len(body) // 2])
            await client[1].drain()
            return int(answer.split(b" ", 2)[1])
        finally:
            sending.cancel()
            upstream[1].close()
            client[1].close()

    async def _forward(self, head: Head) -> Streams:
        """Return a connection to the service, on which the request's head was sent."""
        async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
            streams = await asyncio.open_connection(
                "127.0.0.1", self._port, ssl=self._trust, server_hostname="127.0.0.1", limit=MAX_HEAD_BYTES
            )
        lines = [f"{head.method} {head.target} HTTP/1.1"]
        lines += [
            f"{name}: {value}" for name, value in head.headers if name.lower() not in ("connection", "keep-alive")
        ]
        streams[1].write("\r\n".join([*lines, "Connection: close", "", ""]).encode("latin-1"))
        return streams


async def _send_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(CHUNK_BYTES):
            writer.write(data)
            await writer.drain()


async def linger(reader: asyncio.StreamReader) -> None:
    """Read away what the client still sends: closing at once could lose the answer on its way to the client."""
    with contextlib.suppress(TimeoutError, OSError):
        async with asyncio.timeout(LINGER_SECONDS):
            while await reader.read(CHUNK_BYTES):
                pass


def error_answer(rule: Rule, destination: Destination, *, with_body: bool = True) -> bytes:
    """Return a whole answer with the rule's status, in the shape of the service's own errors."""
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
