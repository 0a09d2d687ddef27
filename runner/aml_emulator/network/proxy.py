"""The port of clients and jobs: a proxy in place of Azure's hosts, and admin.

``CONNECT host:443`` ends at the service, at Blob storage or at the registry, is refused, or continues outside; a
plain ``GET http://...`` continues or is refused; any other request is for the admin interface. Jobs, and all other
containers, have the proxy and ``/_emulator/health`` alone; a connection's address shows whose it is.

Programs that know no proxy, such as azureml-dataprep's native engine, reach the same hosts by TLS: on a job's network their
names are the emulator's.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from typing import Any, Final

from aml_emulator.network.heads import NO_HEAD, Connections, Head, address_of, is_foreign, parse_head, read_target
from aml_emulator.network.hosts import Decision, Destination, InwardError
from aml_emulator.network.upstream import MAX_HEAD_BYTES, Streams, Upstream, connect, send

MAX_HELLO_BYTES: Final = 64 * 1024
"""Longer than any client's first message, post-quantum keys included."""

UNRECOGNIZED_NAME: Final = bytes((21, 3, 3, 0, 2, 2, 112))
"""The alert of a server that is not the named one: https://www.rfc-editor.org/rfc/rfc6066#section-3."""


class NoHelloError(ValueError):
    """Bytes that are not the first message of a TLS client."""


def server_name(data: bytes) -> str | None:
    """Return the name that a client asks for; empty if it names none.

    None if *data* is only the beginning of its message.

    OpenSSL reads the message: this end of the handshake stops where it would choose a certificate.

    Raises:
        NoHelloError: *data* is something else, or has more than MAX_HELLO_BYTES.
    """
    found: list[str] = []

    def named(_connection: Any, name: str | None, _context: ssl.SSLContext) -> int:
        found.append(name or "")
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.sni_callback = named
    incoming = ssl.MemoryBIO()
    incoming.write(data)
    handshake = context.wrap_bio(incoming, ssl.MemoryBIO(), server_side=True)
    try:
        handshake.do_handshake()
    except ssl.SSLWantReadError:
        if len(data) > MAX_HELLO_BYTES:
            raise NoHelloError("the first message does not end") from None
        return None
    except ssl.SSLError as error:
        if not found:
            raise NoHelloError("not the first message of a TLS client") from error
    return found[0]


logger = logging.getLogger(__name__)

HEAD_TIMEOUT_SECONDS = 30.0
CHUNK_BYTES = 256 * 1024
ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
TLS_PORT = 443
HTTP_PORT = 80
HOP_HEADERS = frozenset({"proxy-connection", "proxy-authorization", "connection", "keep-alive"})

Admin = Callable[[str, str], Awaitable[tuple[int, bytes]]]
"""Answers an admin request: from method and target (path and query) to status and JSON."""

HEALTH = ("GET", "/_emulator/health")
"""The one request of the admin interface that a job may send."""

PAGE_PATH = "/ui/"
"""The prefix of the page's addresses."""


Page = Callable[[Head, asyncio.StreamWriter], Awaitable[None]]
"""Answers a browser's request on its connection."""


_Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]]


class Proxy:
    """Serves the port.

    Args:
        decide: where a host's requests go.
        port_of: the port on 127.0.0.1 at which an inward destination listens, asked for each connection.
        admin: answers requests that are for the emulator itself.
        down: whether a host cannot be connected to, on purpose.
        page: answers browsers, whose requests are for the page; it refuses by itself what it is not for.
        is_host: whether connections from an address are the host's; all others count as a job's.
    """

    def __init__(
        self,
        *,
        decide: Callable[[str], Decision],
        port_of: Callable[[Destination], int],
        upstream: Upstream,
        admin: Admin,
        down: Callable[[str], bool] = lambda _host: False,
        page: Page,
        is_host: Callable[[str], bool] = lambda _address: True,
    ) -> None:
        self._decide = decide
        self._port_of = port_of
        self._down = down
        self._upstream = upstream
        self._admin = admin
        self._page = page
        self._is_host = is_host
        self._connections = Connections()
        self._tunnels: dict[asyncio.Task[None], asyncio.StreamWriter] = {}

    async def serve_on(self, listener: socket.socket) -> asyncio.Server:
        """Accept connections on a listening socket, and return the server."""
        return await asyncio.start_server(partial(self._accept, self._request), sock=listener, limit=MAX_HEAD_BYTES)

    async def serve_tls_on(self, listener: socket.socket) -> asyncio.Server:
        """Accept jobs' connections by TLS to the hosts themselves, and return the server."""
        return await asyncio.start_server(partial(self._accept, self._direct), sock=listener)

    async def close(self) -> None:
        """Interrupt every connection."""
        await self._connections.close()

    def break_off(self) -> None:
        """End every tunnel, so that its client connects again under the changed rules.

        The clients' connections are closed before the loop runs later tasks, such as the answer to the client that
        made the change: else that one could still send a request over a connection that is about to end.
        """
        for task, writer in tuple(self._tunnels.items()):
            writer.transport.abort()
            task.cancel()

    async def _accept(self, handle: _Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._connections.hold(self._serve(handle, reader, writer))

    async def _serve(self, handle: _Handler, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await handle(reader, writer)
        except (*NO_HEAD, NoHelloError) as error:
            logger.debug("a connection without a request: %r", error)
        finally:
            await _close(writer)

    async def _request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
            head = parse_head(await reader.readuntil(b"\r\n\r\n"))
        await self._handle(head, reader, writer)

    async def _direct(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Join a job with the host that its TLS asks for."""
        hello = b""
        async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
            while (host := server_name(hello)) is None:
                more = await reader.read(CHUNK_BYTES)
                if not more:
                    return
                hello += more
        destination = self._decide(host).destination
        from_job = not self._is_host(address_of(writer, "peername"))
        if not from_job or destination in (Destination.REFUSED, Destination.ONWARD):
            logger.warning("REFUSED: a connection by TLS to %s", host or "a host without a name")
            await send(writer, UNRECOGNIZED_NAME)
        elif self._down(host):
            _abort(writer, host)
        else:
            server = await connect("127.0.0.1", self._port_of(_door(destination, from_job=from_job)))
            server[1].write(hello)
            await self._join((reader, writer), server)

    async def _handle(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_job = not self._is_host(address_of(writer, "peername"))
        if head.method == "CONNECT":
            await self._connect(head, reader, writer, from_job=from_job)
        elif from_job and head.target.startswith("/") and (head.method, head.target) != HEALTH:
            await refuse(writer, "jobs reach the services that Azure has, and not the local AzureML's own interface")
        elif is_for_people(head.target):
            await self._page(head, writer)
        elif head.target.startswith("/"):
            if not from_job and is_foreign(head, names=(address_of(writer, "sockname"),)):
                await refuse(
                    writer, "the request is a web page's, or its Host is neither a loopback name nor this address"
                )
                return
            status, body = await self._admin(head.method, head.target)
            await _answer(writer, status, "application/json", body)
        else:
            await self._forward(head, reader, writer)

    async def _connect(
        self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, from_job: bool
    ) -> None:
        target = read_target(f"//{head.target}")
        if target is None or target.port is None or target.path:
            await _answer(writer, 400, "text/plain", b"CONNECT needs host:port\n")
            return
        host, port = target.host, target.port
        decision = self._decide(host)
        if decision.destination is Destination.REFUSED:
            await refuse(writer, decision.reason)
            return
        if self._down(host):
            _abort(writer, host)
            return
        if decision.destination is Destination.ONWARD:
            connecting = self._upstream.tunnel(host, port)
        elif port == TLS_PORT:
            connecting = connect("127.0.0.1", self._port_of(_door(decision.destination, from_job=from_job)))
        else:
            await refuse(writer, f"{host} has port 443 only")
            return
        streams = await _connected(connecting, writer, host)
        if streams is None:
            return
        await send(writer, ESTABLISHED)
        await self._join((reader, writer), streams)

    async def _join(self, client: Streams, server: Streams) -> None:
        """Copy both ways until the rules change: see :meth:`break_off`."""
        task = asyncio.current_task()
        if task is not None:
            self._tunnels[task] = client[1]
            task.add_done_callback(lambda done: self._tunnels.pop(done, None))
        await join_streams(client, server)

    async def _forward(self, head: Head, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        target = read_target(head.target)
        if target is None or target.scheme != "http":
            await _answer(writer, 400, "text/plain", b"Neither a proxy's request nor one for the emulator\n")
            return
        host = target.host
        decision = self._decide(host)
        if decision.destination is not Destination.ONWARD:
            await refuse(writer, decision.reason or f"{host} is served with TLS only: use https")
            return
        if self._down(host):
            _abort(writer, host)
            return
        proxy = self._upstream.proxy_for(host, tls=False)
        # A proxy upstream gets the address as it was read here: it may read another one out of the client's text.
        path = f"http://{target.authority}{target.path or '/'}" if proxy else target.path or "/"
        more = [f"Proxy-Authorization: {proxy.authorization}"] if proxy and proxy.authorization else []
        streams = await _connected(self._upstream.plain(host, target.port or HTTP_PORT), writer, host)
        if streams is None:
            return
        streams[1].write(head.encoded(path, *more, without=HOP_HEADERS))
        await join_streams((reader, writer), streams)


async def _connected(
    connecting: Coroutine[Any, Any, Streams], writer: asyncio.StreamWriter, host: str
) -> Streams | None:
    """Return a new connection, or None when the client was answered why there is none."""
    try:
        return await connecting
    except InwardError as error:
        await refuse(writer, str(error.strerror))
    except OSError as error:
        logger.warning("cannot reach %s: %s", host, error)
        await _answer(writer, 502, "text/plain", f"cannot reach {host}: {error}\n".encode())
    return None


async def refuse(writer: asyncio.StreamWriter, reason: str) -> None:
    """Answer 403, and log why."""
    logger.warning("REFUSED: %s", reason)
    # The reason is in the status line as well: it is all of the answer that most clients show.
    await _answer(writer, 403, "text/plain", f"{reason}\n".encode(), phrase=f"Refused: {reason}")


def is_for_people(target: str) -> bool:
    """Return whether a request's target is the page's: ``/`` or below ``/ui``."""
    path = target.partition("?")[0]
    return path in ("/", PAGE_PATH.rstrip("/"), "/favicon.ico") or path.startswith(PAGE_PATH)


async def join_streams(left: Streams, right: Streams) -> None:
    """Copy both ways until both sides have ended or one breaks; closes *right*.

    Args:
        left: the client's connection.
        right: the server's.
    """
    try:
        async with asyncio.TaskGroup() as group:
            group.create_task(_copy(left, right[1], of_client=True))
            group.create_task(_copy(right, left[1], of_client=False))
    except* OSError as error:
        logger.debug("a tunnel was interrupted: %r", error.exceptions)
    finally:
        await _close(right[1])


def _acknowledge(connection: socket.socket | None) -> None:
    """Have the kernel acknowledge received data at once, if it can; for one receipt.

    urllib3 leaves Nagle's algorithm on towards proxies: it sends a request's body only when the head is acknowledged,
    which the kernel would put off by 40 ms.
    """
    if connection is not None and hasattr(socket, "TCP_QUICKACK"):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)


async def _copy(source_streams: Streams, writer: asyncio.StreamWriter, *, of_client: bool) -> None:
    reader = source_streams[0]
    source = source_streams[1].get_extra_info("socket") if of_client else None
    _acknowledge(source)
    while data := await reader.read(CHUNK_BYTES):
        _acknowledge(source)
        await send(writer, data)
    _end(writer)


def _end(writer: asyncio.StreamWriter) -> None:
    if writer.is_closing():
        return
    if writer.can_write_eof():
        writer.write_eof()
    else:
        # TLS has no half-closed state.
        writer.close()


def _door(destination: Destination, *, from_job: bool) -> Destination:
    return Destination.SERVICE_FOR_JOBS if from_job and destination is Destination.SERVICE else destination


async def _close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError):
        await writer.wait_closed()


def _abort(writer: asyncio.StreamWriter, host: str) -> None:
    """Close without an answer, as a host that is down."""
    logger.warning("FAULT: an outage of %s", host)
    writer.transport.abort()


async def _answer(
    writer: asyncio.StreamWriter, status: int, content_type: str, body: bytes, *, phrase: str = "Answer"
) -> None:
    head = (
        f"HTTP/1.1 {status} {phrase}\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n"
        "Connection: close\r\n\r\n"
    )
    await send(writer, head.encode("latin-1", "replace") + body)
