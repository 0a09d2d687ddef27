"""The trials of a sweep on its page: a table in any order, and a drawing."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import BEST, HYPERPARAMETERS, REUSED_RUN, TRIAL, most_trials, objective_of
from aml_emulator.page import parallel
from aml_emulator.page.charts import text
from aml_emulator.page.parallel import Parallel, Scale, Value, draw_parallel
from aml_emulator.page.view import Paging, link, paged
from aml_emulator.reading import whole
from aml_emulator.store import Run

TRIALS: Final = 500
"""Trials on one page of a sweep."""

COLUMNS: Final = 30
"""At most so many hyperparameters are columns of the table of trials."""

ASCENDING, DESCENDING = "asc", "desc"
_LOGARITHMIC: Final = frozenset({"loguniform", "qloguniform", "lognormal", "qlognormal"})
_LARGEST: Final = 2**63


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial of a sweep.

    Attributes:
        values: its hyperparameters.
        score: the best value of the primary metric that it has logged.
        best: whether it is the best one: of the trials that have completed, until the sweep has ended.
    """

    number: int
    run: Run
    values: Mapping[str, Value]
    score: float | None
    best: bool = False

    def shown(self, name: str) -> str:
        """Return a hyperparameter's value as text."""
        value = self.values.get(name)
        return "—" if value is None else shown_value(value)


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column of the table of trials that can be sorted by.

    Attributes:
        sorted: ``ascending`` or ``descending`` if the table is sorted by it, else empty.
        address: sorts by it, or turns the order around.
    """

    title: str
    number: bool
    sorted: str
    address: str


@dataclass(frozen=True, kw_only=True)
class Trials:
    """The trials of a sweep, as a table and as a drawing.

    Attributes:
        parameters: the names of the hyperparameters that are columns.
        left_out: how many others there are.
        best: the best trial, if there is one.
    """

    metric: str
    goal: str
    most: int
    columns: Sequence[Column]
    parameters: Sequence[str]
    left_out: int
    rows: Sequence[Trial]
    paging: Paging
    best: Trial | None
    drawing: Parallel

    def score(self, trial: Trial) -> str:
        """Return a trial's score as text."""
        return "—" if trial.score is None else text(trial.score, digits=6)


def trials_of(context: Context, run: Run, call: Call) -> Trials:
    """Return the trials of a sweep, in the requested order.

    Those of a reused one are the earlier run's.
    """
    job = run.job or {}
    owner = run.properties.get(REUSED_RUN, run.id)
    children = context.store.runs.children(owner)
    metric, maximize = objective_of(job)
    scores = {
        name: high if maximize else low for name, (low, high) in context.store.browse.extremes(owner, metric).items()
    }
    found = [
        Trial(
            number=number,
            run=child,
            values=hyperparameters_of(child),
            score=scores.get(child.id),
        )
        for child in children
        if (number := whole(child.properties.get(TRIAL, ""))) is not None
    ]
    best = _best(run, found, maximize=maximize)
    found = [_marked(trial) if trial.run.id == best else trial for trial in found]
    space = job.get("searchSpace") or {}
    # Those of trials come first to last by the search space, whatever order the values are stored in.
    names = list(dict.fromkeys([*space, *(name for trial in found for name in trial.values)]))
    parameters = names[:COLUMNS]
    orders = _orders(metric, parameters)
    chosen = call.query.get("sort", "trial")
    chosen = chosen if chosen in orders else "trial"
    order = DESCENDING if call.query.get("order") == DESCENDING else ASCENDING
    rows, paging = paged(call, _sorted(found, orders[chosen][2], backwards=order == DESCENDING), TRIALS)
    return Trials(
        metric=metric,
        goal="highest" if maximize else "lowest",
        most=most_trials(job),
        columns=[_column(run, name, one, chosen, order) for name, one in orders.items()],
        parameters=parameters,
        left_out=len(names) - len(parameters),
        rows=rows,
        paging=paging,
        best=next((trial for trial in found if trial.best), None),
        drawing=draw_parallel(
            [_scale(name, space.get(name)) for name in names],
            metric,
            [
                parallel.Trial(
                    title=f"Trial {trial.number}: {trial.run.status}",
                    values=trial.values,
                    score=trial.score,
                    best=trial.best,
                )
                for trial in found
            ],
            maximize=maximize,
        ),
    )


_Key = Callable[[Trial], Any]


def _orders(metric: str, parameters: Sequence[str]) -> dict[str, tuple[str, bool, _Key]]:
    """Return title, whether it is a number, and key of each column.

    They are by their names in addresses.
    """
    return {
        "trial": ("Trial", False, lambda trial: trial.number),
        "status": ("Status", False, lambda trial: trial.run.status),
        "metric": (metric, True, lambda trial: trial.score),
        **{f"p.{name}": (name, True, _by_value(name)) for name in parameters},
        "duration": ("Duration", True, lambda trial: _seconds(trial.run)),
    }


def _by_value(name: str) -> _Key:
    """Return the key of a hyperparameter: numbers come before words."""

    def key(trial: Trial) -> tuple[int, float, str] | None:
        value = trial.values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            return (1, 0.0, str(value))
        return (0, float(value), "")

    return key


def _sorted(trials: Sequence[Trial], key: _Key, *, backwards: bool) -> list[Trial]:
    """Return the trials by a key; those without one come last, in either order."""
    known = [trial for trial in trials if key(trial) is not None]
    return [*sorted(known, key=key, reverse=backwards), *(trial for trial in trials if key(trial) is None)]


def _column(run: Run, name: str, one: tuple[str, bool, _Key], chosen: str, order: str) -> Column:
    sorted_by = name == chosen
    turned = DESCENDING if sorted_by and order == ASCENDING else ASCENDING
    return Column(
        title=one[0],
        number=one[1],
        sorted=("ascending" if order == ASCENDING else "descending") if sorted_by else "",
        address=f"{link('runs', run.id, sort=name, order=turned)}#trials",
    )


def _best(run: Run, trials: Sequence[Trial], *, maximize: bool) -> str:
    """Return the id of the best trial, empty without one."""
    if BEST in run.properties:
        return run.properties[BEST]
    scored = [trial for trial in trials if trial.score is not None and trial.run.status == "Completed"]
    if not scored:
        return ""
    return (max if maximize else min)(scored, key=lambda trial: trial.score or 0.0).run.id


def _marked(trial: Trial) -> Trial:
    return Trial(number=trial.number, run=trial.run, values=trial.values, score=trial.score, best=True)


def _scale(name: str, given: Any) -> Scale:
    """Return how a hyperparameter is drawn, by its distribution."""
    kind, arguments = (str(given[0]), given[1]) if isinstance(given, list) and len(given) == 2 else ("", [])
    if kind != "choice":
        return Scale(name=name, logarithmic=kind in _LOGARITHMIC)
    choices = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
    return Scale(name=name, choices=tuple(choices))


def hyperparameters_of(run: Run) -> dict[str, Value]:
    """Return the hyperparameters of a trial; none of another run."""
    try:
        found = json.loads(run.properties.get(HYPERPARAMETERS, "{}"))
    except ValueError:
        # A client may give its runs any properties.
        return {}
    return {name: _plain(value) for name, value in found.items()} if isinstance(found, dict) else {}


def _plain(value: Any) -> Value:
    """Return a value that can be drawn and sorted; anything else as text."""
    small = not isinstance(value, int) or abs(value) < _LARGEST
    odd = isinstance(value, float) and not math.isfinite(value)
    return value if isinstance(value, str | float | int | bool) and small and not odd else str(value)


def shown_value(value: Value) -> str:
    """Return a hyperparameter's value as text."""
    return text(value, digits=6) if isinstance(value, float) and math.isfinite(value) else str(value)


def _seconds(run: Run) -> float | None:
    return None if run.started is None or run.ended is None else run.ended - run.started
