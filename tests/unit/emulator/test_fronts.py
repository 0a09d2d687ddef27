"""A connection that the proxy hands over, and the acknowledgement of parts of requests; without sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import pytest
import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from aml_emulator.fronts import _Connection

HEAD = b"POST /a HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\n\r\n"


class Transport(asyncio.Transport):
    """A transport that keeps what is written, and is its own socket."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.acknowledged = 0

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self if name == "socket" else default

    def getsockname(self) -> tuple[str, int]:
        return "127.0.0.1", 443

    def getpeername(self) -> tuple[str, int]:
        return "127.0.0.1", 40000

    def setsockopt(self, level: int, option: int, value: int) -> None:
        assert (level, option, value) == (socket.IPPROTO_TCP, socket.TCP_QUICKACK, 1)
        self.acknowledged += 1

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += bytes(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    body = (await receive())["body"]
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


def _run(steps: Callable[[_Connection, Transport], None]) -> Transport:
    """Take the steps with a new connection, let the application answer, and return the transport."""

    async def run() -> Transport:
        config = uvicorn.Config(_app, interface="asgi3", lifespan="off", log_config=None)
        config.load()
        transport = Transport()
        connection = _Connection(config=config, server_state=ServerState(), app_state={})
        steps(connection, transport)
        await asyncio.gather(*connection.tasks)
        return transport

    return asyncio.run(run())


def test_what_comes_before_the_connection_is_known_is_answered() -> None:
    def steps(connection: _Connection, transport: Transport) -> None:
        connection.data_received(HEAD[:9])
        connection.data_received(HEAD[9:] + b"body")
        connection.connection_made(transport)

    transport = _run(steps)
    assert transport.written.startswith(b"HTTP/1.1 200 OK")
    assert transport.written.endswith(b"\r\n\r\nbody")


def test_a_connection_that_is_lost_before_it_is_known_is_closed() -> None:
    def steps(connection: _Connection, transport: Transport) -> None:
        connection.connection_lost(None)
        connection.connection_made(transport)
        assert connection not in connection.connections

    transport = _run(steps)
    assert (transport.closed, transport.written) == (True, b"")


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="the system has no such option")
def test_only_a_part_of_a_request_is_acknowledged() -> None:
    def steps(connection: _Connection, transport: Transport) -> None:
        connection.connection_made(transport)
        connection.data_received(HEAD[:9])
        connection.data_received(HEAD[9:])
        connection.data_received(b"body")

    transport = _run(steps)
    assert transport.acknowledged == 2
    assert transport.written.endswith(b"body")
