"""The page in a real browser, over a real emulator that real clients filled.

What is seen is kept as pictures where ``AML_TRAIN_PICTURES`` names a folder.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from scripts.bootstrap.probes import find_browser
from tests.support.emulator_process import Emulator, running

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page, Route

WIDTHS = (360, 1280)
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
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("page"))) as service:
        yield service


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
        # A run of these tests has a file that only its name calls a picture.
        if not str(message.location.get("url", "")).endswith("wrong.png"):
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


COLUMNS = (
    "status", "branch", "gate", "model", "stage", "compute", "created", "started", "ended", "duration",
    "metrics.val/accuracy", "metrics.train/loss", "metrics.spiky", "params.optimizer", "tags.commit",
)  # fmt: skip


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
        "columns": "/ui/?children=yes&sort=metrics.val/accuracy&order=desc&where=status+!=+'Failed'&"
        + "&".join(f"column={name}" for name in COLUMNS),
        "refused": "/ui/?where=metrics.val/accuracy+>",
        "compare": f"/ui/compare?{compared(filled)}&metric=score",
        "differences": f"/ui/compare?{compared(filled)}&differences=yes&log=yes&smooth=0.6&x=time",
        "run": f"/ui/runs/{done}",
        "live": f"/ui/runs/{live}",
        "graph": f"/ui/runs/{filled['graph']}",
        "sweep": f"/ui/runs/{filled['nodes']['tune']}",
        "trial": f"/ui/runs/{filled['nodes']['tune']}_1",
        "metric": f"/ui/runs/{done}/metric?key=train/loss",
        "long": f"/ui/runs/{done}/metric?key=long&page=3",
        "log": f"/ui/runs/{done}/log?path=user_logs/std_log.txt",
        "picture": f"/ui/runs/{done}/view?path=outputs/shown/curve.png",
        "no picture": f"/ui/runs/{done}/view?path=outputs/shown/wrong.png",
        "models": "/ui/assets/models",
        "model": f"/ui/assets/models/digits/{filled['model']}",
        "versions": "/ui/assets/models/digits",
        "data": "/ui/assets/data",
        "environments": "/ui/assets/environments",
        "environment": "/ui/assets/environments/page-env/1",
        "codes": "/ui/assets/codes",
        "computes": "/ui/computes",
        "datastores": "/ui/datastores",
        "requests": "/ui/requests",
        "failed": "/ui/requests?failed=1",
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


@pytest.mark.full
@pytest.mark.parametrize(
    "visit", [{"viewport": {"width": width, "height": 900}} for width in WIDTHS], indirect=True, ids=map(str, WIDTHS)
)
def test_the_charts_are_drawn(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["run"])
    charts = page.locator("#metrics svg.chart")
    assert charts.count() == 7
    for chart in charts.all():
        seen = chart.evaluate(
            """svg => {
                const inside = box => {
                    const frame = svg.getBoundingClientRect();
                    return box.left >= frame.left - 1 && box.right <= frame.right + 1
                        && box.top >= frame.top - 1 && box.bottom <= frame.bottom + 1;
                };
                const boxes = [...svg.querySelectorAll('text.label')].map(label => label.getBoundingClientRect());
                const overlap = (a, b) => a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom;
                const curve = svg.querySelector('.curve');
                return {
                    title: svg.querySelector('title').textContent,
                    labels: boxes.length,
                    small: Math.min(...boxes.map(box => box.height)),
                    outside: boxes.filter(box => !inside(box)).length,
                    overlaps: boxes.filter((a, i) => boxes.some((b, j) => i < j && overlap(a, b))).length,
                    length: curve.getTotalLength(),
                    curveInside: inside(curve.getBoundingClientRect()),
                    stroke: getComputedStyle(curve).stroke,
                };
            }"""
        )
        assert seen["labels"] >= 6, seen
        assert seen["small"] >= 9, f"the labels are too small to read: {seen}"
        assert (seen["outside"], seen["overlaps"], seen["curveInside"]) == (0, 0, True), seen
        assert seen["length"] > 100, seen
        assert seen["stroke"].startswith("rgb"), seen
    odd = page.locator("figure", has_text="spiky").first
    assert odd.locator("path.odd").count() == 3
    assert "NaN at step 0, ∞ at step 2, -∞ at step 4" in odd.inner_text()
    long = page.locator("figure", has_text="Thinned")
    assert "4000 values" in long.inner_text()
    points = long.locator(".curve").get_attribute("d") or ""
    assert 250 < points.count("L") <= 600
    odd.locator("summary").click()
    assert odd.locator("tbody tr").count() == 7
    visit.picture(f"charts-{page.viewport_size['width'] if page.viewport_size else 0}")


def test_pictures_are_shown_by_their_content(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["run"])
    widths = {}
    for picture in page.locator(".gallery img").all():
        picture.scroll_into_view_if_needed()
        picture.evaluate("image => image.complete || new Promise(done => image.onload = image.onerror = done)")
        widths[picture.get_attribute("src")] = picture.evaluate("image => image.naturalWidth")
    place = f"/ui/runs/{filled['done']}/picture?path=outputs%2Fshown%2F"
    assert widths == {f"{place}curve.png": 64, f"{place}wrong.png": 0}
    page.get_by_role("link", name="outputs/shown/curve.png").click()
    page.wait_for_url("**/view?path=outputs%2Fshown%2Fcurve.png")
    assert page.locator("img.whole").evaluate("image => image.naturalHeight") == 48


@pytest.mark.parametrize("name", ["report.html", "drawing.svg"])
def test_a_document_of_a_job_can_do_nothing(visit: Visit, filled: dict[str, Any], name: str) -> None:
    sent: list[str] = []

    def stop(route: Route) -> None:
        sent.append(route.request.url)
        route.abort()

    visit.page.context.route("http://evil.example/**", stop)
    page = visit.open(f"/ui/runs/{filled['done']}/view?path=outputs/shown/{name}")
    address, title = page.url, page.title()
    (frame,) = [one for one in page.frames if one.parent_frame == page.main_frame]
    frame.wait_for_load_state()
    if name == "report.html":
        assert frame.locator("h1").inner_text() == "A report"
        assert frame.locator("h1").evaluate("heading => getComputedStyle(heading).color") == "rgb(200, 0, 0)"
        for link in ("above", "leave"):
            frame.get_by_role("link", name=link).click()
        visit.picture("report")
    # Whatever the document would do by itself, it would have done before this answer.
    assert page.evaluate("fetch('/ui/static/page.css').then(answer => answer.status)") == 200
    assert (page.url, page.title()) == (address, title)
    assert len(page.context.pages) == 1
    assert sent == []
    # The browser says of each that it blocked it.
    assert any("sandboxed" in one for one in visit.problems)
    visit.problems = []


def test_gates_and_lineage_are_read_without_the_graph(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["run"])
    rows = page.locator("#gate tbody tr").all_inner_texts()
    assert [row.split("\t")[-1] for row in rows[:2]] == ["met", "warned"]
    visit.open(paths(filled)["model"])
    listed = page.locator(".tree").inner_text()
    for words in ("model digits:", "job digits", "image python:3.11-slim-bookworm", "commit 0123456789abcdef"):
        assert words in listed
    job = page.locator("svg.graph").get_by_role("link", name="job digits")
    job.focus()
    page.keyboard.press("Enter")
    page.wait_for_url(f"**{paths(filled)['run']}")


def test_hostile_text_stays_text(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["run"])
    assert page.locator("h1").inner_text() == "digits <script>document.title='owned'</script>"
    assert "<b>bold</b> & done" in page.locator("pre[data-next]").inner_text()
    assert "owned" not in visit.open("/ui/").title()


@pytest.mark.full
@pytest.mark.parametrize("visit", [{"viewport": {"width": 390, "height": 700}}], indirect=True, ids=["390"])
def test_a_refresh_keeps_the_readers_place(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["columns"])
    page.locator(f"input[name=run][value='{filled['done']}']").check()
    page.get_by_text("Columns", exact=True).click()
    link = page.locator(f"tr[data-key='{filled['live']}'] th a")
    link.focus()
    page.evaluate(
        "document.getElementById('runs').scrollLeft = 120; scrollTo(0, 200); getSelection().selectAllChildren(document.querySelector('h1'))"
    )
    before = page.evaluate("[document.getElementById('runs').scrollLeft, scrollY]")
    assert before[0] == 120
    duration = f"tr[data-key='{filled['live']}'] td.number"
    shown = page.locator(duration).first.inner_text()
    page.wait_for_function(
        "([where, shown]) => document.querySelector(where).innerText !== shown", arg=[duration, shown]
    )
    assert page.evaluate("[document.getElementById('runs').scrollLeft, scrollY]") == before
    assert page.evaluate("document.activeElement.closest('tr').dataset.key") == filled["live"]
    assert page.locator("input[name=run]:checked").count() == 1
    assert page.locator("form.filter details").get_attribute("open") is not None
    assert page.evaluate("getSelection().toString()") == "Runs"


@pytest.mark.full
def test_a_log_grows_and_the_end_is_seen(visit: Visit, emulator: Emulator, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["live"])
    log = page.locator("pre[data-next]")
    log.wait_for()
    before = log.inner_text().splitlines()
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
    page.locator("select[name=status]").select_option("Completed")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**/ui/?*status=Completed*")
    page.locator("#runs tbody th a", has_text="digits").click()
    page.wait_for_url(f"**{paths(filled)['run']}")
    assert page.locator("svg.chart .curve").first.get_attribute("d")
    with page.expect_download() as download:
        page.get_by_role("link", name="weights.txt").click()
    assert Path(download.value.path()).read_text() == "weights\n"
    assert download.value.suggested_filename == "weights.txt"
    page.get_by_role("link", name="digits, version").first.click()
    page.wait_for_url(f"**{paths(filled)['model']}")
    assert "python:3.11-slim-bookworm" in page.locator(".tree").inner_text()
    visit.open(paths(filled)["graph"])
    page.locator("svg.graph").get_by_role("link", name="tune: sweep · Completed").click()
    page.wait_for_url(f"**{paths(filled)['sweep']}")
    assert page.locator("svg.parallel .trial").count() == 3
    page.get_by_role("link", name="rate").click()
    page.wait_for_url("**?sort=p.rate&order=asc#trials")
    numbers = page.locator("#trials tbody th")
    assert numbers.all_inner_texts() == ["0", "2", "1 ★ best"]
    numbers.last.get_by_role("link").click()
    page.wait_for_url(f"**{paths(filled)['trial']}")
    page.get_by_role("link", name="tune", exact=True).click()
    page.wait_for_url(f"**{paths(filled)['sweep']}")
    page = visit.open("/ui/")
    page.get_by_text("Columns", exact=True).click()
    page.locator("input[name=column][value='metrics.val/accuracy']").check()
    page.locator("input[name=where]").fill("metrics.val/accuracy > 0.5")
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**where=*")
    page.get_by_role("columnheader", name="val/accuracy").get_by_role("link").click()
    page.wait_for_url("**sort=metrics.val*")
    assert page.locator("#runs tbody tr").count() == 1
    page = visit.open("/ui/")
    for run in (filled["done"], filled["live"]):
        page.locator(f"input[name=run][value='{run}']").check()
    page.get_by_role("button", name="Compare").click()
    page.wait_for_url("**/ui/compare?run=*&run=*")
    assert page.locator("svg.chart path.run").first.get_attribute("d")
    page.get_by_label("Only differences").check()
    page.get_by_role("button", name="Show").click()
    page.wait_for_url("**differences=yes*")
    assert page.locator("table.compare tbody tr:not(.differs)").count() == 0
    # What a browser takes for failed is the navigation that became a download.
    visit.problems = [problem for problem in visit.problems if "/file?path=" not in problem]


@pytest.mark.full
def test_the_keyboard_leads_past_the_navigation(visit: Visit) -> None:
    page = visit.open("/ui/")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the content"
    page.keyboard.press("Enter")
    page.wait_for_url("**/ui/#content")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.name") == "experiment"


@pytest.mark.full
def test_keys_walk_through_the_list_and_mark_runs(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open("/ui/?text=")
    focused = "document.activeElement.closest('tr')?.dataset.key"
    rows = page.locator("#runs tbody tr").evaluate_all("rows => rows.map(row => row.dataset.key)")
    page.keyboard.press("j")
    assert page.evaluate(focused) == rows[0]
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("ArrowUp")
    assert page.evaluate(focused) == rows[0]
    page.keyboard.press("x")
    assert page.locator("input[name=run]:checked").evaluate_all("all => all.map(one => one.value)") == rows[:2]
    page.keyboard.press("/")
    page.keyboard.type("jk")
    assert page.evaluate("[document.activeElement.name, document.activeElement.value]") == ["text", "jk"]
    page.keyboard.press("Escape")
    page.get_by_label("Keys are on").uncheck()
    page.keyboard.press("j")
    assert page.evaluate(focused) is None
    page.get_by_label("Keys are on").check()
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/ui/runs/{rows[0]}")


@pytest.mark.full
@pytest.mark.parametrize(
    "visit",
    [
        {"viewport": {"width": width, "height": 900}, "color_scheme": scheme}
        for width, scheme in ((390, "dark"), (1280, "light"))
    ],
    indirect=True,
    ids=["390-dark", "1280-light"],
)
def test_curves_of_runs_are_read_and_enlarged(visit: Visit, filled: dict[str, Any]) -> None:
    page = visit.open(paths(filled)["compare"])
    figure = page.locator("figure", has_text="train/loss")
    figure.locator(".u-over").wait_for()
    assert not figure.locator("svg.chart").is_visible(), "the server's drawing makes room"
    painted = """canvas => {
        const pixels = canvas.getContext('2d').getImageData(0, 0, canvas.width, canvas.height).data;
        return pixels.filter((value, at) => at % 4 === 3 && value > 0).length;
    }"""
    assert figure.locator("canvas").evaluate(painted) > 1000
    width = page.evaluate("[document.documentElement.scrollWidth, window.innerWidth]")
    assert width[0] <= width[1]
    over = figure.locator(".u-over")
    over.scroll_into_view_if_needed()
    box = over.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    value = figure.locator(".u-legend .u-series").nth(1).locator(".u-value")
    page.wait_for_function("cell => Number(cell.textContent) > 0", arg=value.element_handle())
    step = figure.locator(".u-legend .u-series").first.locator(".u-value")
    middle = float(step.inner_text())
    page.mouse.move(box["x"] + box["width"] * 0.6, box["y"] + 30)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.9, box["y"] + 30, steps=4)
    page.mouse.up()
    page.mouse.move(box["x"] + box["width"] / 2 + 1, box["y"] + 40)
    page.wait_for_function(
        "([cell, before]) => Number(cell.textContent) > before", arg=[step.element_handle(), middle]
    )
    visit.picture(f"enlarged-{width[1]}")
    page.get_by_label("Logarithmic").check()
    page.wait_for_url("**log=yes*")
    figure.locator("canvas").wait_for()
    colours = page.locator("svg.parallel .trial-run").evaluate_all(
        "all => all.map(one => getComputedStyle(one).stroke)"
    )
    assert len(set(colours)) == len(colours) >= 2, "each run has its colour"


@pytest.mark.full
def test_other_pages_get_nothing(browser: Browser, emulator: Emulator, filled: dict[str, Any]) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.set_default_timeout(SECONDS)
    address = f"http://127.0.0.1:{emulator.port}/ui/runs/{filled['done']}"
    # A page of another origin that the test serves itself: `localhost` is not `127.0.0.1`.
    page.route("http://localhost:1/", lambda route: route.fulfill(body="<h1>foreign</h1>", content_type="text/html"))
    page.goto("http://localhost:1/")
    fetched = page.evaluate(
        "async address => { try { return await (await fetch(address)).text() } catch (error) { return 'refused' } }",
        address,
    )
    assert fetched == "refused"
    page.evaluate(
        "address => { const frame = document.createElement('iframe'); frame.src = address; document.body.append(frame) }",
        address,
    )
    (frame,) = page.frames[1:]
    deadline = time.monotonic() + SECONDS / 1000
    while frame.url in ("", "about:blank") and time.monotonic() < deadline:
        page.wait_for_timeout(50)
    assert frame.url.startswith("chrome-error:"), "a frame of the page in a foreign one"
    assert "local AzureML" not in frame.content()
    context.close()
