"""The command ``aml-train report``: a job in one file that people read."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.options import place_of
from aml_train.cli.output import masker, print_exactly, printable_line, write_file
from aml_train.cli.project import ProjectOptions, target_options
from aml_train.comparison import parse_reference, project_of
from aml_train.core.errors import InvalidError
from aml_train.report import values
from aml_train.report.collect import collect_report, open_report
from aml_train.report.html import render_html
from aml_train.report.markdown import render_markdown

if TYPE_CHECKING:
    from aml_train.report.values import Report

_SUFFIXES: Final[Mapping[str, str]] = {
    ".html": "html",
    ".md": "markdown",
    ".json": "json",
}
_RENDERERS: Final[Mapping[str, Callable[[Report], bytes]]] = {
    "html": render_html,
    "markdown": render_markdown,
    "json": values.encode,
}


@click.command()
@click.argument("jobs", metavar="[JOB]...", nargs=-1)
@target_options
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    default="report.html",
    help="The file; - is standard output.  [default: report.html]",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(["html", "markdown", "json"]),
    help="The form of the report.  [default: by the file's suffix, .html, .md or .json]",
)
@click.option(
    "--baseline", metavar="SIDE", help="The other side of the comparison.  [default: `baseline` of aml-train.yml]"
)
def report(
    jobs: tuple[str, ...], project: ProjectOptions, *, output: str, form: str | None, baseline: str | None
) -> None:
    """Write the report of a job as one HTML file, as Markdown or JSON.

    It has the gate's verdict, curves over those of the baseline, parameters, data and packages that differ, tables, images, nodes or
    trials, the lineage, the environment, the last lines of the logs, the cost, and how to do the same again. The HTML file needs nothing
    else: it contacts no service and has no scripts. The report names each part that cannot be read, which is no error.

    Each JOB is a job, model:NAME:VERSION, model:NAME@STAGE, stage:STAGE, branch:NAME or baseline, as for `aml-train compare`. The curves of
    further jobs are drawn over those of the first. Without JOB, it is the latest job of the configuration.

    \b
    aml-train report                             the latest job, into report.html
    aml-train report JOB -o report.md            as Markdown
    aml-train report JOB --baseline branch:main  against the last of main
    aml-train report JOB OTHER THIRD             three jobs in one chart
    aml-train report model:digits@production -o - --format json
    """
    form = form or ("html" if output == "-" else _SUFFIXES.get(Path(output).suffix.lower()))
    if form is None:
        raise click.UsageError(f"-o {output}: write .html, .md or .json behind it, or name the form: --format html.")
    references = [parse_reference(text) for text in jobs]
    side = parse_reference(baseline) if baseline is not None else None
    sources = open_report(
        *place_of(project),
        project=functools.cache(lambda: project_of(project.load(), os.environ)),
        masker=masker(),
        progress=lambda part: click.echo(f"reading: {part}", err=True),
    )
    made = collect_report(sources, references, baseline=side)
    try:
        content = _RENDERERS[form](made)
    except ValueError as error:
        raise InvalidError(
            f"The report is too large even without its optional parts: {error}.", hint="Name fewer jobs."
        ) from error
    if output == "-":
        print_exactly(content.decode())
        return
    write_file(Path(output), content)
    for missing in made.missing:
        click.echo(f"note: {missing.part} is incomplete: {printable_line(missing.reason)}", err=True)
    click.echo(output)
