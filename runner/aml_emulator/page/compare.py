"""The comparison of runs: their curves in one chart, and what differs."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_emulator.api import Call
from aml_emulator.context import Context
from aml_emulator.domain import InvalidError, NotFoundError, known_run
from aml_emulator.page import parallel
from aml_emulator.page.differences import parameters_of, tables_of
from aml_emulator.page.overlay import SMOOTHEST, Given, Overlay, draw_overlay, positive, smoothed
from aml_emulator.page.parallel import Parallel, Scale, Value, draw_parallel
from aml_emulator.page.view import Content, Document, Paging, link
from aml_emulator.store import MetricSummary, Run, Series

FEWEST, MOST = 2, 10
CHARTS: Final = 12
"""Charts on one page of a comparison."""

WIDE: Final = 100.0
"""Parameters above 0 whose greatest value is so many times the least have a logarithmic axis."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """A compared run.

    Attributes:
        without: the address of the comparison without it, empty if too few would be left.
    """

    number: int
    run: Run
    name: str
    without: str


class Comparison:
    """Shows runs next to each other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def page(self, call: Call) -> Document:
        """Return the comparison of the runs that the address names."""
        runs, asked = self._runs(call), _asked(call)
        ids = [run.id for run in runs]
        summaries = [{one.key: one for one in self._store.browse.metrics(run.id)} for run in runs]
        keys = sorted({key for metrics in summaries for key in metrics})
        curves = [key for key in keys if any(key in metrics and metrics[key].count > 1 for metrics in summaries)]
        paging = Paging(page=call.integer("page", 1, low=1), size=CHARTS, total=len(curves))
        shown = curves[paging.offset : paging.offset + CHARTS]
        metric = asked["metric"] if asked["metric"] in keys else next(iter(curves or keys), "")
        return Document(
            template="compare.html",
            title="Comparison",
            section="runs",
            refresh=any(not run.terminal for run in runs),
            values={
                "runs": [_compared(number, run, ids, asked) for number, run in enumerate(runs)],
                "asked": {**asked, "metric": metric},
                "ids": ids,
                "charts": [
                    (key, self._overlay(key, runs, asked), link("compare", "curves.json", run=ids, key=key))
                    for key in shown
                ],
                "paging": paging,
                "keys": keys,
                "tables": tables_of(self._context, runs, summaries, only=asked["differences"] == "yes"),
                "drawing": self._parallel(runs, summaries, metric),
                "smoothest": SMOOTHEST,
                "most": MOST,
            },
        )

    def curves(self, call: Call) -> Content:
        """Return a metric's curves of the runs as JSON, for the script that draws them.

        ``null`` stands for NaN and infinite values, and on a logarithmic axis for those that are not above 0.
        """
        runs, asked, key = self._runs(call), _asked(call), call.query.get("key", "")
        given = self._given(key, runs, by_time=asked["x"] == "time")
        if not given:
            raise NotFoundError(f"metric '{key}' of these runs")
        weight = _weight(asked)
        found = []
        for one in given:
            drawable = positive(one.series) if asked["log"] == "yes" else one.series
            series = smoothed(drawable, weight)
            gaps = [x for x, _ in series.odd] + [
                x for x, y in one.series.points if drawable is not one.series and y <= 0
            ]
            points = sorted([*series.points, *((x, None) for x in gaps)], key=lambda point: point[0])
            xs: list[float] = []
            ys: list[float | None] = []
            for x, y in points:
                if not xs or xs[-1] != x:
                    xs.append(x)
                    ys.append(y)
                elif y is not None:
                    # Of the values at one position the last one.
                    ys[-1] = y
            found.append({"number": one.number, "name": one.title, "x": xs, "y": ys})
        body = {"by_step": all(one.series.by_step for one in given), "curves": found}
        return Content(
            type="application/json; charset=utf-8", body=json.dumps(body, allow_nan=False).encode(), shown=True
        )

    def _runs(self, call: Call) -> list[Run]:
        ids = list(dict.fromkeys(one.strip() for one in call.query.getlist("run") if one.strip()))
        if not FEWEST <= len(ids) <= MOST:
            raise InvalidError(
                f"{FEWEST} to {MOST} runs can be compared, and the address names {len(ids)}:"
                " mark them in the list of runs."
            )
        return [known_run(self._context, run_id) for run_id in ids]

    def _given(self, key: str, runs: Sequence[Run], *, by_time: bool) -> list[Given]:
        """Return the curves of the runs that have the metric, with positions of one kind."""

        def read(*, by_time: bool) -> list[tuple[int, Run, Series]]:
            found = [
                (at, run, self._store.browse.series(run.id, key, by_time=by_time)) for at, run in enumerate(runs)
            ]
            return [(at, run, series) for at, run, series in found if series is not None]

        series = read(by_time=by_time)
        if not by_time and not all(one.by_step for _, _, one in series):
            # One of the scripts gave no steps.
            series = read(by_time=True)
        return [Given(number=at, title=run.display_name or run.id, series=one) for at, run, one in series]

    def _overlay(self, key: str, runs: Sequence[Run], asked: Mapping[str, str]) -> Overlay:
        given = self._given(key, runs, by_time=asked["x"] == "time")
        return draw_overlay(key, given, logarithmic=asked["log"] == "yes", smoothing=_weight(asked))

    def _parallel(
        self, runs: Sequence[Run], summaries: Sequence[Mapping[str, MetricSummary]], metric: str
    ) -> Parallel | None:
        """Return the parameters that differ, and a metric, as parallel coordinates.

        None if no parameter differs.
        """
        parameters = [parameters_of(self._context, run) for run in runs]
        names = sorted({name for values in parameters for name in values})
        differing = [name for name in names if len({values.get(name) for values in parameters}) > 1]
        if not differing or not metric:
            return None
        read = {name: _numbers([values.get(name) for values in parameters]) for name in differing}
        trials = [
            parallel.Trial(
                title=run.display_name or run.id,
                values={name: value for name in differing if (value := read[name][number]) is not None},
                score=summaries[number][metric].last if metric in summaries[number] else None,
                kind=f"run run-{number}",
            )
            for number, run in enumerate(runs)
        ]
        scales = [_scale(name, read[name]) for name in differing]
        return draw_parallel(scales, metric, trials, maximize=True, noun="runs")


def _asked(call: Call) -> dict[str, str]:
    """Return what the address asks for, but for the runs."""
    asked = {name: call.query.get(name, "").strip() for name in ("log", "smooth", "x", "differences", "metric")}
    try:
        weight = float(asked["smooth"] or 0)
    except ValueError as error:
        raise InvalidError(f"The query parameter 'smooth' is not a number: '{asked['smooth']}'") from error
    if not 0 <= weight <= SMOOTHEST:
        raise InvalidError(f"The query parameter 'smooth' is from 0 to {SMOOTHEST}, not {asked['smooth']}")
    return {**asked, "smooth": asked["smooth"] if weight else ""}


def _weight(asked: Mapping[str, str]) -> float:
    return float(asked["smooth"] or 0)


def _compared(number: int, run: Run, ids: Sequence[str], asked: Mapping[str, str]) -> Compared:
    others = [one for one in ids if one != run.id]
    without = link("compare", run=others, **asked) if len(others) >= FEWEST else ""
    return Compared(number=number, run=run, name=run.display_name or run.id, without=without)


def _numbers(texts: Sequence[str | None]) -> list[Value | None]:
    """Return a parameter's values, as numbers if all can be read as such."""
    found: list[Value | None] = []
    for one in texts:
        try:
            number = None if one is None else float(one)
        except ValueError:
            return list(texts)
        if number is not None and not math.isfinite(number):
            return list(texts)
        found.append(number)
    return found


def _scale(name: str, values: Sequence[Value | None]) -> Scale:
    numbers = [float(value) for value in values if isinstance(value, float)]
    if not numbers:
        return Scale(name=name, choices=tuple(dict.fromkeys(value for value in values if value is not None)))
    return Scale(name=name, logarithmic=min(numbers) > 0 and max(numbers) / min(numbers) >= WIDE)
