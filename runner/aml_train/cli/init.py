"""The command ``aml-train init``: a first configuration from what is found."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

import click

from aml_train.cli.output import print_exactly
from aml_train.cli.scaffold.draft import EXAMPLE, WORKFLOW_PATH, missing_action, render, workflow_text, write_files
from aml_train.cli.scaffold.ignore import propose_ignore
from aml_train.cli.scaffold.jobs import Candidate, candidates, named, others_than
from aml_train.cli.scaffold.project import Project, scan, unread
from aml_train.cli.scaffold.proposal import propose
from aml_train.config.load import check_text
from aml_train.core.errors import InvalidError
from aml_train.core.release import action_reference
from aml_train.pipeline.resolve import read_project

NAME = "aml-train.yml"
MOST_NAMED = 20
_ACTION = re.compile(r"[A-Za-z0-9-]+/[A-Za-z0-9._-]+(?:/[A-Za-z0-9._-]+)*@[A-Za-z0-9._/-]+")


@click.command()
@click.option(
    "-C",
    "--directory",
    type=click.Path(path_type=Path, file_okay=False, exists=True),
    default=Path(),
    help="The project folder.  [default: .]",
)
@click.option(
    "--job",
    metavar="PATH",
    help="The job: a command job, a runconfig of SDK v1, or a Python script.",
)
@click.option("--workflow", is_flag=True, help="Also write .github/workflows/train.yml.")
@click.option(
    "--action",
    metavar="OWNER/NAME@REF",
    help="The action that the workflow uses; by default that of the release.  [with --workflow]",
)
@click.option("--example", is_flag=True, help="Write a small project that trains, to start from.")
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.option("--force", is_flag=True, help="Replace existing files.")
def init(
    directory: Path,
    *,
    job: str | None,
    workflow: bool,
    action: str | None,
    example: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Write a first aml-train.yml for a repository.

    Reads job YAMLs, run configurations, requirements, conda files, Dockerfiles, scripts and tests, and writes the origin of each value
    as a comment. With several jobs, it lets you choose. The result passes `aml-train validate`.

    \b
    aml-train init --dry-run              print it, write nothing
    aml-train init --job jobs/train.yml   choose one of several jobs
    aml-train init --example              start without a job
    """
    if action is not None and not workflow:
        raise click.UsageError("--action belongs to --workflow.")
    if example and job is not None:
        raise click.UsageError("--example writes its own job: leave --job out.")
    notes: Sequence[str] = ()
    files: Mapping[str, str] = EXAMPLE
    if not example:
        files, notes = _propose(directory, job)
    if workflow:
        text = _workflow(action)
        files = {**files, WORKFLOW_PATH: text}
        missing = missing_action(text)
        notes = [*notes, missing] if missing else notes
    if dry_run:
        for path, text in files.items():
            print_exactly(f"# {path}\n{text}" if len(files) > 1 else text)
    else:
        write_files(directory, files, force=force)
    for note in notes:
        click.echo(f"note: {note}", err=True)
    if not dry_run:
        click.echo(f"wrote {', '.join(files)}", err=True)
        click.echo("Next: aml-train validate, then aml-train run", err=True)


def _workflow(action: str | None) -> str:
    """Return the workflow's text, with the given action or that of the release."""
    if action is not None and _ACTION.fullmatch(action) is None:
        raise click.UsageError(f"--action {action} is not of the form OWNER/NAME@REF, such as octo/aml-train@v1.")
    return workflow_text(action or action_reference())


def _propose(directory: Path, job: str | None) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the files: a valid configuration and perhaps an .amlignore; and notes."""
    project = scan(directory, read_project(directory, os.environ).parts[-1])
    chosen = _choose(project, directory, job)
    draft = propose(project, chosen, asked=job is not None)
    text = render(draft)
    try:
        config = check_text(text, NAME, directory=directory)
    except InvalidError as error:
        others = [one.path for one in others_than(project, chosen)]
        instead = f" Or name another job: --job {' or '.join(others[:3])}" if others else ""
        raise InvalidError(error.faults, hint=f"Correct these first; nothing was written.{instead}") from error
    reads = [one.path for one in chosen.reads if one.path is not None]
    ignore, notes = propose_ignore(directory, config, project, reads)
    return {NAME: text, **ignore}, [*draft.notes, *notes]


def _choose(project: Project, directory: Path, job: str | None) -> Candidate:
    if job is not None:
        path = Path(job)
        inside = path.absolute().is_relative_to(directory.absolute()) and (path.is_absolute() or path.exists())
        relative = path.absolute().relative_to(directory.absolute()) if inside else path
        possible = named(project, relative.as_posix())
        if not possible:
            faults = [fault for fault in project.faults if fault.where.rpartition(":")[0] == relative.as_posix()]
            if faults:
                raise InvalidError(faults)
            for found, line in unread(project):
                if found == relative.as_posix():
                    raise InvalidError(line)
            raise InvalidError(
                f"{job} is no command job, no runconfig and no Python script of the project.",
                hint="A command job has `command` and `$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json`.",
            )
    else:
        possible = candidates(project)
    if len(possible) == 1:
        return possible[0]
    if not possible:
        raise _nothing(project)
    shown = [f"{one.path}:{one.mark.line}: {one.what}" for one in possible[:MOST_NAMED]]
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        more = len(possible) - len(shown)
        listed = "\n".join([*shown, *([f"and {more} more"] if more > 0 else [])])
        hint = f"Name it: --job {possible[0].path}"
        raise InvalidError(f"There are {len(possible)} jobs; which one is meant?\n{listed}", hint=hint)
    for number, line in enumerate(shown, start=1):
        click.echo(f"{number}. {line}", err=True)
    answer = click.prompt("Which job is meant?", type=click.IntRange(1, len(shown)), err=True)
    return possible[int(answer) - 1]


def _nothing(project: Project) -> InvalidError:
    if project.faults:
        return InvalidError(
            project.faults, hint="These files look like jobs and cannot be read; nothing was written."
        )
    other = [
        f"{one.path}:1: "
        + ("a component" if one.kind == "component" else f"a job of the type {one.said('type') or 'unknown'}")
        for one in project.of("other job", "component")
    ]
    other += [line for _, line in unread(project)][:MOST_NAMED]
    found = ("\n" + "\n".join(other)) if other else ""
    return InvalidError(
        "No command job was found, no run configuration, and no script that trains." + found,
        hint="Name a script with --job PATH, write a command job (job.yml with `command`, `code`, `compute`), "
        "or start from a small project: aml-train init --example",
    )
