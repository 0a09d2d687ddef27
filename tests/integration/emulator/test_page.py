"""The page in a real browser, over a real emulator that real clients filled.

What is seen is kept as pictures where ``AML_TRAIN_PICTURES`` names a folder.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.bootstrap.probes import find_browser
from tests.support.emulator_process import Emulator

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

SECONDS = 300_000
"""How long the page may take, in milliseconds: machines that run tests are busy."""


def browser_path() -> str:
    """Return the browser; a machine without one is not ready, and that is no reason to test nothing."""
    found = find_browser(os.environ.get("AML_TRAIN_BROWSER"))
    if not found:
        pytest.fail(
            "Chromium is not installed: run `make bootstrap`, or set AML_TRAIN_BROWSER to a Chrome or Chromium"
        )
    return found


@pytest.fixture(scope="module")
def emulator(instant: Emulator) -> Emulator:
    return instant


@pytest.fixture(scope="module")
def filled(emulator: Emulator) -> dict[str, Any]:
    return emulator.client("fill", script="page_steps.py")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        # Chromium's sandbox needs rights that containers and root do not have; nothing foreign is opened here.
        launched = playwright.chromium.launch(executable_path=browser_path(), args=["--no-sandbox"])
        yield launched
        launched.close()


class Visit:
    """A tab that notes what goes wrong in it."""

    def __init__(self, page: Page, emulator: Emulator) -> None:
        self.page = page
        self.base = f"http://127.0.0.1:{emulator.port}"
        self.problems: list[str] = []
        page.set_default_timeout(SECONDS)
        page.on("console", self._said)
        page.on("pageerror", lambda error: self.problems.append(f"error: {error}"))
        page.on("requestfailed", self._not_just_left)
        page.on("request", self._only_here)

    def _said(self, message: Any) -> None:
        self.problems.append(f"console {message.type}: {message.text}")

    def _not_just_left(self, request: Any) -> None:
        if request.failure != "net::ERR_ABORTED":  # Chromium's word for what a page had not got yet when it was left
            self.problems.append(f"failed: {request.url}: {request.failure}")

    def _only_here(self, request: Any) -> None:
        if not request.url.startswith(self.base):
            self.problems.append(f"goes elsewhere: {request.url}")

    def open(self, path: str) -> Page:
        answer = self.page.goto(self.base + path, wait_until="load")
        assert answer is not None
        assert answer.status == 200, path
        return self.page

    def picture(self, name: str) -> None:
        folder = os.environ.get("AML_TRAIN_PICTURES")
        if folder:
            self.page.screenshot(path=Path(folder, f"{name}.png"), full_page=True)


def fetch(route: Route) -> None:
    """Have Playwright get what the browser asks for.

    Chromium breaks its own connections off with ERR_NETWORK_CHANGED whenever an engine makes or removes a network, a job's for instance, and
    no option of it helps: https://issues.chromium.org/issues/41465264.
    """
    from playwright.sync_api import Error

    try:
        route.fulfill(response=route.fetch(max_redirects=0, timeout=SECONDS))
    except Error as error:
        # Whoever has left a page does not want what is still under way.
        if "closed" not in error.message and "disposed" not in error.message:
            raise


@pytest.fixture
def visit(browser: Browser, emulator: Emulator, request: pytest.FixtureRequest) -> Iterator[Visit]:
    context = browser.new_context(**getattr(request, "param", {}))
    context.route("**/*", fetch)
    made = Visit(context.new_page(), emulator)
    yield made
    context.unroute_all(behavior="wait")
    context.close()
    assert made.problems == []


def compared(filled: dict[str, Any]) -> str:
    """Return the part of a comparison's address that names its runs: jobs, and trials of a sweep."""
    tune = filled["nodes"]["tune"]
    runs = (filled["done"], filled["live"], f"{tune}_0", f"{tune}_1", f"{tune}_2")
    return "&".join(f"run={run}" for run in runs)


def paths(filled: dict[str, Any]) -> dict[str, str]:
    done, live = filled["done"], filled["live"]
    return {
        "runs": "/ui/",
        "filtered": "/ui/?experiment=page&status=Completed&text=digits",
        "columns": "/ui/?children=yes&metric=val/accuracy&metric=train/loss&sort=metric.val/accuracy&order=desc",
        "compare": f"/ui/compare?{compared(filled)}",
        "run": f"/ui/runs/{done}",
        "live": f"/ui/runs/{live}",
        "graph": f"/ui/runs/{filled['graph']}",
        "sweep": f"/ui/runs/{filled['nodes']['tune']}",
        "trial": f"/ui/runs/{filled['nodes']['tune']}_1",
        "log": f"/ui/runs/{done}/log?path=user_logs/std_log.txt",
        "models": "/ui/models",
        "model": f"/ui/models/digits/{filled['model']}",
        "versions": "/ui/models/digits",
    }


@pytest.mark.full
@pytest.mark.parametrize(
    "visit",
    [
        {"viewport": {"width": width, "height": 800}, "color_scheme": scheme}
        for width, scheme in ((360, "dark"), (1280, "light"))
    ],
    indirect=True,
    ids=["360-dark", "1280-light"],
)
def test_every_page_is_whole_and_accessible(visit: Visit, filled: dict[str, Any]) -> None:
    from axe_playwright_python.sync_playwright import Axe

    axe = Axe()
    for name, path in paths(filled).items():
        page = visit.open(path)
        width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
        assert width[0] <= width[1], f"{name} is wider than the window: {width}"
        visit.picture(f"{name}-{width[1]}")
        assert page.title().endswith("· local AzureML"), name
        assert page.locator("h1").count() == 1, name
        assert page.locator("nav[aria-label=Main] [aria-current=page]").count() == 1, name
        found = axe.run(page, options={"resultTypes": ["violations"]})
        assert found.violations_count == 0, f"{name}: {found.generate_report()}"


def test_hostile_text_stays_text_and_the_gate_is_a_table(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["run"])
    rows = page.locator("#gate tbody tr").all_inner_texts()
    assert [row.split("\t")[-1] for row in rows[:2]] == ["met", "warned"]
    assert page.locator("h1").inner_text() == "digits <script>document.title='owned'</script>"
    assert "<b>bold</b> & done" in page.locator("pre[data-next]").inner_text()
    assert "owned" not in visit.open("/ui/").title()


@pytest.mark.full
def test_a_log_grows_and_the_end_is_seen(visit: Visit, emulator: Emulator, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["live"])
    log = page.locator("pre[data-next]")
    log.wait_for()
    before = log.inner_text().splitlines()
    emulator.client("grow", script="page_steps.py", job=filled["live"])
    page.wait_for_function(
        "count => document.querySelector('pre[data-next]').textContent.split('\\n').length > count + 5",
        arg=len(before),
    )
    assert emulator.client("cancel", script="page_steps.py", job=filled["live"])["seen"][-1] == "Canceled"
    page.locator(".status-Canceled").first.wait_for()
    page.wait_for_function("document.getElementById('said').textContent === 'This has ended.'")
    lines = log.inner_text().splitlines()
    assert lines[0] == "first"
    assert lines[1:] == [f"line {number}" for number in range(1, len(lines))], "lines were lost or shown twice"


@pytest.mark.parametrize("visit", [{"java_script_enabled": False}], indirect=True, ids=["no scripts"])
def test_without_scripts_everything_is_there(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open("/ui/")
    page.locator("details.filter summary").click()
    page.locator("select[name=status]").select_option("Completed")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/ui/?*status=Completed*")
    page.locator("#runs tbody th a", has_text="digits").click()
    page.wait_for_url(f"**{paths(filled)['run']}")
    assert page.locator("svg.chart .curve").first.get_attribute("d")
    with page.expect_download() as download:
        page.get_by_role("link", name="weights.txt").click()
    assert Path(download.value.path()).read_text() == "weights"
    assert download.value.suggested_filename == "weights.txt"
    page.get_by_role("link", name="digits, version").first.click()
    page.wait_for_url(f"**{paths(filled)['model']}")
    page.get_by_role("link", name=filled["done"]).first.click()
    page.wait_for_url(f"**{paths(filled)['run']}")
    visit.open(paths(filled)["graph"])
    page.locator("#children").get_by_role("link", name="tune", exact=True).click()
    page.wait_for_url(f"**{paths(filled)['sweep']}")
    trials = page.locator("#children tbody th").all_inner_texts()
    assert len(trials) == 3
    assert trials[1].endswith("★ best")
    page.locator("#children tbody th a").nth(1).click()
    page.wait_for_url(f"**{paths(filled)['trial']}")
    page.get_by_role("link", name="tune", exact=True).click()
    page.wait_for_url(f"**{paths(filled)['sweep']}")
    page = visit.open("/ui/")
    page.locator("details.filter summary").click()
    page.locator("select[name=metric]").select_option("val/accuracy")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**metric=val*")
    page.get_by_role("columnheader", name="val/accuracy").get_by_role("link").click()
    page.wait_for_url("**sort=metric.val*")
    assert page.locator("#runs tbody tr").first.get_attribute("data-key") == filled["done"]
    page = visit.open("/ui/")
    for run in (filled["done"], filled["live"]):
        page.locator(f"input[name=run][value='{run}']").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/ui/compare?run=*&run=*")
    assert page.locator("svg.chart path.run").first.get_attribute("d")
    assert page.locator("table.compare tbody tr").count() > 3
    # What a browser takes for failed is the navigation that became a download.
    visit.problems = [problem for problem in visit.problems if "/file?path=" not in problem]
