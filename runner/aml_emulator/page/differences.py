"""The differences between runs: their values next to each other, as tables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from aml_emulator.context import Context
from aml_emulator.domain import compute_name
from aml_emulator.page.charts import text
from aml_emulator.page.lineage import environment_of
from aml_emulator.page.trials import hyperparameters_of, shown_value
from aml_emulator.page.view import duration
from aml_emulator.store import MetricSummary, Run

MISSING: Final = "—"
SETTINGS: Final = (
    "resources",
    "distribution",
    "limits",
    "queueSettings",
    "identity",
    "objective",
    "samplingAlgorithm",
)
"""Settings of a job that are compared as JSON. Values of environment variables are shown nowhere."""


@dataclass(frozen=True, kw_only=True)
class Line:
    """A value of each run, in the order of the runs."""

    name: str
    cells: Sequence[str]

    @property
    def differs(self) -> bool:
        """Whether not all runs have the same."""
        return len(set(self.cells)) > 1


@dataclass(frozen=True, kw_only=True)
class Table:
    """Values of one kind; *same* lines are left out, which are alike in all runs."""

    title: str
    lines: Sequence[Line]
    same: int = 0
    numbers: bool = False


def tables_of(
    context: Context, runs: Sequence[Run], summaries: Sequence[Mapping[str, MetricSummary]], *, only: bool
) -> list[Table]:
    """Return the values of runs next to each other.

    Args:
        summaries: of each run its metrics by name.
        only: whether lines are left out that are the same for all runs.
    """
    found = {
        "Run": [_facts(context, run) for run in runs],
        "Environment": [_environment(context, run) for run in runs],
        "Parameters": [parameters_of(context, run) for run in runs],
        "Inputs": [_inputs(run) for run in runs],
        "Tags": [dict(run.tags) for run in runs],
        "Last values of metrics": [
            {key: text(one.last, digits=6) for key, one in metrics.items()} for metrics in summaries
        ],
    }
    tables = [_table(title, values, only=only, numbers="metrics" in title) for title, values in found.items()]
    return [table for table in tables if table.lines or table.same]


def _facts(context: Context, run: Run) -> dict[str, str]:
    job = run.job or {}
    last = context.clock() if run.ended is None else run.ended
    settings = {name: job[name] for name in SETTINGS if job.get(name)}
    return _filled(
        {
            "Status": run.status,
            "Experiment": run.experiment,
            "Duration": "" if run.started is None else duration(last - run.started),
            "Compute": compute_name(run),
            "Exit code": run.exit_code,
            "Error": run.error_message,
            "Command": job.get("command") or (job.get("trial") or {}).get("command"),
            "Code": job.get("codeId"),
            **{
                name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, sort_keys=True)
                for name, value in settings.items()
            },
        }
    )


def _environment(context: Context, run: Run) -> dict[str, str]:
    job = run.job or {}
    known = environment_of(context, job)
    name = job.get("environmentId") if known is None else f"{known.name}:{known.version}"
    variables = sorted(job.get("environmentVariables") or {})
    return _filled(
        {
            "Environment": name,
            "Image": None if known is None else known.properties.get("image"),
            "Environment variables": ", ".join(variables),
        }
    )


def parameters_of(context: Context, run: Run) -> dict[str, str]:
    """Return a run's parameters, with those that a sweep sampled for it."""
    sampled = {name: shown_value(value) for name, value in hyperparameters_of(run).items()}
    return {**sampled, **dict(context.store.metrics.params(run.id))}


def _filled(values: Mapping[str, Any]) -> dict[str, str]:
    return {name: str(value) for name, value in values.items() if value not in (None, "")}


def _inputs(run: Run) -> dict[str, str]:
    inputs = (run.job or {}).get("inputs") or {}
    return {
        str(name): str(given.get("uri") or given.get("value") or "")
        for name, given in inputs.items()
        if isinstance(given, Mapping)
    }


def _table(title: str, values: Sequence[Mapping[str, str]], *, only: bool, numbers: bool) -> Table:
    names: dict[str, None] = {}
    for one in values:
        names |= dict.fromkeys(one)
    ordered = list(names) if title in ("Run", "Environment") else sorted(names)
    lines = [Line(name=name, cells=[one.get(name, MISSING) for one in values]) for name in ordered]
    kept = [line for line in lines if line.differs] if only else lines
    return Table(title=title, lines=kept, same=len(lines) - len(kept), numbers=numbers)
