"""The command ``aml-train submit``: runs any command as a job."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping, Sequence
from typing import Any

import click

from aml_train.cli.options import OutputOptions, output_options
from aml_train.cli.project import ProjectOptions, project_options_without_job
from aml_train.config.job.command_line import CommandLine
from aml_train.config.load import load_command
from aml_train.pipeline.prepare import PreparedRun
from aml_train.pipeline.result import RunOptions


@click.command(context_settings={"allow_interspersed_args": False})
@project_options_without_job
@click.option("-c", "--compute", metavar="NAME", help="Compute, instead of the target's and the job's.")
@click.option("--image", metavar="IMAGE", help="Image to run in, unchanged, instead of the configured one.")
@click.option("--environment", metavar="NAME", help="Environment to run in, such as azureml:NAME:VERSION.")
@click.option("--name", metavar="NAME", help="Name of the job; by default the experiment's with a random end.")
@click.option(
    "--experiment", metavar="NAME", help="Experiment; by default the configured job's, else AzureML's own, `Default`."
)
@click.option("--display-name", metavar="TEXT", help="Title in lists; by default the command.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Tag of the job; may be repeated.")
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable of the job, by default with its local value; may be repeated. No secrets: the job shows it.",
)
@click.option("--instance-type", metavar="SIZE", help="VM size, for serverless compute.")
@click.option("--instance-count", type=click.IntRange(min=1), metavar="N", help="Nodes.")
@click.option("--shm-size", metavar="SIZE", help="Shared memory of the container, such as 2g.")
@click.option("--gate", is_flag=True, help="Decide the configured gate after the job.")
@click.option("--no-wait", is_flag=True, help="Submit and return; see `aml-train jobs logs -f`.")
@click.option("--dry-run", is_flag=True, help="Print the job and change nothing.")
@output_options
@click.argument("arguments", metavar="-- COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def submit(
    project: ProjectOptions,
    output: OutputOptions,
    *,
    arguments: tuple[str, ...],
    tags: tuple[str, ...],
    variables: tuple[str, ...],
    no_wait: bool,
    dry_run: bool,
    **given: Any,
) -> None:
    """Run any command as a job, with the current folder as its code.

    It runs in the image that aml-train.yml builds and tests, else in the configured job's environment; --image or --environment replace
    both. `data` and `setup` of aml-train.yml apply. The log is followed; Ctrl-C cancels the job. The command receives its arguments
    unchanged: no shell reads them.

    \b
    aml-train submit --image python:3.11-slim-bookworm -- python -V
    aml-train submit -c gpu -- python train.py --data data/imagenet
    aml-train submit -- sh -c 'nvidia-smi | tee outputs/gpus.txt'
    """
    if not arguments:
        raise click.UsageError("Which command? Such as: aml-train submit -- python train.py")
    if given["image"] and given["environment"]:
        raise click.UsageError("--image and --environment exclude each other.")
    named, environment = _pairs("--tag", tags, {}), _pairs("--env", variables, os.environ)
    command = CommandLine(arguments=arguments, tags=named, variables=environment, **given)
    loaded = load_command(
        project.config,
        command,
        directory=project.directory.absolute(),
        target=project.target,
        sets=project.sets,
    )
    if len(arguments) == 1 and len(arguments[0].split()) > 1:
        click.echo("note: a single argument is the name of a program; for a shell write: -- sh -c '…'", err=True)

    def options(prepared: PreparedRun) -> RunOptions:
        name = command.name or f"{prepared.plan.job.stem}-{secrets.token_hex(5)}"
        return RunOptions(fresh=True, name=name, decide=command.gate, wait=not no_wait)

    output.execute(loaded, options, dry_run=dry_run)


def _pairs(option: str, texts: Sequence[str], known: Mapping[str, str]) -> dict[str, str]:
    """Return the pairs of a repeated option ``KEY=VALUE``; a key without a value has that of *known*."""
    found: dict[str, str] = {}
    for text in texts:
        key, sign, value = text.partition("=")
        if not key or (not sign and key not in known):
            raise click.UsageError(f"{option} {text}: give it a value: {key or 'KEY'}=…")
        found[key] = value if sign else known[key]
    return found
