"""Connections outside: direct, or through the proxy of the emulator's environment."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ipaddress
import os
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import unquote, urlsplit

from aml_emulator.network.hosts import Outward

CONNECT_TIMEOUT_SECONDS = 30.0
MAX_HEAD_BYTES = 64 * 1024

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    """Write to a connection, and wait while its buffer is full.

    Raises:
        ConnectionError: it is closed. uvloop closes a connection that the peer resets at once, before its reader raises the error, and
            answers a write to it with RuntimeError (``UVHandle._ensure_alive``); asyncio drops what is written.
    """
    if writer.is_closing():
        raise ConnectionResetError("the connection is closed")
    writer.write(data)
    await writer.drain()


class UpstreamError(OSError):
    """The way out is closed; the message says where."""


@dataclass(frozen=True, kw_only=True)
class ProxyAddress:
    """A proxy upstream; *authorization* is the value of the header, or empty."""

    host: str
    port: int
    authorization: str = ""


class Upstream:
    """Opens connections to the outside.

    Args:
        environment: where ``HTTPS_PROXY``, ``HTTP_PROXY`` and ``NO_PROXY`` are read, in either case.
        outward: which addresses may be connected to. A proxy of the environment may be anywhere, also on this machine.
        dial: opens a connection to an address and port.
    """

    def __init__(
        self,
        environment: Mapping[str, str] = os.environ,
        *,
        outward: Outward | None = None,
        dial: Callable[[str, int], Awaitable[Streams]] | None = None,
    ) -> None:
        self._outward = outward or Outward()
        self._dial = dial or connect
        lower = {key.lower(): value for key, value in environment.items() if value}
        self._https = parse_proxy(lower.get("https_proxy"))
        self._http = parse_proxy(lower.get("http_proxy"))
        self._no_proxy = lower.get("no_proxy", "")

    def proxy_for(self, host: str, *, tls: bool) -> ProxyAddress | None:
        """Return the proxy to go through to *host*, None to go straight."""
        if bypasses(host, self._no_proxy):
            return None
        return self._https if tls else self._http

    async def tunnel(self, host: str, port: int) -> Streams:
        """Return streams that end at *host*.

        Raises:
            OSError: no connection.
        """
        proxy = self.proxy_for(host, tls=True)
        if proxy is None:
            return await self.straight(host, port)
        reader, writer = await self._dial(proxy.host, proxy.port)
        authorization = f"Proxy-Authorization: {proxy.authorization}\r\n" if proxy.authorization else ""
        target = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        writer.write(f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{authorization}\r\n".encode("latin-1"))
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
        except (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            writer.close()
            raise UpstreamError(f"the proxy {proxy.host}:{proxy.port} did not answer") from error
        status = head.split(b"\r\n", 1)[0].decode("latin-1")
        if status.split(" ")[1:2] != ["200"]:
            writer.close()
            raise UpstreamError(f"the proxy {proxy.host}:{proxy.port} answered '{status}'")
        return reader, writer

    async def plain(self, host: str, port: int) -> Streams:
        """Return streams for a plain HTTP request to *host*, or to the proxy.

        Raises:
            OSError: no connection.
        """
        proxy = self.proxy_for(host, tls=False)
        return await (self._dial(proxy.host, proxy.port) if proxy else self.straight(host, port))

    async def straight(self, host: str, port: int) -> Streams:
        """Return streams to *host*, whose addresses are tried in the resolver's order.

        Raises:
            InwardError: every address is refused.
            OSError: no connection.
        """
        addresses = await asyncio.to_thread(self._outward.addresses, host, port)
        *others, last = addresses
        for address in others:
            with contextlib.suppress(OSError):
                return await self._dial(address, port)
        return await self._dial(last, port)


def bypasses(host: str, no_proxy: str) -> bool:
    """Return whether ``NO_PROXY`` names *host*, a domain or a network around it."""
    name = host.strip("[]").rstrip(".").lower()
    for entry in (part.strip().lower() for part in no_proxy.split(",")):
        domain = entry.removeprefix("*").lstrip(".")
        if entry == "*" or (domain and (name == domain or name.endswith(f".{domain}"))):
            return True
        if "/" in entry:
            try:
                if ipaddress.ip_address(name) in ipaddress.ip_network(entry, strict=False):
                    return True
            except ValueError:
                # A name instead of an address, or an entry that is no network: it does not match.
                continue
    return False


async def connect(host: str, port: int) -> Streams:
    """Open a plain connection; raises OSError."""
    async with asyncio.timeout(CONNECT_TIMEOUT_SECONDS):
        return await asyncio.open_connection(host, port, limit=MAX_HEAD_BYTES)


def parse_proxy(text: str | None) -> ProxyAddress | None:
    """Return the proxy that a variable such as ``http://user:secret@host:3128`` names.

    Raises:
        ValueError: it is not an address of an HTTP proxy; the message does not quote it, for it may hold a password.
    """
    if not text:
        return None
    parts = urlsplit(text if "://" in text else f"http://{text}")
    if parts.scheme != "http" or not parts.hostname:
        raise ValueError("HTTPS_PROXY or HTTP_PROXY is not of the form http://host:port")
    authorization = ""
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        authorization = f"Basic {base64.b64encode(pair.encode('utf-8')).decode('ascii')}"
    return ProxyAddress(host=parts.hostname, port=parts.port or 80, authorization=authorization)
