"""The comparison of runs: what it shows, and what differs."""

from __future__ import annotations

import hashlib
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from aml_emulator.page.site import FOLDER, STATIC, VENDORED
from aml_emulator.page.view import link
from aml_emulator.store.metrics import Metric
from tests.unit.emulator.page.test_page import HOSTILE, Browser, log_values
from tests.unit.emulator.parts import Service


@pytest.fixture
def browser(service: Service) -> Browser:
    for name, rate, optimizer in (("a", "0.1", "adam"), ("b", "0.001", "adam"), ("c", "0.01", "sgd")):
        answer = service.submit(
            name,
            displayName=f"run {name}",
            tags={"team": "vision", "commit": name},
            inputs={
                "images": {"jobInputType": "literal", "value": f"images:{name}"},
                "n": {"jobInputType": "literal", "value": "3"},
            },
            command=f"python train.py --rate {rate}",
        )
        assert answer.status == 201, answer.body
        service.store.metrics.set_params(name, [("rate", rate), ("optimizer", optimizer), ("seed", "7")])
    log_values(service, "a", "loss", [4.0, 2.0, 1.0, 0.0])
    log_values(service, "b", "loss", [3.0, math.nan, 0.5])
    log_values(service, "b", "only b", [1.0, 2.0])
    log_values(service, "c", "score", [0.25])
    return Browser(service)


def tables(html: str) -> dict[str, dict[str, list[str]]]:
    """Return the cells of each table by its caption and the names of its lines."""
    found = {}
    for table in re.findall(r'<table class="compare">(.*?)</table>', html, re.DOTALL):
        caption = re.findall(r"<caption>([^<;]*)", table)[0]
        lines = re.findall(r"<tr[^>]*><th scope=\"row\">([^<]*).*?</th>(.*?)</tr>", table)
        found[caption] = {name.strip(): re.findall(r"<td[^>]*>([^<]*)</td>", cells) for name, cells in lines}
    return found


def test_all_values_are_next_to_each_other(browser: Browser) -> None:
    shown = browser.text("/ui/compare?run=a&run=b&run=c")
    found = tables(shown)
    assert found["Parameters"] == {
        "optimizer": ["adam", "adam", "sgd"],
        "rate": ["0.1", "0.001", "0.01"],
        "seed": ["7"] * 3,
    }
    assert found["Inputs"] == {"images": [f"images:{name}" for name in "abc"], "n": ["3"] * 3}
    assert found["Tags"] == {"commit": ["a", "b", "c"], "team": ["vision"] * 3}
    assert found["Environment"] == {"Environment": ["env:1"] * 3, "Image": ["python:3.11"] * 3}
    assert found["Run"]["Command"] == [f"python train.py --rate {rate}" for rate in ("0.1", "0.001", "0.01")]
    assert found["Run"]["Compute"] == ["local-cluster"] * 3
    assert found["Last values of metrics"] == {
        "loss": ["0", "0.5", "—"],
        "only b": ["—", "2", "—"],
        "score": ["—", "—", "0.25"],
    }
    assert re.findall(r'data-curves="[^"]*key=([^"]*)"', shown) == ["loss", "only+b"]
    assert "b: 1 values are no finite numbers." in shown


def test_only_differences_leave_out_what_is_the_same(browser: Browser) -> None:
    shown = browser.text("/ui/compare?run=a&run=b&differences=yes")
    found = tables(shown)
    assert found["Parameters"] == {"rate": ["0.1", "0.001"]}
    assert found["Tags"] == {"commit": ["a", "b"]}
    assert found["Inputs"] == {"images": ["images:a", "images:b"]}
    assert set(found["Run"]) == {"Command"}
    assert "<p>Environment: all 2 are the same.</p>" in shown
    assert "<caption>Parameters; 2 that are the same are left out</caption>" in shown


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "2 to 10 runs can be compared, and the address names 0"),
        ("run=a", 400, "the address names 1: mark them in the list of runs"),
        ("run=a&run=a&run=", 400, "the address names 1"),
        ("&".join(f"run=r{number}" for number in range(11)), 400, "the address names 11"),
        ("run=a&run=none", 404, "Not found: run &#39;none&#39;"),
        ("run=a&run=b&smooth=much", 400, "&#39;smooth&#39; is not a number: &#39;much&#39;"),
        ("run=a&run=b&smooth=1", 400, "&#39;smooth&#39; is from 0 to 0.99, not 1"),
        ("run=a&run=b&smooth=nan", 400, "&#39;smooth&#39; is from 0 to 0.99, not nan"),
    ],
)
def test_what_cannot_be_compared_is_said(browser: Browser, query: str, status: int, words: str) -> None:
    for path in ("compare", "compare/curves.json"):
        assert words in browser.text(f"/ui/{path}?{query}", status=status)


def test_a_run_can_be_taken_out_and_added(browser: Browser) -> None:
    shown = browser.text("/ui/compare?run=a&run=b&run=c&log=yes&smooth=0.5&metric=score")
    assert 'href="/ui/compare?run=a&amp;run=c&amp;log=yes&amp;smooth=0.5&amp;metric=score"' in shown
    assert [f'type="hidden" name="run" value="{name}"' in shown for name in "abc"] == [True] * 3
    assert '<input name="run"' in shown
    assert "take out" not in browser.text("/ui/compare?run=a&run=b")


def test_parallel_coordinates_have_what_differs(browser: Browser) -> None:
    shown = browser.text("/ui/compare?run=a&run=b&run=c&metric=loss")
    drawing = shown[shown.index('<svg class="parallel"') :].partition("</svg>")[0]
    assert re.findall(r'class="name"[^>]*>([^<]*)<', drawing) == ["optimizer", "rate", "loss"]
    assert re.findall(r'class="trial trial-(run run-\d)"', drawing) == ["run run-0", "run run-1", "run run-2"]
    assert "3 runs." in drawing
    service_has_no_parameters = browser.text("/ui/compare?run=a&run=b&metric=nonsense")
    assert "Parallel coordinates" in service_has_no_parameters


def curves(browser: Browser, query: str) -> Any:
    return json.loads(browser.text(f"/ui/compare/curves.json?{query}"))


def test_curves_are_json_for_the_script(browser: Browser) -> None:
    found = curves(browser, "run=a&run=b&run=c&key=loss")
    assert found == {
        "by_step": True,
        "curves": [
            {"number": 0, "name": "run a", "x": [0, 1, 2, 3], "y": [4, 2, 1, 0]},
            {"number": 1, "name": "run b", "x": [0, 1, 2], "y": [3, None, 0.5]},
        ],
    }
    assert curves(browser, "run=a&run=b&key=loss&smooth=0.5")["curves"][0]["y"] == pytest.approx(
        [4, 8 / 3, 12 / 7, 12 / 15]
    )
    assert "Not found: metric &#39;x&#39;" in browser.text("/ui/compare/curves.json?run=a&run=b&key=x", status=404)
    assert browser.ask("/ui/compare/curves.json?run=a&run=b&key=loss").content.type.startswith("application/json")


def test_curves_without_steps_are_compared_by_time(service: Service, browser: Browser) -> None:
    service.store.metrics.log(
        "c", [Metric(key="loss", value=value, timestamp=1_000_000 + 2000 * value, step=0) for value in (1, 2)]
    )
    found = curves(browser, "run=a&run=c&key=loss")
    assert not found["by_step"]
    assert [one["x"] for one in found["curves"]] == [[0, 1, 2, 3], [0, 2]]
    assert curves(browser, "run=a&run=b&key=loss&x=time")["by_step"] is False
    assert "seconds after the first value" in browser.text("/ui/compare?run=a&run=c")


def test_secrets_and_hostile_names_of_curves_are_harmless(service: Service, browser: Browser) -> None:
    service.submit("d", displayName=f"{HOSTILE} {service.services.identity.storage_key}")
    log_values(service, "d", "loss", [1.0, 2.0])
    text = browser.text("/ui/compare/curves.json?run=a&run=d&key=loss")
    assert service.services.identity.storage_key not in text
    assert json.loads(text)["curves"][1]["name"] == f"{HOSTILE} •••"


def test_pages_with_forms_are_refreshed_by_the_script_alone(browser: Browser) -> None:
    for path, reloads in (("", False), ("compare?run=a&run=b", False), ("runs/a", True)):
        shown = browser.text(f"/ui/{path}")
        assert "<body data-live>" in shown
        assert ("http-equiv" in shown) is reloads


def test_many_metrics_come_in_pages(service: Service, browser: Browser) -> None:
    for number in range(30):
        log_values(service, "a", f"m{number:02}", [1.0, 2.0])
    shown = browser.text(link("compare", run=["a", "b"], log="yes", page=2))
    assert shown.count("<figure") == 12
    assert "13–24 of 32" in shown
    assert 'rel="next" href="/ui/compare?run=a&amp;run=b&amp;page=3&amp;log=yes' in shown


def test_vendored_files_are_those_of_the_registry() -> None:
    folder = FOLDER / "static" / VENDORED
    recorded = json.loads((folder / "vendored.json").read_text())
    files = {name: digest for one in recorded.values() for name, digest in one["files"].items()}
    present = {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}
    present.pop("vendored.json")
    assert present == files
    assert set(files) <= set(STATIC)
    script = Path(folder, "uPlot.iife.min.js").read_text()
    assert f"(v{recorded['uplot']['version']})" in script
    for word in ("eval(", "new Function", "innerHTML", "cssText", "insertRule", "http:"):
        assert word not in script, "a strict Content-Security-Policy, and nothing from elsewhere"


@pytest.mark.parametrize("name", STATIC)
def test_static_files_are_served(browser: Browser, name: str) -> None:
    answer = browser.ask(f"/ui/static/{name}")
    assert (answer.status, answer.content.type) == (200, STATIC[name])
    assert answer.content.body
