"""The command ``aml-train badge``."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from aml_train.cli.options import ProjectOptions, target_options
from aml_train.cli.result import json_option, print_result, result_text

if TYPE_CHECKING:
    pass


@click.command()
@click.argument("reference", metavar="JOB|branch:NAME|model:NAME@STAGE")
@target_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write it into a file: SVG, or with the ending .json an endpoint of shields.io.  [default: SVG on standard output]",
)
@click.option("--metric", metavar="NAME", help="Show this metric's value.")
@click.option("--label", metavar="TEXT", help="The left part.  [default: the metric's, branch's or model's name]")
@json_option()
def badge(
    reference: str,
    project: ProjectOptions,
    *,
    output: Path | None,
    metric: str | None,
    label: str | None,
    as_json: bool,
) -> None:
    """Write a badge of a job, a branch or a model: SVG, or JSON for shields.io.

    A job and a branch show whether the gate of their last judged run was met, a model the version in its stage; with --metric, all show a
    metric. A workflow publishes the file, such as on GitHub Pages.

    \b
    aml-train badge branch:main -o badge.svg
    aml-train badge model:digits@production --metric val/accuracy -o accuracy.json
    """
    from aml_train.core.replacing import replace_file
    from aml_train.pipeline import find_badge, parse_reference, project_of

    named, configured = parse_reference(reference), lambda: project_of(project.load())
    made = find_badge(project.open_workspace(), named, configured, metric=metric, label=label)
    if output is not None:
        text = result_text(made.endpoint()) + "\n" if output.suffix == ".json" else made.svg()
        replace_file(output, text.encode(), parents=True)
    if as_json:
        print_result(made.endpoint())
    elif output is None:
        click.echo(made.svg(), nl=False)
    else:
        click.echo(f"{output}: {made.label}: {made.message}")
