"""The command ``aml-train init``: a first configuration from what is found."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from aml_train.cli.output import print_exactly, write_file
from aml_train.cli.scaffold.draft import Candidate, render
from aml_train.cli.scaffold.project import Project, scan, unread
from aml_train.cli.scaffold.proposal import candidates, named, propose
from aml_train.config.load import check_text
from aml_train.config.model import Config
from aml_train.core.errors import InvalidError
from aml_train.core.files import FileSet
from aml_train.core.version import action_reference
from aml_train.pipeline.resolve import read_project

NAME = "aml-train.yml"
MOST_NAMED = 20


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
@click.option("--example", is_flag=True, help="Write a small project that trains, to start from.")
@click.option("--dry-run", is_flag=True, help="Print what would be written, and write nothing.")
@click.option("--force", is_flag=True, help="Replace existing files.")
def init(
    directory: Path,
    *,
    job: str | None,
    workflow: bool,
    example: bool,
    dry_run: bool,
    force: bool,
) -> None:
    """Write a first aml-train.yml for a repository.

    Reads job YAMLs, run configurations, requirements, conda files, Dockerfiles, scripts and tests, and writes the origin of each value
    as a comment. Of several jobs, --job names one. The result passes `aml-train validate`.

    \b
    aml-train init --dry-run              print it, write nothing
    aml-train init --job jobs/train.yml   choose one of several jobs
    aml-train init --example              start without a job
    """
    if example and job is not None:
        raise click.UsageError("--example writes its own job: leave --job out.")
    notes: Sequence[str] = ()
    files: Mapping[str, str] = EXAMPLE
    if not example:
        files, notes = _propose(directory, job)
    if workflow:
        action = action_reference()
        files = {**files, WORKFLOW_PATH: workflow_text(action or _UNKNOWN)}
        if action is None:
            fill = f"{WORKFLOW_PATH}: fill in the repository and version of aml-train's action in place of {_UNKNOWN}"
            notes = [*notes, fill]
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


def _propose(directory: Path, job: str | None) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return the files: a valid configuration and perhaps an .amlignore; and notes."""
    project = scan(directory, read_project(directory, os.environ).parts[-1])
    chosen = _choose(project, directory, job)
    draft = propose(project, chosen, asked=job is not None)
    text = render(draft.items)
    try:
        config = check_text(text, NAME, directory=directory)
    except InvalidError as error:
        hint = "Correct these first, or name another job or script: --job PATH. Nothing was written."
        raise InvalidError(error.faults, hint=hint) from error
    ignore, notes = _propose_ignore(directory, config, chosen.reads)
    return {NAME: text, **ignore}, [*draft.notes, *notes]


def _choose(project: Project, directory: Path, job: str | None) -> Candidate:
    if job is not None:
        return _named(project, directory, job)
    possible = candidates(project)
    if len(possible) == 1:
        return possible[0]
    if not possible:
        raise _nothing(project)
    shown = [f"{one.path}:{one.mark.line}: {one.what}" for one in possible[:MOST_NAMED]]
    listed = "\n".join([f"There are {len(possible)} jobs; which one is meant?", *shown])
    raise InvalidError(listed, hint=f"Name it: --job {possible[0].path}")


def _named(project: Project, directory: Path, job: str) -> Candidate:
    """Return the job that *job* names: a path, from the project folder or from here."""
    path = Path(job).absolute() if Path(job).exists() else directory.absolute() / job
    relative = os.path.relpath(path, directory.absolute())
    if (found := named(project, relative)) is not None:
        return found
    if faults := [fault for fault in project.faults if fault.where.rpartition(":")[0] == relative]:
        raise InvalidError(faults)
    if (line := dict(unread(project)).get(relative)) is not None:
        raise InvalidError(line)
    raise InvalidError(
        f"{job} is no command job, no runconfig and no Python script of the project.",
        hint="A command job has `command` and `$schema: https://azuremlschemas.azureedge.net/latest/commandJob.schema.json`.",
    )


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
    return InvalidError(
        "\n".join(["No command job was found, no run configuration, and no script that trains.", *other]),
        hint="Name a script with --job PATH, write a command job (job.yml with `command`, `code`, `compute`), "
        "or start from a small project: aml-train init --example",
    )


_HEADER: Final = """\
# Written by `aml-train init`: AzureML reads this file instead of .gitignore. The lines of .gitignore, and data that the job reads:
"""


def _propose_ignore(directory: Path, config: Config, reads: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """Return the .amlignore that has data sent which the script reads and git ignores, by its path; and notes on them.

    Args:
        directory: the project folder.
        config: the configuration that is proposed.
        reads: files and folders of the project that the script reads.
    """
    code, root = config.job.code, Path(os.path.abspath(directory))  # noqa: PTH100 - links stay
    below = [root / path for path in reads if code is not None and (root / path).is_relative_to(code)]
    if code is None or not below:
        return {}, []
    sent = {code / entry.path for entry in FileSet.collect_code(code, project=root).entries}
    lost = [path for path in below if not any(one.is_relative_to(path) for one in sent)]
    file, kept = code / ".amlignore", code / ".gitignore"
    patterns = [f"!/{path.relative_to(code).as_posix()}{'/' if path.is_dir() else ''}" for path in lost]
    where = file.relative_to(root).as_posix()
    if file.exists():
        return {}, [f"{where}: it leaves out what the script reads: add the line `{one}`" for one in patterns]
    why = "git ignores it, so a workflow's checkout lacks it"
    notes = [
        f"{path.relative_to(root).as_posix()}: {why}: store it by `aml-train data upload`, and name it under `data`"
        for path in lost
    ]
    ignored = kept.read_text(encoding="utf-8-sig", errors="replace").strip("\n") if kept.is_file() else ""
    return {where: _HEADER + "\n".join([ignored, *patterns, ""])} if lost else {}, notes


# Writing


def write_files(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write texts to their paths.

    Args:
        directory: where the paths start from.
        files: texts by path, with ``/``; written in UTF-8, in this order.
        force: replace existing files.

    Raises:
        InvalidError: one of them exists, and *force* is not given: then none is written; or one cannot be written.
    """
    there = [path for path in files if os.path.lexists(directory / path)]
    if there and not force:
        raise InvalidError(
            f"{', '.join(there)} {'exists' if len(there) == 1 else 'exist'} already; nothing was written.",
            hint="Replace with --force, or only look with --dry-run.",
        )
    for path, text in files.items():
        write_file(directory / path, text.encode())


# The example project and the workflow

_CHECKOUT = "actions/checkout@3d3c42e5aac5ba805825da76410c181273ba90b1 # v7.0.1"

_CONFIGURATION = """\
# A first configuration, written by `aml-train init --example`. Try it: aml-train run
job:
  command: python train.py --rate ${{inputs.rate}}
  code: src
  inputs:
    rate: 0.1
  compute: azureml:cpu-cluster   # the name of your cluster; the target `local` needs none
image:
  base: python:3.11-slim-bookworm
  pip: [mlflow-skinny, pytest]
  azureml-mlflow: latest
tests:
  command: pytest -q tests
gate:
  loss: "< 0.01"
model:
  name: example
  path: outputs/model
"""

_TRAIN = '''\
"""Find the minimum of a parabola by gradient descent: the smallest training there is."""

import argparse
import json
from pathlib import Path


def step(x, rate):
    """Return the next x: one step down the slope of (x - 3)²."""
    return x - rate * 2 * (x - 3)


def main():
    import mlflow

    parser = argparse.ArgumentParser()
    parser.add_argument("--rate", type=float, default=0.1)
    rate = parser.parse_args().rate
    x = 0.0
    for epoch in range(50):
        x = step(x, rate)
        mlflow.log_metric("loss", (x - 3) ** 2, step=epoch)
    model = Path("outputs/model")
    model.mkdir(parents=True, exist_ok=True)
    (model / "model.json").write_text(json.dumps({"x": x}))


if __name__ == "__main__":
    main()
'''

_TESTS = """\
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "src"))

from train import step


def test_a_step_leads_towards_the_minimum():
    assert abs(step(0.0, 0.1) - 3) < 3
    assert step(3.0, 0.1) == 3.0
"""

EXAMPLE = {"aml-train.yml": _CONFIGURATION, "src/train.py": _TRAIN, "tests/test_train.py": _TESTS}
"""A project that trains in seconds, by path."""

WORKFLOW_PATH = ".github/workflows/train.yml"

_UNKNOWN: Final = "OWNER/NAME@v1"


def workflow_text(action: str) -> str:
    """Return a workflow that runs the aml-train.yml at the top of the repository, by the action that ``uses:`` names."""
    return f"""\
# Written by `aml-train init --workflow`: train on every push on the local AzureML, without a cloud and without secrets.
# For a workspace in Azure see docs/workflows.md: `target`, `permissions: id-token: write`, and a federated credential.
name: train

on:
  push:
  pull_request:

permissions:
  contents: read

jobs:
  train:
    runs-on: ubuntu-latest
    timeout-minutes: 60
    steps:
      - uses: {_CHECKOUT}
        with:
          fetch-depth: 0
          persist-credentials: false
      - uses: {action}
        with:
          target: local
"""
