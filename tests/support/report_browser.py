"""A report in a real browser: read at several widths, light and dark, without a request."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scripts.bootstrap.probes import find_browser

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

LOOKS = [(width, scheme) for width in (390, 1280) for scheme in ("light", "dark")]
"""Widths of windows in pixels, and the readers' settings."""

#: Of each chart: how small its labels are, and which of them overlap or leave the chart.
_LABELS = """svg => {
    const frame = svg.getBoundingClientRect();
    const boxes = [...svg.querySelectorAll('text:not(.limit)')].map(label => label.getBoundingClientRect());
    const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom - 1 && b.top < a.bottom - 1;
    const outside = box => box.left < frame.left - 1 || box.right > frame.right + 1 || box.bottom > frame.bottom + 1;
    return {
        title: svg.querySelector('title').textContent,
        labels: boxes.length,
        small: Math.min(...boxes.map(box => box.height)),
        outside: boxes.filter(outside).length,
        overlaps: boxes.filter((a, i) => boxes.some((b, j) => i < j && overlap(a, b))).length,
    };
}"""


@contextmanager
def launched() -> Iterator[Browser]:
    """Give Chromium; without one there is an error, and no test that is skipped."""
    from playwright.sync_api import sync_playwright

    path = find_browser(os.environ.get("AML_TRAIN_BROWSER"))
    if not path:
        raise RuntimeError("Chromium is not installed: run `make bootstrap`, or set AML_TRAIN_BROWSER.")
    with sync_playwright() as playwright:
        # Chromium's sandbox needs rights that containers and root do not have; the reports are our own.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, file: Path, width: int, scheme: Any) -> Iterator[Page]:
    """Give the report in a window; what a browser complains of, and each request, is an error at the end."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page = context.new_page()
    problems: list[str] = []
    page.set_default_timeout(300_000)
    page.on("console", lambda message: problems.append(f"console {message.type}: {message.text}"))
    page.on("pageerror", lambda error: problems.append(f"error: {error}"))
    page.on("requestfailed", lambda request: problems.append(f"failed: {request.url}"))
    page.on("request", lambda request: None if _is_own(request.url, file) else problems.append(request.url))
    page.goto(file.as_uri(), wait_until="load")
    yield page
    context.close()
    assert problems == []


def _is_own(url: str, file: Path) -> bool:
    return url.startswith("data:") or url.partition("#")[0] == file.as_uri()


def check(browser: Browser, file: Path) -> None:
    """Read a report as people do, in every look; raise an AssertionError for what is wrong."""
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    assert file.stat().st_size <= 2_000_000
    for width, scheme in LOOKS:
        with opened(browser, file, width, scheme) as page:
            look = f"{file.name} at {width}, {scheme}"
            widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert widths[0] <= widths[1], f"{look} is wider than the window: {widths}"
            assert page.locator("h1").count() == 1, look
            background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
            assert background == ("rgb(255, 255, 255)" if scheme == "light" else "rgb(13, 17, 23)"), look
            for chart in page.locator(".charts svg[role=img]").all():
                seen = chart.evaluate(_LABELS)
                assert seen["small"] >= 8, f"{look}: the labels are too small to read: {seen}"
                assert (seen["outside"], seen["overlaps"]) == (0, 0), f"{look}: {seen}"
            # What is folded is read as well.
            page.evaluate("document.querySelectorAll('details').forEach(one => { one.open = true })")
            widths = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
            assert widths[0] <= widths[1], f"{look} is wider than the window once unfolded: {widths}"
            found = axe.run(page, options={"resultTypes": ["violations"]})
            assert found.violations_count == 0, f"{look}: {found.generate_report()}"
            if folder := os.environ.get("AML_TRAIN_PICTURES"):
                page.screenshot(path=Path(folder, f"{file.stem}-{width}-{scheme}.png"), full_page=True)
