"""Lists of runs in SQL: any condition and any order, as plain Python has them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import closing
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from aml_emulator.domain.jobs.compute import compute_name
from aml_emulator.page.listing import GRAMMAR, conditions_of, field_of
from aml_emulator.store.conditions import NUMBERS, TEXTS, RunFilter
from aml_emulator.store.listing import ModelLine
from aml_emulator.store.metrics import Metric
from aml_emulator.store.store import Store


class Clock:
    now = 1_793_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(clock: Clock) -> Iterator[Store]:
    with closing(Store(":memory:", clock=clock)) as made:
        yield made


def make(
    store: Store,
    name: str,
    *,
    experiment: str = "exp",
    metrics: Mapping[str, float] | None = None,
    params: Mapping[str, str] | None = None,
    **values: Any,
) -> None:
    store.runs.create(
        run_id=name,
        experiment_id=store.runs.ensure_experiment(experiment).id,
        display_name=values.pop("display_name", name),
        status=values.pop("status", "Completed"),
        **values,
    )
    logged = [Metric(key=key, value=value, timestamp=0, step=0) for key, value in (metrics or {}).items()]
    store.metrics.log(name, logged)
    store.metrics.set_params(name, list((params or {}).items()))


def found(store: Store, where: str = "", *, sort: str = "", descending: bool = False, **wanted: Any) -> list[str]:
    runs, total = store.listing.runs(
        RunFilter(conditions=conditions_of(where), **wanted),
        limit=100,
        order=field_of(sort),
        descending=descending,
        now=1_793_000_100.0,
    )
    assert total == len(runs)
    return [run.id for run in runs]


def test_conditions_compare_what_runs_have(store: Store, clock: Clock) -> None:
    make(
        store,
        "a",
        metrics={"val/accuracy": 0.91, "odd one": 1.0, "nan": math.nan},
        params={"lr": "1e-3", "optimizer": "adam", "depth": "10"},
        tags={"aml-train.branch": "main", "aml-train.gate": "passed", "team": "vision", 'a"b': "x"},
        started=clock.now + 5,
    )
    clock.now += 86_400
    make(
        store,
        "b",
        experiment="other",
        status="Failed",
        display_name="B 100%",
        metrics={"val/accuracy": 0.89},
        params={"lr": "0.01", "optimizer": "sgd", "depth": "9"},
        tags={"aml-train.branch": "feature/x", "team": "Vision"},
    )
    make(store, "c", status="Running")
    for where, expected in {
        "metrics.val/accuracy > 0.9": ["a"],
        "metrics.val/accuracy >= 0.89 and metrics.val/accuracy < 0.9": ["b"],
        "metrics.val/accuracy != 0.91": ["b"],
        "metrics.`odd one` = 1": ["a"],
        "metrics.nan < 1": [],
        "metrics.nan >= 1": [],
        "params.lr = 0.001": ["a"],
        "params.lr < 0.005": ["a"],
        "params.lr != '0.010'": ["a"],
        "params.depth > 9": ["a"],
        "params.optimizer > 1": [],
        "params.optimizer = 'adam'": ["a"],
        "params.optimizer != 'adam'": ["b"],
        "params.optimizer IN ('adam', 'sgd') and params.optimizer NOT IN ('sgd')": ["a"],
        "params.optimizer LIKE 'a_a%'": ["a"],
        "params.optimizer LIKE 'A%'": [],
        "params.optimizer ILIKE 'A%'": ["a"],
        "tags.team = 'vision'": ["a"],
        "tags.team ILIKE 'vision'": ["b", "a"],
        "tags.aml-train.branch LIKE 'feature/%'": ["b"],
        "branch = 'main' and gate = 'passed'": ["a"],
        "branch != 'main'": ["b"],
        "status = 'FAILED'": ["b"],
        "status != 'completed'": ["b", "c"],
        "experiment = 'other'": ["b"],
        "name LIKE '%100%'": ["b"],
        "id IN ('a', 'c')": ["c", "a"],
        "duration > 94": ["a"],
        "duration > 96": [],
        "created >= 2026-10-27": ["b", "c"],
        "created < '2026-10-27T00:00:00+00:00'": ["a"],
        "": ["b", "c", "a"],
    }.items():
        assert found(store, where) == expected, where


def test_a_pattern_of_like_has_no_other_signs(store: Store) -> None:
    for name in ("a*b", "axb", "a[b", "a?b"):
        make(store, name, params={"p": name})
    for sign in "*[?":
        assert found(store, f"params.p LIKE 'a{sign}_'") == [f"a{sign}b"]


def test_lists_are_filtered_by_fields_and_children(store: Store) -> None:
    make(store, "a", tags={"aml-train.branch": "main"})
    make(store, "b", parent_id="a", status="Running")
    make(store, "c", experiment="other")
    make(store, "hidden")
    store.runs.change("hidden", archived=True)
    make(store, "gone")
    store.runs.change("gone", deleted=True)
    assert found(store) == ["a", "b", "c"]
    assert found(store, children=False) == ["a", "c"]
    assert found(store, status="active") == ["b"]
    assert found(store, status="Completed", experiment="other") == ["c"]
    assert found(store, branch="main") == ["a"]
    assert found(store, text="B") == ["b"]
    assert store.listing.branches() == ["main"]
    assert store.listing.statuses() == {"Completed": 2, "Running": 1}
    assert store.listing.experiments() == ["exp", "other"]


NUMBER = st.none() | st.floats() | st.sampled_from([0.5, 0.25, math.nan, math.inf, -math.inf])


@given(st.lists(NUMBER, max_size=8), st.booleans())
@settings(max_examples=60, deadline=None)
def test_any_metrics_are_in_order(values: list[float | None], descending: bool) -> None:
    with closing(Store(":memory:", clock=Clock())) as store:
        for number, value in enumerate(values):
            make(store, f"r{number}", metrics={} if value is None else {"m": value})
        numbers = [(at, value) for at, value in enumerate(values) if value is not None and not math.isnan(value)]
        numbers.sort(key=lambda pair: -pair[1] if descending else pair[1])
        nans = [at for at, value in enumerate(values) if value is not None and math.isnan(value)]
        missing = [at for at, value in enumerate(values) if value is None]
        expected = [f"r{at}" for at in [*(at for at, _ in numbers), *nans, *missing]]
        assert found(store, sort="metrics.m", descending=descending) == expected


def test_texts_that_are_numbers_are_ordered_as_such(store: Store) -> None:
    for number, value in enumerate(("10", "9", "1e-3", "word", "a word", None, "-1", "nan")):
        make(store, f"r{number}", params={} if value is None else {"p": value}, tags={"t": value or ""})
    assert found(store, sort="params.p") == ["r6", "r2", "r1", "r0", "r4", "r7", "r3", "r5"]
    assert found(store, sort="params.p", descending=True) == ["r0", "r1", "r2", "r6", "r3", "r7", "r4", "r5"]
    assert found(store, sort="tags.t")[:4] == ["r6", "r2", "r1", "r0"]


def test_every_attribute_orders_and_filters(store: Store, clock: Clock) -> None:
    make(store, "a", started=clock.now, status="Running", tags={"aml-train.branch": "x", "aml-train.gate": "failed"})
    clock.now += 50
    make(store, "b", started=clock.now, display_name="Z", experiment="z", job={"computeId": "/computes/c"})
    store.runs.finish("b", "Completed")
    store.assets.put("models", "m", "1", {"jobName": "a", "tags": {"aml-train.stage": "production"}})
    for key in sorted(TEXTS | NUMBERS):
        both = found(store, sort=key)
        assert sorted(both) == ["a", "b"], key
        where = f"{key} > 0" if key in NUMBERS - {"created", "started", "ended"} else f"{key} = 'x'"
        if key not in ("created", "started", "ended"):
            found(store, where)
    assert found(store, sort="duration", descending=True) == ["a", "b"]
    assert found(store, sort="model") == found(store, sort="stage") == ["a", "b"]
    assert found(store, "stage = 'production' and model = 'm'") == ["a"]
    assert {*TEXTS, *NUMBERS} == GRAMMAR.texts | GRAMMAR.numbers | GRAMMAR.times


def test_the_latest_value_of_a_metric_is_kept(store: Store) -> None:
    make(store, "a", metrics={"m": 1.0, "n": 2.0})
    make(store, "b")
    store.metrics.log("a", [Metric(key="m", value=math.nan, timestamp=0, step=5)])
    store.metrics.log("a", [Metric(key="m", value=3.0, timestamp=0, step=1)])
    store.metrics.copy("a", "b")
    store.metrics.set_params("a", [("p", "x")])
    fields = [field for name in ("metrics.m", "metrics.n", "params.p", "tags.t") if (field := field_of(name))]
    assert store.listing.values(["a", "b"], fields) == {
        "a": {fields[0]: 3.0, fields[1]: 2.0, fields[2]: "x"},
        "b": {fields[0]: 3.0, fields[1]: 2.0},
    }
    assert (store.listing.metric_keys(), store.listing.param_keys()) == (["m", "n"], ["p"])
    store.runs.delete("a")
    assert store.listing.values(["a", "b"], fields)["a"] == {}
    store.clear()
    assert store.listing.metric_keys() == []


def test_models_of_runs_are_those_of_both_names(store: Store) -> None:
    for name in ("job", "node"):
        make(store, name)
    store.assets.put("models", "m", "1", {"jobName": "node", "tags": {"aml-train.job": "job"}})
    store.assets.put("models", "m", "2", {"jobName": "job", "stage": "Production", "tags": {}})
    store.assets.put("data", "m", "1", {"jobName": "job"})
    one, two = ModelLine(name="m", version="1", stage=""), ModelLine(name="m", version="2", stage="Production")
    assert store.listing.models(["job", "node", "none"]) == {"job": [two, one], "node": [one], "none": []}
    assert found(store, "stage = 'Production'") == ["job"]


@pytest.mark.parametrize(
    "job",
    [
        None,
        {"jobType": "Command"},
        {"computeId": "/subscriptions/s/computes/gpu"},
        {"computeId": "gpu"},
        {"computeId": "azureml:gpu"},
        {"computeId": "/computes/Serverless"},
        {"jobType": "Pipeline", "computeId": "/computes/gpu"},
        {"jobType": "Sweep", "computeId": "/computes/gpu"},
    ],
)
def test_the_compute_is_that_of_the_runs_page(store: Store, job: dict[str, Any] | None) -> None:
    make(store, "a", job=job)
    (run,), _ = store.listing.runs(RunFilter(), limit=1)
    assert run.compute == compute_name(store.runs.require("a"))


def test_a_page_of_a_sorted_list_needs_no_whole_rows(store: Store) -> None:
    """The plans of the queries that a list of many runs needs."""
    make(store, "a")
    database: Any = store.listing._db  # the connection in memory is the only one
    for query, words in (
        (
            "SELECT id FROM runs WHERE deleted = 0 AND archived = 0 AND branch = 'x' ORDER BY created DESC, id",
            "runs_listed",
        ),
        ("SELECT value FROM latest_metrics WHERE key = 'm' AND run_id = 'a'", "PRIMARY KEY"),
        ("SELECT min(key) FROM params WHERE key > 'x'", "params_by_key"),
    ):
        plan = " ".join(str(row["detail"]) for row in database.rows(f"EXPLAIN QUERY PLAN {query}"))
        assert words in plan, plan
        assert "TEMP B-TREE" not in plan
