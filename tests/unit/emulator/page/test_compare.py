"""The comparison of runs: what it shows, and what differs."""

from __future__ import annotations

import math
import re

import pytest

from tests.unit.emulator.page.test_page import Browser, log_values
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


def differences(html: str) -> dict[str, list[str]]:
    """Return the cells of the table by kind and name."""
    lines = re.findall(r'<tr><td>([^<]*)</td><th scope="row">([^<]*)</th>(.*?)</tr>', html)
    return {f"{kind} {name}": re.findall(r"<td[^>]*>([^<]*)</td>", cells) for kind, name, cells in lines}


def test_curves_are_over_each_other_and_differences_in_one_table(browser: Browser) -> None:
    shown = browser.text("/ui/compare?run=a&run=b&run=c")
    assert differences(shown) == {
        "Run command": [f"python train.py --rate {rate}" for rate in ("0.1", "0.001", "0.01")],
        "Parameter rate": ["0.1", "0.001", "0.01"],
        "Parameter optimizer": ["adam", "adam", "sgd"],
        "Input images": [f"images:{name}" for name in "abc"],
        "Tag commit": ["a", "b", "c"],
        "Metric loss": ["0", "0.5", "—"],
        "Metric only b": ["—", "2", "—"],
        "Metric score": ["—", "—", "0.25"],
    }
    assert re.findall("<figcaption>(.*)</figcaption>", shown) == ["loss", "only b"]
    loss = shown[shown.index("Chart of loss") :].partition("</svg>")[0]
    assert re.findall(r'<path class="run (run-\d)"', loss) == ["run-0", "run-1"]
    assert "No finite numbers of run b: NaN at step 1." in shown


@pytest.mark.parametrize(
    ("query", "status", "words"),
    [
        ("", 400, "2 to 10 runs can be compared, and the address names 0"),
        ("run=a&run=a&run=", 400, "the address names 1: mark them in the list of runs"),
        ("&".join(f"run=r{number}" for number in range(11)), 400, "the address names 11"),
        ("run=a&run=none", 404, "Not found: run &#39;none&#39;"),
    ],
)
def test_what_cannot_be_compared_is_said(browser: Browser, query: str, status: int, words: str) -> None:
    assert words in browser.text(f"/ui/compare?{query}", status=status)
