"""The list of runs: its address has its filter, its metrics and its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.api.routing import Call
from aml_emulator.context import Context
from aml_emulator.page.charts import text
from aml_emulator.page.gate import gate_of
from aml_emulator.page.runs import lasted_of
from aml_emulator.page.view import Document, Paging, link
from aml_emulator.store.listing import ModelLine, RunFilter
from aml_emulator.store.runs import Run

PAGE: Final = 50
METRICS: Final = 8
"""At most so many metrics are columns; a longer address is cut."""

DEFAULT_METRICS: Final = 3
"""At most so many metrics of the gate are columns if the address names none."""

METRIC: Final = "metric."
"""Precedes a metric's name in the order of an address."""

TITLES: Final[Mapping[str, str]] = {
    "name": "Run",
    "status": "Status",
    "experiment": "Experiment",
    "branch": "Branch",
    "gate": "Gate",
    "created": "Created",
    "duration": "Duration",
}
"""The columns that the list can be sorted by, and their headings."""

FALLING: Final = frozenset({"created", "duration"})
"""The first click shows the highest ones, as with metrics."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """A heading.

    Attributes:
        sorted: ``ascending`` or ``descending`` if the list is sorted by it, else empty.
        address: sorts by it, or turns the order around.
    """

    title: str
    number: bool
    sorted: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run with its duration, its models and the chosen metrics."""

    run: Run
    lasted: str
    models: Sequence[ModelLine]
    metrics: Sequence[str]


class RunList:
    """Shows the list of runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store.listing

    def index(self, call: Call) -> Document:
        """Return the list, filtered, sorted and in pages."""
        asked: dict[str, Any] = {
            name: call.query.get(name, "").strip()
            for name in ("experiment", "status", "branch", "text", "children", "sort", "order")
        }
        asked["metric"] = list(dict.fromkeys(one for one in call.query.getlist("metric") if one))[:METRICS]
        wanted = RunFilter(
            experiment=asked["experiment"],
            status=asked["status"],
            branch=asked["branch"],
            text=asked["text"],
            # As in the studio, whose list has the choice "Include child jobs"; a name that is looked for is found.
            children=asked["children"] == "yes" or bool(asked["text"]),
        )
        number = call.integer("page", 1, low=1)
        key = asked["sort"].removeprefix(METRIC)
        runs, total = self._store.runs(
            wanted,
            limit=PAGE,
            offset=(number - 1) * PAGE,
            order=asked["sort"] if asked["sort"] in TITLES else "",
            metric=key if asked["sort"].startswith(METRIC) else "",
            descending=asked["order"] == "desc",
            now=self._context.clock(),
        )
        models = self._store.models([run.id for run in runs])
        gates = (gate_of(run.tags) for run in runs)
        judged = dict.fromkeys(rule.metric for gate in gates if gate is not None for rule in gate.rules)
        metrics = asked["metric"] or list(judged)[:DEFAULT_METRICS]
        return Document(
            template="runs.html",
            title="Runs",
            section="runs",
            refresh=any(run.ended is None for run in runs),
            values={
                "columns": [_column(name, title, asked) for name, title in TITLES.items()],
                "metrics": [_column(f"{METRIC}{one}", one, asked) for one in metrics],
                "rows": self._rows(runs, models, metrics),
                "paging": Paging(page=number, size=PAGE, total=total),
                "asked": asked,
                "filtered": any(asked[name] for name in ("experiment", "status", "branch", "text")),
                "experiments": sorted((one.name for one in self._context.store.runs.experiments()), key=str.lower),
                "statuses": self._store.statuses(),
                "branches": self._store.branches(),
                "keys": self._store.metric_keys(),
            },
        )

    def _rows(
        self, runs: Sequence[Run], models: Mapping[str, Sequence[ModelLine]], metrics: Sequence[str]
    ) -> list[Row]:
        ids = [run.id for run in runs]
        values = [self._store.metric(ids, key) for key in metrics]
        now = self._context.clock()
        return [
            Row(
                run=run,
                lasted=lasted_of(run.started, run.ended, now),
                models=models[run.id],
                metrics=[text(found[run.id], digits=6) if run.id in found else "—" for found in values],
            )
            for run in runs
        ]


def _column(name: str, title: str, asked: Mapping[str, Any]) -> Column:
    now = ("descending" if asked["order"] == "desc" else "ascending") if asked["sort"] == name else ""
    metric = name.startswith(METRIC)
    falling = metric or name in FALLING
    turned = ("asc" if now == "descending" else "desc") if now else "desc" if falling else "asc"
    return Column(
        title=title,
        number=metric or name == "duration",
        sorted=now,
        address=link("", **{**asked, "sort": name, "order": turned}),
    )
