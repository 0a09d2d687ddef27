"""Requests leave Python's libraries here: one attempt of a urllib3 pool.

requests, azure-core, msal and docker-py all end there. Everything above runs unchanged: sessions, adapters, redirects,
retries with their pauses, the conversion of errors, the decoding of bodies. Below it would be sockets and TLS.
"""

from __future__ import annotations

import http.client
from collections.abc import Iterable, Iterator
from typing import Any
from unittest import mock

from requests.structures import CaseInsensitiveDict
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import ConnectTimeoutError, NewConnectionError, ReadTimeoutError
from urllib3.response import HTTPResponse
from urllib3.util import Timeout

from simulation.kernel import current
from simulation.kernel.errors import SimulationError
from simulation.kernel.exchange import Exchange, HangingConnectError, RefusedError, TimedOutError
from simulation.kernel.messages import Request

_PORTS = {"http": 80, "https": 443}


def patches() -> Iterator[Any]:
    """Yield the replacements in urllib3's pools of connections."""
    original = HTTPConnectionPool._make_request

    def make_request(pool: Any, conn: Any, method: str, url: str, **options: Any) -> Any:
        if current.task() is None:
            return original(pool, conn, method, url, **options)
        return _attempt(pool, conn, method, url, **options)

    yield mock.patch.object(HTTPConnectionPool, "_make_request", make_request)
    # A proxy is a connection like any other: requests are routed by their address.
    yield mock.patch.object(HTTPConnectionPool, "_prepare_proxy")


def _attempt(
    pool: Any,
    conn: Any,
    method: str,
    url: str,
    *,
    body: Any = None,
    headers: Any = None,
    retries: Any = None,
    timeout: Any = None,
    response_conn: Any = None,
    preload_content: bool = True,
    decode_content: bool = True,
    enforce_content_length: bool = True,
    **_options: Any,
) -> HTTPResponse:
    """Send a request once, as urllib3's ``_make_request``.

    The errors are those of its connections.
    """
    kernel = current.kernel()
    network = None if kernel is None else kernel.network
    if kernel is None or network is None:
        raise SimulationError(f"{method} {url}: this kernel has no network")
    limits: Timeout = pool._get_timeout(timeout)
    port = "" if pool.port in (None, _PORTS.get(pool.scheme)) else f":{pool.port}"
    request = Request(
        method=method,
        url=url if "://" in url.partition("?")[0] else f"{pool.scheme}://{pool.host}{port}{url}",
        headers=CaseInsensitiveDict(dict(headers or {})),
        body=_bytes(body),
        sender=kernel.running().name,
    )
    connect, read = (Timeout.resolve_default_timeout(each) for each in (limits.connect_timeout, limits.read_timeout))
    try:
        exchange = network.send(request, connect=connect, read=read)
    except RefusedError as error:
        raise NewConnectionError(conn, f"Failed to establish a new connection: {error}") from error
    except HangingConnectError as error:
        raise ConnectTimeoutError(
            conn, f"Connection to {pool.host} timed out. (connect timeout={connect})"
        ) from error
    except TimedOutError as error:
        raise ReadTimeoutError(pool, url, f"Read timed out. (read timeout={read})") from error
    stream = _Stream(exchange, read)
    return HTTPResponse(
        body=stream,  # type: ignore[arg-type]  # it has what urllib3 uses of a file
        headers=exchange.headers,
        status=exchange.status,
        version=11,
        version_string="HTTP/1.1",
        reason=http.client.responses.get(exchange.status, ""),
        preload_content=preload_content,
        decode_content=decode_content,
        original_response=stream,  # type: ignore[arg-type]  # it has what urllib3 and requests use of one
        pool=pool,
        connection=response_conn,
        retries=retries,
        enforce_content_length=enforce_content_length,
        request_method=method,
        request_url=url,
    )


def _bytes(body: Any) -> bytes:
    """Return a request's body; files and generators are read to their end."""
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode("utf-8")
    if isinstance(body, (bytes, bytearray, memoryview)):
        return bytes(body)
    if hasattr(body, "read"):
        content = body.read()
        return content.encode("iso-8859-1") if isinstance(content, str) else bytes(content)
    if isinstance(body, Iterable):
        return b"".join(part.encode("utf-8") if isinstance(part, str) else bytes(part) for part in body)
    raise SimulationError(f"a request's body is a {type(body).__name__}")


class _Stream:
    """The body of an answer as it arrives.

    In the place of ``http.client.HTTPResponse``.
    """

    def __init__(self, exchange: Exchange, read: float | None) -> None:
        self._exchange = exchange
        self._timeout = read
        self._rest = b""
        self._ended = False
        self.closed = False
        self.msg = http.client.HTTPMessage()
        for name, value in exchange.headers.items():
            self.msg[name] = value

    def read(self, amount: int | None = None) -> bytes:
        """Return at most *amount* bytes, b"" at the end.

        Raises:
            TimeoutError: nothing arrived within the client's time-out.
            ConnectionResetError: the connection was reset.
        """
        wanted = -1 if amount is None else amount
        while not self._ended and (wanted < 0 or len(self._rest) < wanted):
            chunk = self._exchange.chunk(self._timeout)
            if chunk is None:
                self._ended = True
            else:
                self._rest += chunk
                if wanted >= 0 and self._exchange.streamed and self._rest:
                    break  # a line of a log is passed on when it arrives
        given, self._rest = (self._rest, b"") if wanted < 0 else (self._rest[:wanted], self._rest[wanted:])
        if self._ended and not self._rest:
            self.closed = True
        return given

    read1 = read

    def close(self) -> None:
        """Read no more."""
        self.closed = True

    def isclosed(self) -> bool:
        """Return whether it is read or closed."""
        return self.closed

    def flush(self) -> None:
        """Do nothing: there is nothing to write."""
