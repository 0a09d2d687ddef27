"""What a part of the page hands on to be sent: a document to be rendered, or contents as they are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Document:
    """A page of HTML.

    Attributes:
        template: a file in the folder of templates.
        title: what the page is about.
        values: what the template shows.
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
        type: the media type.
        body: all of it, or its parts in order.
        length: bytes, where the parts' sum is known.
        shown: whether it is text that the page shows, which is to be free of secrets.
    """

    type: str
    body: bytes | Iterator[bytes]
    length: int | None = None
    headers: tuple[tuple[str, str], ...] = ()
    cache: str = "no-store"
    shown: bool = False


@dataclass(frozen=True, kw_only=True)
class Paging:
    """Where a list is: pages count from 1."""

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
