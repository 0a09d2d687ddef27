"""The servers over TLS behind the proxy: AzureML's interfaces and the registry's.

Each has a front that breaks requests on purpose while there are faults.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable, Collection, Coroutine, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import uvicorn
from starlette.types import ASGIApp
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from aml_emulator.context import Context
from aml_emulator.network.certificates import Certificates
from aml_emulator.network.fault_injection import FaultFront
from aml_emulator.network.heads import NO_HEAD, Connections, address_of, is_foreign, parse_head
from aml_emulator.network.hosts import Destination
from aml_emulator.network.proxy import acknowledge, join_streams, refuse
from aml_emulator.network.upstream import MAX_HEAD_BYTES, Streams, connect
from aml_emulator.processes.host import listen
from aml_emulator.registry.acr import AcrInterface, Locks
from aml_emulator.registry.front import RegistryFront
from aml_emulator.registry.storage import RegistryStorage
from aml_emulator.settings import Settings

logger = logging.getLogger(__name__)

STOP_SECONDS = 2.0
HEAD_TIMEOUT_SECONDS = 75.0


class _Uvicorn(uvicorn.Server):
    """Uvicorn without signal handlers: the supervisor has them."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


class _Connection(HttpToolsProtocol):
    """A connection of uvicorn that acknowledges parts of requests at once.

    See :func:`aml_emulator.network.proxy.acknowledge`.

    One that the proxy hands over may receive, and even end, before its task hears that TLS is ready.

    Attributes:
        proxied: the proxy's view of the connection, which would close it when it is collected.
    """

    proxied: asyncio.StreamWriter | None = None

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._ready = False
        self._early = b""
        self._lost = False
        self._within_request = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._ready = True
        super().connection_made(transport)
        if self._early:
            self.data_received(self._early)
        if self._lost:
            self.connection_lost(None)

    def data_received(self, data: bytes) -> None:
        if self._ready:
            super().data_received(data)
            if self._within_request:
                acknowledge(self.transport.get_extra_info("socket"))
        else:
            self._early += data

    def on_message_begin(self) -> None:
        self._within_request = True
        super().on_message_begin()

    def on_message_complete(self) -> None:
        self._within_request = False
        super().on_message_complete()

    def connection_lost(self, exc: Exception | None) -> None:
        self.proxied = None
        if self._ready:
            super().connection_lost(exc)
        else:
            self._lost = True


class Application:
    """AzureML's interfaces over TLS, on a port and on the proxy's connections.

    A connection that is handed over needs no second one, through which each request and answer would be copied.
    """

    def __init__(self, app: ASGIApp, certificates: Certificates, tls: ssl.SSLContext) -> None:
        self._server = _Uvicorn(_config(app, certificates))
        self._tls = tls

    def serve(self, listener: socket.socket, stack: contextlib.AsyncExitStack) -> asyncio.Task[None]:
        """Serve on *listener*; the task ends when this does."""
        serving = asyncio.create_task(self._server.serve(sockets=[listener]))
        stack.push_async_callback(_end_application, self._server, serving)
        return serving

    @property
    def ready(self) -> bool:
        """Whether it serves."""
        return self._server.started

    async def take(self, writer: asyncio.StreamWriter) -> None:
        """Serve on a client's connection from now on; return when its TLS is ready.

        Raises:
            ConnectionError: the client does not speak TLS, or refuses the certificate.
        """
        server = self._server
        connection = _Connection(
            config=server.config, server_state=server.server_state, app_state=server.lifespan.state
        )
        connection.proxied = writer
        loop = asyncio.get_running_loop()
        try:
            transport = await loop.start_tls(writer.transport, connection, self._tls, server_side=True)
        except ssl.SSLError as error:
            raise ConnectionAbortedError(f"the TLS of a client: {error}") from error
        if transport is None:
            raise ConnectionAbortedError("a client was gone before its TLS")
        connection.connection_made(transport)

    def break_off(self) -> None:
        """Close all connections, so that clients connect again."""
        for connection in tuple(self._server.server_state.connections):
            connection.transport.abort()


def _config(app: ASGIApp, certificates: Certificates) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=_Connection,
        ssl_certfile=str(certificates.server_cert),
        ssl_keyfile=str(certificates.server_key),
        lifespan="off",
        # A bound method is not recognised as one.
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        proxy_headers=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=1,
    )


async def start_registry_fronts(
    settings: Settings,
    context: Context,
    registry_port: int,
    tls: ssl.SSLContext,
    plain: PlainRegistry,
    stack: contextlib.AsyncExitStack,
) -> list[socket.socket]:
    """Start the registry's interface over TLS; return the listeners.

    The first is for the proxy, the second on the port in the settings.

    Without TLS it answers on the listener of *plain*: connections from containers. The host reaches the registry itself.
    """
    login_server = context.identity.login_server
    front = RegistryFront(
        registry_port,
        login_server=login_server,
        tokens=context.tokens,
        roles=context.roles,
        acr=AcrInterface(
            login_server=login_server,
            storage=RegistryStorage(settings.data / "registry"),
            locks=Locks(settings.data / "registry-attributes.json"),
        ),
    )
    listeners = [listen("127.0.0.1", 0)]
    if settings.registry_tls_port is not None:
        listeners.append(listen(settings.host, settings.registry_tls_port))
    for listener in listeners:
        await _serve(front.accept, listener, stack, tls)

    async def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if plain.is_host(address_of(writer, "peername")):
            names = (plain.engine_host, address_of(writer, "sockname"))
            await _relay((reader, writer), registry_port, names)
        else:
            await front.accept(reader, writer)

    await _serve(accept, plain.listener, stack, None)
    return listeners


async def _serve(
    handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], Coroutine[Any, Any, None]],
    listener: socket.socket,
    stack: contextlib.AsyncExitStack,
    tls: ssl.SSLContext | None,
) -> None:
    """Serve connections until the end of *stack*."""
    connections = Connections()
    stack.push_async_callback(connections.close)
    server = await asyncio.start_server(
        lambda reader, writer: connections.hold(handle(reader, writer)), sock=listener, ssl=tls, limit=MAX_HEAD_BYTES
    )
    stack.callback(server.close)


@dataclass(frozen=True, kw_only=True)
class PlainRegistry:
    """The registry's port without TLS, for engines.

    `is_host` returns whether an address is the host's, which engines call *engine_host*.
    """

    listener: socket.socket
    engine_host: str
    is_host: Callable[[str], bool]


async def _relay(client: Streams, port: int, names: Collection[str]) -> None:
    """Hand one request on to the registry.

    A second one on the connection would pass unchecked.
    """
    reader, writer = client
    try:
        async with asyncio.timeout(HEAD_TIMEOUT_SECONDS):
            head = parse_head(await reader.readuntil(b"\r\n\r\n"))
        if is_foreign(head, names=names):
            await refuse(writer, "the request is a web page's, or its Host is no name of the registry")
            return
        server = await connect("127.0.0.1", port)
        server[1].write(head.encoded(head.target, without=("connection", "keep-alive")))
        await join_streams(client, server)
    except NO_HEAD as error:
        logger.debug("a connection to the registry without a request: %r", error)
    except OSError as error:
        logger.warning("the registry does not answer: %s", error)
    finally:
        client[1].close()


async def start_fault_fronts(
    ports: Mapping[Destination, int],
    context: Context,
    tls: ssl.SSLContext,
    certificates: Certificates,
    stack: contextlib.AsyncExitStack,
) -> dict[Destination, int]:
    """Start the fault front of each service; return their ports."""
    trust = ssl.create_default_context(cafile=str(certificates.ca_file))
    found = {}
    for destination, port in ports.items():
        front = FaultFront(destination, port, trust=trust, faults=context.faults, requests=context.requests)
        listener = listen("127.0.0.1", 0)
        await _serve(front.accept, listener, stack, tls)
        found[destination] = int(listener.getsockname()[1])
    return found


async def _end_application(application: uvicorn.Server, serving: asyncio.Task[None]) -> None:
    application.should_exit = True
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await asyncio.shield(serving)
    except TimeoutError:
        serving.cancel()
