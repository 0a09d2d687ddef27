"""The command ``aml-train submit``: any command as a job, with the folder as its code."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from aml_train.cli.options import configuration_without_job, secret_path, with_secret_paths
from aml_train.cli.running import colors, events_file, execute, terminate_like_interrupt


@click.command(context_settings={"allow_interspersed_args": False})
@configuration_without_job
@click.option("-c", "--compute", metavar="NAME", help="Compute, instead of the target's and the job's.")
@click.option("--image", metavar="IMAGE", help="Image to run in, as it is, instead of what is configured.")
@click.option("--environment", metavar="NAME", help="Environment to run in, such as azureml:NAME:VERSION.")
@click.option("--name", metavar="NAME", help="Name of the job; by default the experiment's with a random end.")
@click.option(
    "--experiment", metavar="NAME", help="Experiment; by default the configured job's, else AzureML's own, `Default`."
)
@click.option("--display-name", metavar="TEXT", help="What it is called in lists; by default the command.")
@click.option("--tag", "tags", multiple=True, metavar="KEY=VALUE", help="Tag of the job; may be repeated.")
@click.option(
    "--env",
    "variables",
    multiple=True,
    metavar="NAME[=VALUE]",
    help="Environment variable of the job, by default with its value here; may be repeated. No secrets: the job shows it.",
)
@click.option("--instance-type", metavar="SIZE", help="VM size, for serverless compute.")
@click.option("--instance-count", type=click.IntRange(min=1), metavar="N", help="Nodes.")
@click.option("--shm-size", metavar="SIZE", help="Shared memory of the container, such as 2g.")
@click.option("--gate", is_flag=True, help="Let the configured gate decide after the job.")
@click.option("--no-wait", is_flag=True, help="Submit and return; see `aml-train jobs logs -f`.")
@click.option("--dry-run", is_flag=True, help="Print what would be submitted and change nothing.")
@secret_path
@events_file
@colors
@click.argument("arguments", metavar="-- COMMAND [ARGUMENT]...", nargs=-1, type=click.UNPROCESSED)
def submit(
    directory: Path,
    config: Path | None,
    target: str | None,
    sets: tuple[str, ...],
    *,
    arguments: tuple[str, ...],
    tags: tuple[str, ...],
    variables: tuple[str, ...],
    no_wait: bool,
    dry_run: bool,
    secret_paths: tuple[Path, ...],
    json_file: Path | None,
    no_color: bool,
    **given: Any,
) -> None:
    """Run any command as a job: the current folder is its code.

    It runs in the image that aml-train.yml builds and tests, else in the configured job's environment; without either, or instead of
    them, --image or --environment says where. `data` and `setup` of aml-train.yml hold for it, too. The log is followed; Ctrl-C
    cancels the job. The arguments reach the command exactly as they are: no shell comes between, unless it is the command.

    \b
    aml-train submit --image python:3.11-slim-bookworm -- python -V
    aml-train submit -c gpu -- python train.py --data data/imagenet
    aml-train submit -- sh -c 'nvidia-smi | tee outputs/gpus.txt'
    """
    from aml_train.config import CommandLine, load_command
    from aml_train.pipeline import Host, RunOptions, own_output, prepare_run

    if not arguments:
        raise click.UsageError("Which command? Such as: aml-train submit -- python train.py")
    if given["image"] and given["environment"]:
        raise click.UsageError("--image and --environment exclude each other.")
    command = CommandLine(
        arguments=arguments, tags=_pairs("--tag", tags), variables=_variables(variables, os.environ), **given
    )
    loaded = load_command(config, command, directory=directory.absolute(), target=target, sets=sets)
    with terminate_like_interrupt():
        prepared = prepare_run(
            loaded, Host(environ=with_secret_paths(os.environ, secret_paths)), own=own_output(json_file)
        )
        if len(arguments) == 1 and len(arguments[0].split()) > 1:
            click.echo("note: a single argument is the name of a program; for a shell write: -- sh -c '…'", err=True)
        if dry_run:
            from aml_train.pipeline import render_plan

            click.echo(render_plan(prepared.plan))
            return
        options = RunOptions(
            fresh=True,
            name=command.name or _random_name(prepared.plan.job.stem),
            decide=command.gate,
            wait=not no_wait,
        )
        code = execute(prepared, options, json_file, no_color=no_color)
    sys.exit(code)


def _random_name(stem: str) -> str:
    import secrets

    return f"{stem}-{secrets.token_hex(5)}"


def _pairs(option: str, given: Sequence[str]) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in given:
        key, sign, value = text.partition("=")
        if not sign or not key:
            raise click.UsageError(f"{option} {text}: this is not KEY=VALUE.")
        pairs[key] = value
    return pairs


def _variables(given: Sequence[str], environment: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of ``--env``; one without a value has that of this process, as with ``docker run``."""
    found: dict[str, str] = {}
    for text in given:
        name, sign, value = text.partition("=")
        if not sign and name not in environment:
            raise click.UsageError(f"--env {name}: there is no such variable here; give it a value: {name}=…")
        found[name] = value if sign else environment[name]
    return found
