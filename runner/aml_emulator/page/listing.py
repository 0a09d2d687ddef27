"""The list of runs: its address has its columns, its filter and its order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.api import Call, Grammar, MlflowError, parse_filter
from aml_emulator.context import Context
from aml_emulator.page.charts import text
from aml_emulator.page.view import Document, Paging, duration, link
from aml_emulator.store import NUMBERS, TEXTS, Condition, Field, ModelLine, RunFilter, RunLine

PAGE: Final = 50
COLUMNS: Final = 40
"""At most so many columns are shown; a longer address is cut."""

TITLES: Final[Mapping[str, str]] = {
    "status": "Status",
    "experiment": "Experiment",
    "branch": "Branch",
    "gate": "Gate",
    "model": "Model",
    "stage": "Stage",
    "compute": "Compute",
    "created": "Created",
    "started": "Started",
    "ended": "Ended",
    "duration": "Duration",
}
"""The columns that every list offers, in their order, and their headings."""

USUAL: Final = ("status", "experiment", "branch", "gate", "model", "stage", "created", "duration")
"""Shown without a choice, but for those of `OPTIONAL` that no run of the page has."""

OPTIONAL: Final = frozenset({"branch", "gate", "model", "stage"})
GROUPS: Final = ("metrics", "params", "tags")
TIMES: Final = frozenset({"created", "started", "ended"})
GRAMMAR: Final = Grammar(
    texts=TEXTS,
    numbers=NUMBERS - TIMES,
    times=TIMES,
    aliases={"run_id": "id", "run_name": "name"},
    groups=frozenset(GROUPS),
    measured=frozenset({"params"}),
)
"""The filter is MLflow's, with the columns as attributes."""

ASCENDING, DESCENDING = "asc", "desc"


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the list.

    Attributes:
        name: in addresses: ``status``, ``metrics.val/accuracy``.
        number: whether values are numbers, and aligned as such.
        sorted: ``ascending`` or ``descending`` if the list is sorted by it, else empty.
        address: sorts by it, or turns the order around.
    """

    name: str
    title: str
    number: bool
    sorted: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Cell:
    """A shown value.

    *kind* is ``text``, ``number``, ``time``, ``status``, ``gate`` or ``models``.
    """

    kind: str
    text: str = ""
    time: float | None = None
    models: Sequence[ModelLine] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A run and its cells, one for each column."""

    run: RunLine
    cells: Sequence[Cell]


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A column that may be chosen."""

    name: str
    title: str
    chosen: bool


class RunList:
    """Shows the list of runs."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store.listing

    def index(self, call: Call) -> Document:
        """Return the list, filtered, sorted and in pages."""
        asked: dict[str, Any] = {
            name: call.query.get(name, "").strip()
            for name in ("experiment", "status", "branch", "text", "children", "where", "sort", "order")
        }
        chosen = chosen_columns(call.query.getlist("column"))
        asked["column"] = [name_of(one) for one in chosen]
        problem = ""
        conditions: tuple[Condition, ...] = ()
        try:
            conditions = conditions_of(asked["where"])
        except MlflowError as error:
            problem = error.message
        order = field_of(asked["sort"])
        descending = asked["order"] == DESCENDING
        wanted = RunFilter(
            experiment=asked["experiment"],
            status=asked["status"],
            branch=asked["branch"],
            text=asked["text"],
            # As in the studio, whose list has the choice "Include child jobs"; a name that is looked for is found.
            children=asked["children"] == "yes" or bool(asked["text"]),
            conditions=conditions,
        )
        number = call.integer("page", 1, low=1)
        runs: list[RunLine] = []
        total = 0
        now = self._context.clock()
        if not problem:
            runs, total = self._store.runs(
                wanted, limit=PAGE, offset=(number - 1) * PAGE, order=order, descending=descending, now=now
            )
        columns, rows = self._table(runs, chosen, asked, now)
        return Document(
            template="runs.html",
            title="Runs",
            section="runs",
            refresh=any(run.ended is None for run in runs),
            values={
                "columns": columns,
                "rows": rows,
                "said": said(order, descending=descending),
                "paging": Paging(page=number, size=PAGE, total=total),
                "asked": asked,
                "filtered": any(asked[name] for name in ("experiment", "status", "branch", "text", "where")),
                "problem": problem,
                "experiments": self._store.experiments(),
                "statuses": self._store.statuses(),
                "branches": self._branches(asked["branch"]),
                "choices": self._choices(columns),
            },
        )

    def _branches(self, asked: str) -> list[str]:
        found = self._store.branches()
        return [asked, *found] if asked and asked not in found else found

    def _table(
        self, runs: Sequence[RunLine], chosen: Sequence[Field], asked: Mapping[str, Any], now: float
    ) -> tuple[list[Column], list[Row]]:
        ids = [run.id for run in runs]
        fields = list(chosen or (Field(group="attributes", key=key) for key in USUAL))
        models = self._store.models(ids) if {"model", "stage"} & {one.key for one in fields} else {}
        values = self._store.values(ids, fields)
        lines = [
            [_cell(one, run, values.get(run.id, {}), models.get(run.id, ()), now) for one in fields] for run in runs
        ]
        if not chosen:
            kept = [
                at
                for at, one in enumerate(fields)
                if one.key not in OPTIONAL or any(line[at].text or line[at].models for line in lines)
            ]
            fields = [fields[at] for at in kept]
            lines = [[line[at] for at in kept] for line in lines]
        rows = [Row(run=run, cells=line) for run, line in zip(runs, lines, strict=True)]
        name = Field(group="attributes", key="name")
        return [_column(one, asked) for one in (name, *fields)], rows

    def _choices(self, columns: Sequence[Column]) -> list[tuple[str, list[Choice]]]:
        """Return what may be chosen as a column, in groups, and all that is chosen."""
        shown = {column.name for column in columns}
        groups = {
            "Run": list(TITLES),
            "Metrics": [f"metrics.{key}" for key in self._store.metric_keys()],
            "Parameters": [f"params.{key}" for key in self._store.param_keys()],
            "Tags": [],
        }
        for column in columns:
            group = {"metrics": "Metrics", "params": "Parameters", "tags": "Tags"}.get(column.name.partition(".")[0])
            if group and column.name not in groups[group]:
                groups[group].append(column.name)
        return [
            (title, [Choice(name=name, title=title_of(name), chosen=name in shown) for name in names])
            for title, names in groups.items()
            if names
        ]


def field_of(name: str) -> Field | None:
    """Return the value that an address names, None if there is none such."""
    if name in TEXTS | NUMBERS:
        return Field(group="attributes", key=name)
    group, _, key = name.partition(".")
    return Field(group=group, key=key) if group in GROUPS and key else None


def name_of(field: Field) -> str:
    """Return a value's name in addresses."""
    return field.key if field.group == "attributes" else f"{field.group}.{field.key}"


def chosen_columns(names: Sequence[str]) -> list[Field]:
    """Return the columns that an address names, each once.

    Unknown names are left out.
    """
    found = [field_of(name.strip()) for name in names]
    known = dict.fromkeys(one for one in found if one is not None and name_of(one) not in ("id", "name"))
    return list(known)[:COLUMNS]


def conditions_of(where: str) -> tuple[Condition, ...]:
    """Return the conditions of a filter.

    Raises:
        MlflowError: it is not understood.
    """
    return tuple(
        Condition(field=Field(group=one.group, key=one.key), operator=one.operator, values=one.values)
        for one in parse_filter(where, GRAMMAR)
    )


def title_of(name: str) -> str:
    """Return the heading of a column."""
    if name in TITLES or name == "name":
        return TITLES.get(name, "Run")
    return name.partition(".")[2]


def said(order: Field | None, *, descending: bool) -> str:
    """Return the order of a list in words."""
    if order is None:
        return "newest first"
    return f"by {title_of(name_of(order))}, {'descending' if descending else 'ascending'}"


def _column(field: Field, asked: Mapping[str, Any]) -> Column:
    name = name_of(field)
    sorted_by = asked["sort"] == name
    now = ("descending" if asked["order"] == DESCENDING else "ascending") if sorted_by else ""
    # The first click on a metric or a time shows the highest ones.
    falling = field.group == "metrics" or (field.group == "attributes" and field.key in NUMBERS)
    turned = (ASCENDING if now == "descending" else DESCENDING) if now else DESCENDING if falling else ASCENDING
    return Column(
        name=name,
        title=title_of(name),
        number=field.group == "metrics" or name == "duration",
        sorted=now,
        address=link("", **{**asked, "sort": name, "order": turned}),
    )


def _cell(
    field: Field,
    run: RunLine,
    values: Mapping[Field, float | str],
    models: Sequence[ModelLine],
    now: float,
) -> Cell:
    if field.group != "attributes":
        value = values.get(field)
        if isinstance(value, float):
            return Cell(kind="number", text=text(value, digits=6))
        return Cell(kind="number" if field.group == "metrics" else "text", text=value or "")
    match field.key:
        case "status":
            return Cell(kind="status", text=run.status)
        case "gate":
            return Cell(kind="gate", text=run.gate or "")
        case "model":
            return Cell(kind="models", models=models)
        case "stage":
            return Cell(kind="text", text=", ".join(dict.fromkeys(one.stage for one in models if one.stage)))
        case "duration":
            spent = None if run.started is None else (now if run.ended is None else run.ended) - run.started
            return Cell(kind="number", text="" if spent is None else duration(spent))
        case "created" | "started" | "ended":
            times: Mapping[str, float | None] = {
                "created": run.created,
                "started": run.started,
                "ended": run.ended,
            }
            return Cell(kind="time", time=times[field.key])
    texts = {"experiment": run.experiment, "branch": run.branch, "compute": run.compute}
    return Cell(kind="text", text=texts.get(field.key) or "")
