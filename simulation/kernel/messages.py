"""Requests and responses, as services see them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from requests.structures import CaseInsensitiveDict


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request that has arrived.

    Attributes:
        method: in capitals.
        url: the whole address.
        headers: names in any case.
        body: all of it.
        sender: the thread that sent it, such as ``client/MainThread``.
        late: its sender has given it up, or had it answered, before it arrived.
    """

    method: str
    url: str
    headers: CaseInsensitiveDict[str] = field(default_factory=CaseInsensitiveDict)
    body: bytes = b""
    sender: str = ""
    late: bool = False


@dataclass(frozen=True, kw_only=True)
class Response:
    """An answer.

    Attributes:
        status: of HTTP.
        headers: one value for each name; several are joined by commas, as HTTP allows.
        body: all of it, or parts that the client receives as they are produced.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes | Iterable[bytes] = b""


Handler = Callable[[Request], Response]
"""A service: runs in a thread of the service's process."""
