"""Requests to simulated services, and their answers: plain values."""

from __future__ import annotations

import email.utils
import json
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, unquote, urlsplit


@dataclass(frozen=True, kw_only=True)
class Request:
    """One request.

    Attributes:
        url: absolute.
        headers: as they were sent; :meth:`header` finds them in any case.
        late: its sender no longer waits for an answer.
    """

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""
    late: bool = False

    @property
    def host(self) -> str:
        """The host's name in lower case, without a port."""
        return (urlsplit(self.url).hostname or "").lower()

    @property
    def raw_path(self) -> str:
        """The path, percent-encoded as it was sent."""
        return urlsplit(self.url).path or "/"

    @property
    def path(self) -> str:
        """The path, decoded."""
        return unquote(self.raw_path)

    @property
    def query_text(self) -> str:
        """The query as it was sent, without its question mark."""
        return urlsplit(self.url).query

    @property
    def query(self) -> dict[str, str]:
        """The fields of the query, each with its last value."""
        return dict(parse_qsl(self.query_text, keep_blank_values=True))

    def header(self, name: str) -> str:
        """Return a header's value; empty if there is none."""
        wanted = name.lower()
        return next((value for key, value in self.headers.items() if key.lower() == wanted), "")


@dataclass(frozen=True, kw_only=True)
class Response:
    """One answer, whole."""

    status: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


Service = Callable[[Request], Response]
"""A service: a synchronous function that uses ordinary threading primitives and ``time``."""


class UnreachableError(ConnectionError):
    """The host of a request does not exist, or its service does not run."""


def http_date(seconds: float | None = None) -> str:
    """Return a time as HTTP writes it; the present by default."""
    return email.utils.formatdate(time.time() if seconds is None else seconds, usegmt=True)


def json_response(status: int, value: object, headers: Mapping[str, str] | None = None) -> Response:
    """Return an answer with JSON."""
    sent = {"Content-Type": "application/json; charset=utf-8", **(headers or {})}
    return Response(status=status, headers=sent, body=json.dumps(value).encode())
