"""Reports as HTML in a real browser: whole, accessible, and without a request."""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.events import GraphNode
from aml_train.core.tables import Table
from aml_train.report import values as report
from aml_train.report.html import render_html
from tests.support.report_browser import launched
from tests.unit.report.test_html import EVERYTHING, curves

if TYPE_CHECKING:
    from playwright.sync_api import Browser


def png(width: int, height: int) -> bytes:
    """Return a grey image."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    rows = zlib.compress(b"".join(b"\x00" + bytes([row % 256]) * width for row in range(height)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with launched() as found:
        yield found


def curve(metric: str, *lines: list[float], limits: tuple[float, ...] = ()) -> report.Curve:
    series = tuple(
        report.Series(
            title=f"the job digits-{number}", role="other" if number else "job", points=tuple(enumerate(values))
        )
        for number, values in enumerate(lines)
    )
    return report.Curve(metric=metric, series=series, limits=limits)


FULL = replace(
    EVERYTHING,
    pictures=(report.Picture(name="roc.png", type="image/png", data=png(1200, 300)),),
    curves=(
        curve("val/loss", [math.exp(-step / 9) for step in range(60)], [0.9] * 60, [0.5, 0.4], limits=(0.3, 0.31)),
        curve("lr", [10.0**-step for step in range(9)], [1e-3] * 9),
        curve("large", [1.23456789e12, 1.23456790e12, 1.23456788e12]),
        curve("constant", [7.0] * 5),
        *curves(4),
    ),
    tables=(
        Table(
            name="confusion",
            kind="matrix",
            head=("actual ╲ predicted", *map(str, range(10))),
            rows=tuple(
                (str(row), *(str(45 if row == column else row) for column in range(10))) for row in range(10)
            ),
        ),
        Table(name="note", kind="text", rows=(("a text",),)),
        Table(name="rows", kind="table", head=("a", "b"), rows=(("1", "2" * 200),)),
    ),
    nodes=tuple(
        GraphNode(
            name=f"node-{number}", status="Completed", needs=tuple(f"node-{one}" for one in range(max(0, number - 3), number))
        )
        for number in range(12)
    ),
)  # fmt: skip


def test_the_policy_stops_what_a_template_would_let_through(browser: Browser, tmp_path: Path) -> None:
    """The second line of defence: a page into which markup got does nothing and fetches nothing."""
    file = tmp_path / "injected.html"
    injected = b"<script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\"><p style='color:red'>x</p>"
    file.write_bytes(render_html(FULL).replace(b"<main>", b"<main>" + injected))
    context = browser.new_context()
    page = context.new_page()
    urls: list[str] = []
    page.on("requestfinished", lambda request: urls.append(request.url))
    page.goto(file.as_uri(), wait_until="load")
    assert page.title() == "digits: passed"
    assert page.locator("p[style]").evaluate("e => getComputedStyle(e).color") == "rgb(31, 35, 40)"
    assert all(url.startswith(("data:", file.as_uri())) for url in urls)
    context.close()
