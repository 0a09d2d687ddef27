"""Heads of HTTP requests, and which of them a browser may send. Pure.

A page of another origin is given away by ``Origin`` or ``Sec-Fetch-Site`` (https://www.w3.org/TR/fetch-metadata/); one that had its name
point at this machine (DNS rebinding), by that name in ``Host``.
"""

from __future__ import annotations

import asyncio
import ipaddress
import logging
from collections.abc import Collection, Coroutine
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

logger = logging.getLogger(__name__)


class Connections:
    """Keeps the tasks of connections while they last, and ends them.

    The event loop's references are weak: a task that waits for a connection that is gone would be collected in the middle of its work.
    """

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()

    async def hold(self, serving: Coroutine[Any, Any, None]) -> None:
        """Serve this task's connection, which may be interrupted."""
        task = asyncio.current_task()
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        try:
            await serving
        except (ConnectionError, asyncio.CancelledError) as error:
            logger.debug("a connection was interrupted: %r", error)

    async def close(self) -> None:
        """Interrupt every connection, and wait until it has ended."""
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def address_of(writer: asyncio.StreamWriter, end: str) -> str:
    """Return the address of an end of a connection: ``peername`` or ``sockname``.

    Raises:
        ConnectionResetError: the client is gone.
    """
    found = writer.get_extra_info(end)
    if found is None:
        raise ConnectionResetError("the client is gone")
    return str(found[0])


@dataclass(frozen=True, kw_only=True)
class Head:
    """The head of a request; *headers* as they came."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]

    def header(self, name: str) -> str | None:
        """Return the value of a header by its name in lower case, or None."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def host(self) -> str:
        """The host of ``Host`` without its port, in lower case; empty for none."""
        target = read_target(f"//{self.header('host') or ''}")
        return "" if target is None else target.host.lower()

    def encoded(self, target: str, *more: str, without: Collection[str]) -> bytes:
        """Return the head for another server, for one request on its connection.

        Args:
            target: replaces that of the head.
            more: further lines.
            without: names of headers to leave out, in lower case.
        """
        kept = [f"{name}: {value}" for name, value in self.headers if name.lower() not in without]
        lines = [f"{self.method} {target} HTTP/1.1", *kept, *more, "Connection: close", "", ""]
        return "\r\n".join(lines).encode("latin-1")


@dataclass(frozen=True, kw_only=True)
class Target:
    """A request's target: *host* without brackets, *port* or None, path and query."""

    scheme: str
    host: str
    port: int | None
    path: str

    @property
    def authority(self) -> str:
        """Host and port, as an address has them."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return host if self.port is None else f"{host}:{self.port}"


class BadHeadError(ValueError):
    """Something that is not the head of an HTTP request."""


NO_HEAD = (TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, BadHeadError)
"""The errors of a connection without a whole request."""


def parse_head(data: bytes) -> Head:
    """Return the head of a request.

    Raises:
        BadHeadError: it is none.
    """
    first, *rest = data.decode("latin-1").rstrip("\r\n").split("\r\n")
    if any(character in line for line in (first, *rest) for character in "\r\n\0"):
        raise BadHeadError("a line end or NUL within a line")
    parts = first.split(" ")
    if len(parts) != 3 or not parts[2].startswith("HTTP/1."):
        raise BadHeadError("not the first line of an HTTP request")
    headers = []
    for line in rest:
        name, colon, value = line.partition(":")
        if not colon:
            raise BadHeadError("a header without a colon")
        headers.append((name.strip(), value.strip()))
    return Head(method=parts[0].upper(), target=parts[1], headers=tuple(headers))


def read_target(target: str) -> Target | None:
    """Return the parts of ``http://host:port/path?query`` or ``//host:port``, or None."""
    try:
        parts = urlsplit(target)
        host, port = parts.hostname or "", parts.port
    except ValueError:
        return None
    if not host or not host.isascii() or not host.isprintable():
        return None
    return Target(
        scheme=parts.scheme, host=host, port=port, path=f"{parts.path}?{parts.query}" if parts.query else parts.path
    )


def split_target(target: str) -> tuple[str, str]:
    """Return path and query of a request's target, both still percent-encoded.

    Raises:
        BadHeadError: it is none.
    """
    if target.startswith("/"):
        path, _, query = target.partition("?")
        return path, query
    try:
        parts = urlsplit(target)
    except ValueError as error:
        raise BadHeadError("not the target of a request") from error
    return parts.path, parts.query


def is_foreign(head: Head, *, names: Collection[str] = (), is_page: bool = False) -> bool:
    """Return whether a page of another origin may have sent a request.

    Args:
        head: of the request.
        names: what the service is called besides loopback: names in lower case, and addresses.
        is_page: it answers pages of the same origin, and links to it from others, because nothing there changes anything.
    """
    if not _is_loopback(head.host) and head.host not in names:
        return True
    origin, site = head.header("origin"), head.header("sec-fetch-site")
    if not is_page:
        return origin is not None or site is not None
    if origin is not None and origin.lower() != f"http://{(head.header('host') or '').lower()}":
        return True
    follows_link = head.header("sec-fetch-mode") == "navigate" and head.header("sec-fetch-dest") == "document"
    return site not in (None, "none", "same-origin") and not follows_link


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
