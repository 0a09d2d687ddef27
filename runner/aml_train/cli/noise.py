"""The command ``aml-train jobs noise``: how much a job's metrics spread over its seed, and which margin the gate needs."""

from __future__ import annotations

import datetime
import functools
import os
import sys
from collections.abc import Sequence

import click

from aml_train.cli.options import OutputOptions, open_workspace, output_options, this_host
from aml_train.cli.output import masker, print_lines, print_result, printable_line
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.comparison import find_side, parse_reference, project_of
from aml_train.config.sections.gate import GateRule
from aml_train.core.errors import InvalidError
from aml_train.core.text import aligned
from aml_train.gate.replicates import Spread
from aml_train.jobs.attempts import replicates_of
from aml_train.jobs.workspace import Workspace
from aml_train.noise import ALPHA, POWER, measure_noise
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.result import RunOptions
from aml_train.pipeline.run_files import own_output


@click.command()
@click.argument("reference", metavar="[JOB]", required=False)
@project_options
@click.option("-n", "count", type=click.IntRange(2, 50), default=5, show_default=True, help="Number of replicates.")
@click.option("--input", "name", metavar="NAME", default="seed", show_default=True, help="Input that they differ in.")
@output_options
def noise(reference: str | None, project: ProjectOptions, output: OutputOptions, *, count: int, name: str) -> None:
    """Measure how much metrics spread over a job's seed; propose the gate's margin.

    Without JOB, the configuration's job is run with the values 1, 2, … of its input; values that it was run with before are attached to, and
    nothing is gated or registered. JOB is one that was run with `replicates`, or a model, as in `aml-train compare`: nothing is run.

    \b
    aml-train jobs noise -n 5
    aml-train jobs noise model:digits@production
    """
    rules: Sequence[GateRule] = ()
    if reference is None:
        values = list(range(1, count + 1))
        config = project.load(f"replicates={{input: {name}, values: {values}}}")
        rules = config.gate
        prepared = prepare_run(config, this_host(), own=own_output(output.events))
        with output.listener() as listener:
            ended = run_prepared(
                prepared, RunOptions(decide=False, register=False), listeners=(listener,), masker=masker()
            )
        if not ended.passed:
            sys.exit(ended.exit_code)
        service: Workspace = open_workspace(project)
        found = [view for one in ended.replicates if (view := service.find(one.job)) is not None]
    else:
        service = open_workspace(project)
        configured = functools.cache(lambda: project_of(project.load(), os.environ))
        now = datetime.datetime.now(datetime.UTC)
        side = find_side(lambda: service, parse_reference(reference), configured, now=now)
        view = service.find(side.job) if side.job is not None else None
        found = [] if view is None else replicates_of(service, view)
        if len(found) < 2:
            raise InvalidError(
                f"{reference} has {len(found)} replicates that have completed.",
                hint="Run some: aml-train jobs noise, without a job.",
            )
        try:
            rules = project.load().gate
        except InvalidError as error:
            click.echo(f"note: no rules of a gate are known: {printable_line(error.message)}", err=True)
    measured = measure_noise(service, found, rules)
    if output.as_json:
        print_result(
            {
                "jobs": [one.name for one in found],
                "metrics": {name: one._asdict() for name, one in measured.spreads.items()},
                "proposal": measured.proposal,
            }
        )
        return
    rows = [(metric, *(f"{value:.6g}" for value in one)) for metric, one in measured.spreads.items()]
    print_lines(aligned([("metric", *Spread._fields), *rows]))
    click.echo(
        f"\nWith the margin, a model that is as good as its baseline passes in at least {POWER:.0%} of the runs, and one that is worse"
        f" by the margin in at most {ALPHA:.0%}.\n"
    )
    print_lines(measured.proposal)
