"""A small client of HTTP/1.1 over TLS through a proxy.

There are hundreds of them in one process.

A client of a library takes milliseconds of this process for each request, which would be part of each time that is measured.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT = 8 * 1024 * 1024
SECONDS = 60.0


@dataclass(frozen=True, kw_only=True)
class Reply:
    """An answer."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Connections:
    """The connections of one client, one to each host.

    A broken one is made again at the next request.
    """

    def __init__(self, port: int, context: ssl.SSLContext) -> None:
        self._port = port
        self._context = context
        self._open: dict[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]] = {}

    async def request(
        self, method: str, host: str, path: str, *, headers: Mapping[str, str], body: bytes = b""
    ) -> Reply:
        """Return the answer.

        A kept connection that the server has closed meanwhile is made again, once.

        Raises:
            OSError, EOFError, ValueError, TimeoutError: there is none.
        """
        kept = host in self._open
        try:
            return await self._request(method, host, path, headers, body)
        except (ConnectionError, asyncio.IncompleteReadError) as error:
            if not kept or (isinstance(error, asyncio.IncompleteReadError) and error.partial):
                raise
        return await self._request(method, host, path, headers, body)

    async def _request(self, method: str, host: str, path: str, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            async with asyncio.timeout(SECONDS):
                reader, writer = self._open.get(host) or await self._connect(host)
                lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Accept: */*"]
                lines += [f"{name}: {value}" for name, value in headers.items()]
                if body or method not in ("GET", "HEAD"):
                    lines.append(f"Content-Length: {len(body)}")
                writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
                return await self._read(host, reader)
        except BaseException:
            self._drop(host)
            raise

    def close(self) -> None:
        """Close all connections."""
        for host in tuple(self._open):
            self._drop(host)

    async def _connect(self, host: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port, limit=LIMIT)
        self._open[host] = reader, writer
        writer.write(f"CONNECT {host}:443 HTTP/1.1\r\nHost: {host}:443\r\n\r\n".encode("latin-1"))
        head = await reader.readuntil(b"\r\n\r\n")
        if b" 200 " not in head.partition(b"\r\n")[0]:
            raise OSError(f"the proxy refused: {head[:100]!r}")
        await writer.start_tls(self._context, server_hostname=host)
        return reader, writer

    async def _read(self, host: str, reader: asyncio.StreamReader) -> Reply:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        if headers.get("transfer-encoding", "").lower() == "chunked":
            body = await self._chunks(reader)
        else:
            body = await reader.readexactly(int(headers.get("content-length", "0")))
        if headers.get("connection", "").lower() == "close":
            self._drop(host)
        return Reply(status=int(first.split(" ")[1]), headers=headers, body=body)

    @staticmethod
    async def _chunks(reader: asyncio.StreamReader) -> bytes:
        found = bytearray()
        while size := int((await reader.readuntil(b"\r\n")).partition(b";")[0], 16):
            found += await reader.readexactly(size)
            await reader.readexactly(2)
        await reader.readuntil(b"\r\n")
        return bytes(found)

    def _drop(self, host: str) -> None:
        if (found := self._open.pop(host, None)) is not None:
            found[1].close()
