"""The comparison of runs: their curves in one chart, and what differs."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.api.routing import Call
from aml_emulator.context import Context
from aml_emulator.domain.errors import InvalidError
from aml_emulator.domain.jobs.compute import compute_name
from aml_emulator.domain.runs import known_run
from aml_emulator.page.charts import Chart, Given, draw, text
from aml_emulator.page.runs import SETTINGS, environment_of, hyperparameters_of, lasted_of
from aml_emulator.page.view import Document
from aml_emulator.store.browse import MetricSummary, Series
from aml_emulator.store.runs import Run

FEWEST, MOST = 2, 10
CHARTS: Final = 24
"""Charts of a comparison; the table of differences has the last value of each metric."""

MISSING: Final = "—"


@dataclass(frozen=True, kw_only=True)
class Line:
    """A value of each run, in the order of the runs."""

    kind: str
    name: str
    cells: Sequence[str]


class Comparison:
    """Shows runs next to each other."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._store = context.store

    def page(self, call: Call) -> Document:
        """Return the comparison of the runs that the address names."""
        runs = self._runs(call)
        summaries = [{one.key: one for one in self._store.browse.metrics(run.id)} for run in runs]
        keys = sorted({key for metrics in summaries for key, one in metrics.items() if one.count > 1})
        lines = self._lines(runs, summaries)
        differing = [line for line in lines if len(set(line.cells)) > 1]
        return Document(
            template="compare.html",
            title="Comparison",
            section="runs",
            refresh=any(not run.terminal for run in runs),
            values={
                "runs": runs,
                "charts": [self._chart(key, runs) for key in keys[:CHARTS]],
                "left_out": max(0, len(keys) - CHARTS),
                "lines": differing,
                "same": len(lines) - len(differing),
            },
        )

    def _runs(self, call: Call) -> list[Run]:
        ids = list(dict.fromkeys(one.strip() for one in call.query.getlist("run") if one.strip()))
        if not FEWEST <= len(ids) <= MOST:
            raise InvalidError(
                f"{FEWEST} to {MOST} runs can be compared, and the address names {len(ids)}:"
                " mark them in the list of runs."
            )
        return [known_run(self._context, run_id) for run_id in ids]

    def _chart(self, key: str, runs: Sequence[Run]) -> Chart:
        """Return a metric's curves; across seconds if one of the runs logged it without steps."""
        found = self._series(key, runs, by_time=False)
        if not all(one.by_step for one in found.values()):
            found = self._series(key, runs, by_time=True)
        return draw(
            key,
            [
                Given(number=number, title=runs[number].display_name or runs[number].id, series=series)
                for number, series in found.items()
            ],
        )

    def _series(self, key: str, runs: Sequence[Run], *, by_time: bool) -> dict[int, Series]:
        read = (self._store.browse.series(run.id, key, by_time=by_time) for run in runs)
        return {number: series for number, series in enumerate(read) if series is not None}

    def _lines(self, runs: Sequence[Run], summaries: Sequence[Mapping[str, MetricSummary]]) -> list[Line]:
        """Return what can differ between runs."""
        values = {
            "Run": [_filled(self._facts(run)) for run in runs],
            "Parameter": [{**hyperparameters_of(run), **dict(self._store.metrics.params(run.id))} for run in runs],
            "Input": [_inputs(run) for run in runs],
            "Tag": [dict(run.tags) for run in runs],
            "Metric": [{key: text(one.last, digits=6) for key, one in metrics.items()} for metrics in summaries],
        }
        return [
            Line(kind=kind, name=name, cells=[one.get(name, MISSING) for one in found])
            for kind, found in values.items()
            for name in dict.fromkeys(name for one in found for name in one)
        ]

    def _facts(self, run: Run) -> dict[str, Any]:
        job = run.job or {}
        environment = environment_of(self._context, job)
        return {
            "status": run.status,
            "experiment": run.experiment,
            "duration": lasted_of(run.started, run.ended, self._context.clock()),
            "compute": compute_name(run),
            "exit code": run.exit_code,
            "error": run.error_message,
            "command": job.get("command") or (job.get("trial") or {}).get("command"),
            "environment": environment["title"],
            "image": environment["image"],
            # Values of environment variables are shown nowhere.
            "environment variables": ", ".join(sorted(job.get("environmentVariables") or {})),
            **{name: job.get(name) for name in SETTINGS},
        }


def _inputs(run: Run) -> dict[str, str]:
    inputs = (run.job or {}).get("inputs") or {}
    return {
        str(name): str(given.get("uri") or given.get("value") or "")
        for name, given in inputs.items()
        if isinstance(given, Mapping)
    }


def _filled(values: Mapping[str, Any]) -> dict[str, str]:
    return {
        name: json.dumps(value, ensure_ascii=False, sort_keys=True) if isinstance(value, dict | list) else str(value)
        for name, value in values.items()
        if value not in (None, "", {}, [])
    }
