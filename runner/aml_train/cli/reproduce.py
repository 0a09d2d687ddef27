"""The command ``aml-train model reproduce``: train a model again, and compare."""

from __future__ import annotations

import click

from aml_train.cli.options import model_address, place_of
from aml_train.cli.output import json_option, print_lines, print_result
from aml_train.cli.project import ProjectOptions, target_options
from aml_train.models.lineage import render_lineage
from aml_train.reproduce import failed_reproduction, open_reproducer


@click.command("reproduce")
@model_address
@target_options
@click.option("--plan", "plan_only", is_flag=True, help="Show what it needs and what is gone; submit nothing.")
@click.option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=1e-6,
    metavar="X",
    help="Count metrics as equal up to this relative difference.  [default: 1e-06]",
)
@click.option("-c", "--compute", metavar="NAME", help="Another compute.")
@json_option()
def reproduce(
    address: str,
    project: ProjectOptions,
    *,
    plan_only: bool,
    tolerance: float,
    compute: str | None,
    as_json: bool,
) -> None:
    """Train a model version again from its lineage alone, and compare.

    The job is submitted with the same code, image, data versions, parameters and environment variables, all of which AzureML and the
    registry hold. The model's files are compared bit by bit, then the metrics. Nothing is registered.

    Exit codes: 0 identical or equivalent, 2, 5 the repetition failed, 6 it differs or a part is gone, 7 interrupted, 8 the service.

    \b
    aml-train model reproduce digits@production --plan
    aml-train model reproduce digits:7 --tolerance 0.001
    """
    reproducer = open_reproducer(*place_of(project))
    plan = reproducer.plan(address)
    print_lines(render_lineage(plan.lineage), err=as_json or not plan_only)
    if plan_only:
        if as_json:
            print_result(plan.facts())
        plan.require()
        return
    found = reproducer.repeat(plan, tolerance=tolerance, compute=compute)
    if as_json:
        print_result(found.facts())
    else:
        click.echo(f"{plan.name}: {found.state} ({found.repeated})")
        for noun, differences in (("file", found.files), ("metric", found.metrics)):
            print_lines(f"{noun} {one.name}: {one.original} → {one.repeated}" for one in differences)
    if (error := failed_reproduction(found)) is not None:
        raise error
