"""Dead links of a built site: what leads to no file or to no heading of it.

Zensical checks links between pages. Links to pictures and other files, and those of the menu, are found here.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

_ADDRESSES: Final = frozenset({"href", "src"})


class _Page(HTMLParser):
    """The addresses and the ids of one page."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.ids: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in _ADDRESSES and value:
                self.addresses.append(value)
            elif name in ("id", "name") and value:
                self.ids.add(value)


def dead_links(site: Path) -> list[str]:
    """Return a line for each link below *site* that leads nowhere."""
    pages = {path: _read(path) for path in sorted(site.rglob("*.html")) if path.name != "404.html"}
    return [fault for path, page in pages.items() for fault in _dead(site, path, page, pages)]


def _read(path: Path) -> _Page:
    page = _Page()
    page.feed(path.read_text(encoding="utf-8"))
    return page


def _dead(site: Path, path: Path, page: _Page, pages: dict[Path, _Page]) -> Iterator[str]:
    for address in dict.fromkeys(page.addresses):
        parts = urlsplit(address)
        if parts.scheme or parts.netloc:
            continue
        aim = Path(os.path.normpath(path.parent / unquote(parts.path))) if parts.path else path
        if aim.is_dir():
            aim /= "index.html"
        where = path.relative_to(site)
        if not aim.is_file():
            yield f"{where}: the link {address} leads to no file"
        elif parts.fragment and aim in pages and unquote(parts.fragment) not in pages[aim].ids:
            yield f"{where}: the link {address} leads to no heading"
