"""The command ``aml-train compare``: any two runs, models or files side by side."""

from __future__ import annotations

import dataclasses
import datetime
import functools
import json
import math
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aml_train.cli.options import target_options

if TYPE_CHECKING:
    from aml_train.core.comparison import Comparison, Side
    from aml_train.core.series import History
    from aml_train.jobs import JobService
    from aml_train.pipeline import Project

#: Charts that are drawn where nobody says which.
_CHARTS: Final = 6


@click.command()
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@target_options
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; may be repeated.")
@click.option("--charts/--no-charts", default=True, help="Draw the metrics over steps.  [default: --charts]")
@click.option("--json", "as_json", is_flag=True, help="Everything that is known, with all values, as JSON.")
def compare(
    left: str,
    right: str,
    directory: Path,
    config: Path | None,
    target: str | None,
    *,
    metrics: tuple[str, ...],
    charts: bool,
    as_json: bool,
) -> None:
    """Show two runs side by side: what they are, their data, image, commit, parameters that differ, and metrics.

    A and B are jobs in any state, registered models, or files of metrics. Differences are A less B. Nothing is changed, and the exit
    code does not depend on what differs: the gate decides, see docs/gate.md.

    \b
    aml-train compare digits-4bd01f2c-1 digits-90aa3e61-1     two jobs
    aml-train compare JOB model:digits:3                      a version of a model
    aml-train compare JOB model:digits@production             the version in a stage
    aml-train compare JOB stage:production                    of the model in aml-train.yml
    aml-train compare JOB branch:main                         the last run of a branch that passed
    aml-train compare JOB baseline                            the one that is configured
    aml-train compare JOB report.json                         a file: {"val/accuracy": 0.95}
    """
    from aml_train.core.comparison import Comparison
    from aml_train.pipeline import find_side, parse_reference

    names = [parse_reference(text) for text in (left, right)]
    workspace = functools.cache(lambda: _workspace(directory, config, target))
    project = functools.cache(lambda: _project(directory, config, target))
    jobs = [name.name if name.kind == "job" else None for name in names]
    now = datetime.datetime.now(datetime.UTC)
    sides = [
        find_side(workspace, name, project, now=now, besides=other)
        for name, other in zip(names, reversed(jobs), strict=True)
    ]
    if unknown := [metric for metric in metrics if not any(metric in side.metrics for side in sides)]:
        raise click.UsageError(f"--metric {unknown[0]}: neither side has it.")
    found = Comparison(left=_only(sides[0], metrics), right=_only(sides[1], metrics))
    if as_json:
        histories = {metric: _histories(workspace, found, metric) for metric in found.metrics}
        told = {**found.facts(), "histories": {name: {"left": a, "right": b} for name, (a, b) in histories.items()}}
        click.echo(json.dumps(_finite(told), ensure_ascii=False, indent=2))
        return
    _print_table(found)
    if charts:
        _print_charts(workspace, found, len(metrics) or _CHARTS)


def _only(side: Side, metrics: Sequence[str]) -> Side:
    """Return the side with none but these of its metrics; with all where none are named."""
    kept = {name: value for name, value in side.metrics.items() if not metrics or name in metrics}
    return dataclasses.replace(side, metrics=kept)


def _workspace(directory: Path, config: Path | None, target: str | None) -> JobService:
    from aml_train.cli.console import ConsoleListener
    from aml_train.config import load_targets
    from aml_train.pipeline import Host, open_workspace

    targets = load_targets(config, directory=directory)
    return open_workspace(
        Host(environ=dict(os.environ)), targets.named(target), targets.directory, ConsoleListener(sys.stderr)
    ).service


def _project(directory: Path, config: Path | None, target: str | None) -> Project:
    from aml_train.cli.options import load
    from aml_train.pipeline import Project, origin_of, read_commit

    loaded = load(directory, config, None, target, ())
    return Project(config=loaded, origin=origin_of(loaded, read_commit(loaded.directory)))


def _histories(workspace: Callable[[], JobService], found: Comparison, metric: str) -> tuple[History, History]:
    """Return a metric's (step, value) pairs of both sides; none where a side is no job, or its job is gone."""

    def of(side: Side) -> History:
        # A job that is gone has no status any more; what is known of its metrics was kept with the model.
        if side.job is None or side.status is None or metric not in side.metrics:
            return []
        return [(point.step, point.value) for point in workspace().metric_history(side.job, metric)]

    return of(found.left), of(found.right)


def _print_table(found: Comparison) -> None:
    from aml_train.cli.comparison_table import table
    from aml_train.cli.console import printable

    for sign, side in (("A", found.left), ("B", found.right)):
        click.echo(f"{sign}  {printable(' '.join(side.title.split()))}")
    click.echo()
    for line in table(found, head=("", "A", "B", "A - B"), shown=printable):
        click.echo(line)


def _print_charts(workspace: Callable[[], JobService], found: Comparison, most: int) -> None:
    """Draw the metrics that have a course: those that both sides have first."""
    from aml_train.cli.console import printable
    from aml_train.core.series import odd_values, plot

    names = sorted(
        found.metrics, key=lambda name: (found.metrics[name].left is None or found.metrics[name].right is None, name)
    )
    drawn = left_out = 0
    for name in names:
        if drawn == most:
            left_out += 1
            continue
        left, right = _histories(workspace, found, name)
        lines = plot(left, right)
        if not lines:
            continue
        drawn += 1
        odd = [
            f"{sign}: {count} not finite" for sign, side in (("A", left), ("B", right)) if (count := odd_values(side))
        ]
        remark = f"  ({', '.join(odd)})" if odd else ""
        click.echo(f"\n{printable(' '.join(name.split()))} over steps   ● A   ○ B   ◉ both{remark}")
        for line in lines:
            click.echo(line)
    if left_out:
        click.echo(f"\nUp to {left_out} more metrics are not drawn: name them with --metric.")


def _finite(value: Any) -> Any:
    """Return *value* as JSON can hold it: what is not finite becomes text."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: _finite(one) for key, one in value.items()}
    return [_finite(one) for one in value] if isinstance(value, list | tuple) else value
