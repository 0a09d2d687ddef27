"""Documents and contents that the page answers with, and the forms of its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeVar
from urllib.parse import quote, urlencode

from aml_emulator.api.routing import Call
from aml_emulator.identity.identity import Identity

Item = TypeVar("Item")


@dataclass(frozen=True, kw_only=True)
class Document:
    """A page of HTML.

    Attributes:
        template: a file in the folder of templates.
        section: the entry of the navigation that it belongs to.
        refresh: whether a browser without scripts is to load it again every few seconds.
    """

    template: str
    title: str
    values: Mapping[str, Any] = field(default_factory=dict)
    section: str = ""
    refresh: bool = False


@dataclass(frozen=True, kw_only=True)
class Content:
    """Anything else.

    Attributes:
        body: all of it, or its parts in order.
        length: bytes, where the parts' sum is known.
        headers: further ones.
        shown: whether it is text that the page shows, which is to be free of secrets.
    """

    type: str
    body: bytes | Iterator[bytes]
    status: int = 200
    length: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cache: str = "no-store"
    shown: bool = False


@dataclass(frozen=True, kw_only=True)
class Paging:
    """A position in a list: pages count from 1."""

    page: int
    size: int
    total: int

    @property
    def offset(self) -> int:
        """How many items come before this page."""
        return (self.page - 1) * self.size

    @property
    def pages(self) -> int:
        """How many pages there are; at least one."""
        return max(1, -(-self.total // self.size))

    @property
    def first(self) -> int:
        """The number of the first item on this page, 0 if there is none."""
        return min(self.offset + 1, self.total)

    @property
    def last(self) -> int:
        """The number of the last item on this page."""
        return min(self.offset + self.size, self.total)


def paged(call: Call, items: Sequence[Item], size: int) -> tuple[Sequence[Item], Paging]:
    """Return the items of the requested page, and its position."""
    paging = Paging(page=call.integer("page", 1, low=1), size=size, total=len(items))
    return items[paging.offset : paging.offset + size], paging


HIDDEN = "•••"

_PATTERNS = (
    # The signature of a SAS: https://learn.microsoft.com/rest/api/storageservices/create-service-sas
    r"(?P<sas>(?:\b|%26)sig(?:=|%3D))[A-Za-z0-9%+/=_-]{16,}",
    r"(?P<key>\b(?:AccountKey|SharedAccessKey|client_secret|password)=)[^\s;&\"'<]+",
    # The user's part of an address.
    r"(?P<user>://)[^\s/@:\"'<]+:[^\s/@\"'<]+(?=@)",
    # A JSON Web Token: two parts that begin as JSON objects do in base64, and a signature.
    r"\beyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*",
    r"\b(?:ghp|gho|ghs|ghu|github_pat)_[A-Za-z0-9_]{20,}",
)


def hider(identity: Identity) -> Callable[[str], str]:
    """Return a function that replaces every secret in a text, HTML too, by ``•••``.

    Args:
        identity: its secrets are hidden everywhere.
    """
    own = (identity.client_secret, identity.token_secret, identity.storage_key)
    words = "|".join(re.escape(secret) for secret in own if secret)
    pattern = re.compile("|".join((words, *_PATTERNS)) if words else "|".join(_PATTERNS), re.IGNORECASE)

    def put(match: re.Match[str]) -> str:
        kept = match["sas"] or match["key"] or match["user"] or ""
        return kept + HIDDEN

    return lambda text: pattern.sub(put, text)


_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
#: Control characters, and those that turn the order of what is shown (Unicode's UAX #9).
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def link(*segments: str, **query: object) -> str:
    """Return an address: ``link("a b", page=2)`` is ``/ui/a%20b?page=2``.

    A list is a parameter for each of its values.
    """
    path = "/".join(quote(segment, safe="") for segment in segments)
    asked = {name: value for name, value in query.items() if value not in ("", None, [])}
    return f"/ui/{path}" + (f"?{urlencode(asked, doseq=True)}" if asked else "")


def moment(seconds: float | None) -> str:
    """Return a time, in seconds since the epoch, in UTC; ``—`` for None."""
    return "—" if seconds is None else datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def duration(seconds: float | None) -> str:
    """Return a length of time in at most two units; ``—`` for None."""
    if seconds is None:
        return "—"
    if seconds < 10:
        return f"{max(seconds, 0):.1f} s"
    whole = round(seconds)
    for name, length, small, part in (("d", 86400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1)):
        if whole >= length:
            return f"{whole // length} {name} {whole % length // part} {small}"
    return f"{whole} s"


def size(count: int | None) -> str:
    """Return a number of bytes in its largest fitting unit of 1024; ``—`` for None."""
    if count is None:
        return "—"
    value = float(count)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if value < 1024:
            return f"{int(value)} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def plain(text: str) -> str:
    """Return a job's output as plain lines, without escape sequences."""
    return _CONTROLS.sub("�", _ESCAPES.sub("", text).replace("\r\n", "\n").replace("\r", "\n"))
