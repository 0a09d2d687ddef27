"""The list of runs: its filter, its metrics and its order come from its address."""

from __future__ import annotations

import json
import re
from urllib.parse import parse_qs, urlsplit

from aml_emulator.page.view import link
from aml_emulator.store.metrics import Metric
from tests.unit.emulator.page.test_page import Browser
from tests.unit.emulator.parts import Service


def log(service: Service, run: str, **metrics: float) -> None:
    service.store.metrics.log(
        run, [Metric(key=key, value=value, timestamp=0, step=0) for key, value in metrics.items()]
    )


def rows(html: str) -> list[str]:
    return re.findall(r'<tr data-key="([^"]*)">', html)


def test_a_heading_sorts_and_keeps_the_rest_of_the_address(service: Service) -> None:
    for name, loss in (("a", 0.5), ("b", 0.9), ("c", 0.1)):
        service.submit(name)
        log(service, name, loss=loss)
    service.submit("none")
    browser = Browser(service)
    address = link("", experiment="exp", metric=["loss"])
    for expected, kind in ((["b", "a", "c", "none"], "descending"), (["c", "a", "b", "none"], "ascending")):
        shown = browser.text(address)
        (heading,) = re.findall(r'<a href="([^"]*)">loss</a>', shown)
        address = heading.replace("&amp;", "&")
        shown = browser.text(address)
        assert rows(shown) == expected
        assert f'aria-sort="{kind}"><a' in shown
        asked = parse_qs(urlsplit(address).query)
        assert (asked["experiment"], asked["metric"]) == (["exp"], ["loss"])
    assert rows(browser.text("/ui/")) == ["none", "c", "b", "a"]
    assert rows(browser.text("/ui/?sort=nonsense&order=desc")) == ["none", "c", "b", "a"]


def test_metrics_of_the_gate_are_columns_unless_others_are_asked_for(service: Service) -> None:
    rules = json.dumps([["accuracy", ">= 0.9", 0.91, 0.9, "met"]])
    service.submit("gated", tags={"aml-train.gate-rules": rules})
    log(service, "gated", accuracy=0.91, loss=0.3)
    browser = Browser(service)
    assert re.findall(r'class="number"><a href="[^"]*">(\w+)</a>', browser.text("/ui/")) == ["Duration", "accuracy"]
    asked = browser.text(link("", metric=["loss"]))
    assert re.findall(r'class="number"><a href="[^"]*">(\w+)</a>', asked) == ["Duration", "loss"]
