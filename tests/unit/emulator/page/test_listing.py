"""The list of runs: its columns, its filter and its order come from its address."""

from __future__ import annotations

import re
from contextlib import closing
from urllib.parse import parse_qs, urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_emulator.api.errors import MlflowError
from aml_emulator.page.listing import COLUMNS, chosen_columns, conditions_of, field_of, name_of
from aml_emulator.page.view import link
from aml_emulator.store.conditions import RunFilter
from aml_emulator.store.listing import BRANCHES
from aml_emulator.store.metrics import Metric
from aml_emulator.store.store import Store
from tests.support.page_runs import SteppingClock, fill
from tests.unit.emulator.page.test_page import HOSTILE, Browser, Parsed
from tests.unit.emulator.parts import Service


def log(service: Service, run: str, **metrics: float) -> None:
    service.store.metrics.log(
        run, [Metric(key=key, value=value, timestamp=0, step=0) for key, value in metrics.items()]
    )


def headings(html: str) -> list[str]:
    return re.findall(r'<th scope="col"[^>]*><a href="[^"]*">([^<]*)</a>', html)


def rows(html: str) -> list[str]:
    return re.findall(r'<tr data-key="([^"]*)">', html)


def test_without_a_choice_there_are_the_columns_that_runs_have(service: Service) -> None:
    service.submit("plain")
    browser = Browser(service)
    assert headings(browser.text("/ui/")) == ["Run", "Status", "Experiment", "Created", "Duration"]
    service.submit("ours", tags={"aml-train.branch": "main", "aml-train.gate": "passed"})
    service.store.assets.put("models", "digits", "3", {"jobName": "ours", "tags": {"aml-train.stage": "production"}})
    shown = browser.text("/ui/")
    assert headings(shown) == [
        "Run", "Status", "Experiment", "Branch", "Gate", "Model", "Stage", "Created", "Duration",
    ]  # fmt: skip
    assert '<a href="/ui/assets/models/digits/3">digits:3</a>' in shown
    assert '<span class="gate gate-passed">passed</span>' in shown
    assert "<td>production</td>" in shown


def test_columns_are_chosen_by_the_address(service: Service) -> None:
    for name in ("a", "b"):
        service.submit(name, tags={"team": f"team of {name}"})
    log(service, "a", loss=0.123456789, accuracy=1.0)
    service.store.metrics.set_params("b", [("lr", "0.1")])
    columns = ["metrics.loss", "params.lr", "tags.team", "compute", "nonsense", "metrics.", "metrics.loss", ""]
    shown = Browser(service).text(link("", column=columns))
    assert headings(shown) == ["Run", "loss", "lr", "team", "Compute"]
    for cell in ('<td class="number">0.123457</td>', "<td>0.1</td>", "<td>team of a</td>", "<td>local-cluster</td>"):
        assert cell in shown
    assert '<td class="number">—</td>' in shown
    chosen = set(re.findall(r'name="column" value="([^"]*)" checked', shown))
    offered = set(re.findall(r'type="checkbox" name="column" value="([^"]*)"', shown))
    assert chosen == {"metrics.loss", "params.lr", "tags.team", "compute"}
    assert chosen | {"metrics.accuracy", "branch", "gate", "stage", "created"} <= offered
    assert len(chosen_columns([f"metrics.{number}" for number in range(100)])) == COLUMNS


def test_a_heading_sorts_and_keeps_the_rest_of_the_address(service: Service) -> None:
    for name, loss in (("a", 0.5), ("b", 0.9), ("c", 0.1)):
        service.submit(name)
        log(service, name, loss=loss)
    service.submit("none")
    browser = Browser(service)
    address = link("", experiment="exp", column=["metrics.loss", "status"], where="status != 'Failed'")
    for expected, kind in ((["b", "a", "c", "none"], "descending"), (["c", "a", "b", "none"], "ascending")):
        shown = browser.text(address)
        (heading,) = re.findall(r'<a href="([^"]*)">loss</a>', shown)
        address = heading.replace("&amp;", "&").replace("&#39;", "'")
        shown = browser.text(address)
        assert rows(shown) == expected
        assert f'aria-sort="{kind}"><a' in shown
        assert f"Runs, by loss, {kind}" in shown
        asked = parse_qs(urlsplit(address).query)
        assert (asked["experiment"], asked["column"]) == (["exp"], ["metrics.loss", "status"])
        assert asked["where"] == ["status != 'Failed'"]
    assert rows(browser.text("/ui/")) == ["none", "c", "b", "a"]
    assert rows(browser.text("/ui/?sort=nonsense&order=desc")) == ["none", "c", "b", "a"]


def test_a_filter_that_is_not_understood_is_said_and_can_be_changed(service: Service) -> None:
    service.submit("a")
    browser = Browser(service)
    for where, words in (
        ("metrics.loss >", "does not understand the filter"),
        ("colour = 'red'", "Invalid attribute key &#39;colour&#39;"),
        ("metrics.loss > high", "loss is a number, and &#39;high&#39; is none"),
        ("params.lr < high", "lr is a number"),
        ("created > yesterday", "created is a time, such as 2026-11-20"),
        ("created LIKE 2026-11-20", "does not compare numbers"),
        ("branch > 'main'", "does not compare text"),
    ):
        shown = browser.text(link("", where=where))
        assert words in shown, where
        assert 'aria-invalid="true"' in shown
        assert rows(shown) == []
    assert "No run is like that." in browser.text(link("", where="metrics.loss > 1"))


def test_the_filter_stays_in_the_form_and_between_pages(service: Service) -> None:
    clock = SteppingClock()
    store = service.store
    store.runs._clock = clock
    fill(store, clock, 120, steps=2)
    browser = Browser(service)
    shown = browser.text(
        link("", where="params.depth >= 3", branch="main", sort="params.depth", column=["params.depth"])
    )
    assert 'value="params.depth &gt;= 3"' in shown
    assert '<option value="main" selected>' in shown
    assert '<input type="hidden" name="sort" value="params.depth">' in shown
    total = int(re.findall(r"1–\d+ of (\d+)", shown)[0])
    assert 5 < total < 120
    everything = browser.text("/ui/")
    following = re.findall(r'rel="next" href="([^"]*)"', everything)[0].replace("&amp;", "&")
    assert len(rows(everything)) == 50
    assert "51–100 of 120" in browser.text(following)
    assert set(rows(everything)).isdisjoint(rows(browser.text(following)))


def test_many_branches_are_cut_and_the_chosen_one_stays(service: Service) -> None:
    clock = SteppingClock()
    service.store.runs._clock = clock
    experiment = service.store.runs.ensure_experiment("e").id
    for number in range(BRANCHES + 5):
        clock.now += 1
        service.store.runs.create(
            run_id=f"r{number}",
            experiment_id=experiment,
            display_name="r",
            status="Completed",
            tags={"aml-train.branch": f"b{number:03}"},
        )
    browser = Browser(service)
    offered = re.findall(r'<option value="(b\d+)"', browser.text("/ui/"))
    assert offered == [f"b{number:03}" for number in range(5, BRANCHES + 5)]
    shown = browser.text("/ui/?branch=b000")
    assert '<option value="b000" selected>' in shown
    assert rows(shown) == ["r0"]


@given(st.sampled_from(["metrics", "params", "tags"]), st.text(min_size=1))
@settings(deadline=None)
def test_names_of_values_are_read_back(group: str, key: str) -> None:
    field = field_of(f"{group}.{key}")
    assert field is not None
    assert (field.group, field.key, name_of(field)) == (group, key, f"{group}.{key}")


WORDS = st.sampled_from(
    ["metrics.a", "params.`b c`", "tags.d", "status", "created", "duration", "model", "stage", "=", "!=", "<", "LIKE",
     "NOT IN", "(", ")", ",", "and", "'x'", "1", "1e400", "nan", "2026-11-20", "'%_*'", "'2026-11-20T10:00+25:00'"]
)  # fmt: skip


@given(st.text() | st.lists(WORDS, max_size=8).map(" ".join))
@settings(deadline=None, max_examples=300)
def test_any_filter_is_carried_out_or_refused_in_words(where: str) -> None:
    with closing(Store(":memory:")) as store:
        try:
            conditions = conditions_of(where)
        except MlflowError:
            return
        assert store.listing.runs(RunFilter(conditions=conditions), limit=1) == ([], 0)


@pytest.mark.parametrize("group", ["metrics", "params", "tags"])
def test_hostile_names_of_columns_are_only_text(service: Service, group: str) -> None:
    service.submit("a", tags={HOSTILE: HOSTILE, "aml-train.branch": HOSTILE, "aml-train.gate": HOSTILE})
    log(service, "a", **{HOSTILE: 1.0})
    service.store.metrics.set_params("a", [(HOSTILE, HOSTILE)])
    service.store.assets.put("models", HOSTILE, "1", {"jobName": "a", "tags": {"aml-train.stage": HOSTILE}})
    name = f"{group}.{HOSTILE}"
    columns = [name, "branch", "gate", "model", "stage"]
    shown = Browser(service).text(link("", column=columns, sort=name, order="desc", where=HOSTILE))
    shown += Browser(service).text(link("", column=columns, sort=name, order="desc", branch=HOSTILE))
    assert shown.count("alert(1)") > 10
    for tag, attributes in Parsed(shown).elements:
        assert tag != "img"
        assert tag != "script" or str(attributes.get("src")).startswith("/ui/static/")
        assert not any(given.startswith("on") or given == "style" for given in attributes)
