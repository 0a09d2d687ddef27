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
from typing import Any

import uvicorn
from starlette.types import ASGIApp

from aml_emulator.context import Context
from aml_emulator.network.certificates import Certificates
from aml_emulator.network.fault_injection import FaultFront
from aml_emulator.network.heads import NO_HEAD, Connections, address_of, is_foreign, parse_head
from aml_emulator.network.hosts import Destination
from aml_emulator.network.proxy import join_streams, refuse
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


def serve_application(
    app: ASGIApp, certificates: Certificates, listener: socket.socket, stack: contextlib.AsyncExitStack
) -> asyncio.Task[None]:
    """Serve AzureML's interfaces over TLS on *listener*; the task ends when this does."""
    config = uvicorn.Config(
        app,
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
    server = _Uvicorn(config)
    serving = asyncio.create_task(server.serve(sockets=[listener]))
    stack.push_async_callback(_end_application, server, serving)
    return serving


async def start_registry_fronts(
    settings: Settings,
    context: Context,
    registry_port: int,
    tls: ssl.SSLContext,
    plain: socket.socket,
    *,
    engine_host: str,
    is_host: Callable[[str], bool],
    stack: contextlib.AsyncExitStack,
) -> list[socket.socket]:
    """Start the registry's interface over TLS; return the listeners.

    The first is for the proxy, the second on the port in the settings.

    Args:
        plain: the registry's port without TLS. The host, which engines call *engine_host*, reaches the registry itself there,
            and containers its interface.
        is_host: whether an address is the host's.
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
        if is_host(address_of(writer, "peername")):
            names = (engine_host, address_of(writer, "sockname"))
            await _relay((reader, writer), registry_port, names)
        else:
            await front.accept(reader, writer)

    await _serve(accept, plain, stack, None)
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
