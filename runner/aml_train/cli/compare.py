"""The command ``aml-train compare``: any two runs, models or files side by side."""

from __future__ import annotations

import datetime
import functools
import itertools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.options import open_workspace
from aml_train.cli.output import json_option, print_lines, print_result, printable_line, terminal_width
from aml_train.cli.project import ProjectOptions, target_options
from aml_train.cli.tables import comparison_table
from aml_train.comparison import find_comparison, histories, parse_reference, project_of
from aml_train.report.series import plot

if TYPE_CHECKING:
    from aml_train.azure.sdk_v2 import AzureV2
    from aml_train.core.comparison import Comparison

#: Charts that are drawn if no metric is named.
_CHARTS: Final = 6


@click.command()
@click.argument("left", metavar="A")
@click.argument("right", metavar="B")
@target_options
@click.option("--metric", "metrics", multiple=True, metavar="NAME", help="Only this metric; may be repeated.")
@click.option("--charts/--no-charts", default=True, help="Draw the metrics over steps.  [default: --charts]")
@json_option()
def compare(
    left: str,
    right: str,
    project: ProjectOptions,
    *,
    metrics: tuple[str, ...],
    charts: bool,
    as_json: bool,
) -> None:
    """Compare two jobs, models or files of metrics.

    Shows their data, image, commit, metrics, and the inputs, logged parameters and environment variables that differ. A and B are jobs in any state, registered models, or files of
    metrics. Differences are A less B. The comparison changes nothing, and the exit code does not depend on it: the gate decides, see
    docs/gate.md.

    \b
    aml-train compare JOB OTHER                    two jobs
    aml-train compare JOB model:digits:3           a version of a model
    aml-train compare JOB model:digits@production  the version in a stage
    aml-train compare JOB stage:production         of the model in aml-train.yml
    aml-train compare JOB branch:main              the last that passed
    aml-train compare JOB baseline                 the one that is configured
    aml-train compare JOB report.json              a file: {"val/accuracy": 0.95}
    """
    names = parse_reference(left), parse_reference(right)
    workspace = functools.cache(lambda: open_workspace(project))
    configured = functools.cache(lambda: project_of(project.load(), os.environ))
    found = find_comparison(workspace, names, configured, now=datetime.datetime.now(datetime.UTC), metrics=metrics)
    if as_json:
        curves = {metric: histories(workspace, found, metric) for metric in found.metrics}
        print_result(
            {**found.facts(), "histories": {name: {"left": a, "right": b} for name, (a, b) in curves.items()}}
        )
        return
    for sign, side in (("A", found.left), ("B", found.right)):
        click.echo(f"{sign}  {printable_line(side.title)}")
    click.echo()
    print_lines(comparison_table(found, head=("", "A", "B", "A - B"), width=terminal_width()))
    if charts:
        _print_charts(workspace, found, len(metrics) or _CHARTS)


def _print_charts(workspace: Callable[[], AzureV2], found: Comparison, most: int) -> None:
    """Draw the metrics that have several steps; those of both sides come first."""
    names = sorted(
        found.metrics, key=lambda name: (found.metrics[name].left is None or found.metrics[name].right is None, name)
    )
    curves = ((name, plot(*histories(workspace, found, name))) for name in names)
    for name, lines in itertools.islice(((name, lines) for name, lines in curves if lines), most):
        click.echo("\n".join(["", f"{printable_line(name)} over steps   ● A   ○ B   ◉ both", *lines]))
