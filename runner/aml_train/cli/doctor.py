"""`aml-train doctor`: what would make a run fail, and the commands that help."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.options import this_host
from aml_train.cli.output import json_option, masker, print_result
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.core.diagnosis import MARKS
from aml_train.core.text import printable
from aml_train.doctor import DoctorProject, diagnose

if TYPE_CHECKING:
    from aml_train.core.diagnosis import CheckResult

_COLOURS: Final = {"ok": "green", "warning": "yellow", "failed": "red", "skipped": "bright_black"}


@click.command()
@project_options
@json_option()
def doctor(project: ProjectOptions, *, as_json: bool) -> None:
    """Check everything that a run needs; change nothing.

    \b
    aml-train doctor                 this machine and the configured target
    aml-train doctor --target azure  sign-in, roles, compute, registry, …

    Each line is a check; a failure names the command that mends it. Exit code 0 without a failure, 2 for this machine or
    its configuration, 8 for services.
    """

    def show(result: CheckResult) -> None:
        if not as_json:
            click.echo(render(result))

    diagnosis = diagnose(
        DoctorProject(load=project.load, targets=project.targets, target=project.target),
        this_host(),
        show,
        masker=masker(),
    )
    if as_json:
        print_result(diagnosis.facts())
    else:
        click.echo(diagnosis.summary())
    sys.exit(diagnosis.exit_code)


def render(result: CheckResult) -> str:
    """Return the lines of a result: a mark, the name, the facts, and the remedy."""
    outcome = result.outcome
    mark = click.style(MARKS[outcome.status], fg=_COLOURS[outcome.status])
    lines = [f"{mark} {result.name}: {printable(outcome.found)}"]
    if outcome.status in ("failed", "warning"):
        lines += [f"    {printable(line)}" for line in outcome.remedy.splitlines()]
    return "\n".join(lines)
