"""The commands ``aml-train parity …``: record how a workspace answers."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from aml_train.cli.options import sigterm_as_interrupt
from aml_train.cli.text import printable
from aml_train.core.errors import InvalidError, ServiceError

if TYPE_CHECKING:
    from aml_train.azure import RecordedPlace

_Option = Callable[[Callable[..., Any]], Callable[..., Any]]


@click.group()
def parity() -> None:
    """Record how a workspace answers, without its names, for the local AzureML.

    \b
    aml-train parity record --subscription ID --resource-group GROUP --workspace NAME
    aml-train parity show parity-0123abcd.jsonl    everything that the file has in clear
    """


def _workspace_options(function: Callable[..., Any]) -> Callable[..., Any]:
    options: list[_Option] = [
        click.option("--subscription", required=True, metavar="ID", help="Subscription of the workspace."),
        click.option("--resource-group", required=True, metavar="NAME", help="Its resource group."),
        click.option("--workspace", required=True, metavar="NAME", help="Its name."),
    ]
    for option in reversed(options):
        function = option(function)
    return function


@parity.command("record")
@_workspace_options
@click.option("--compute", metavar="NAME", help="Compute of the two jobs.  [default: serverless]")
@click.option("--size", metavar="SIZE", help="VM size of serverless compute.  [default: Standard_DS3_v2]")
@click.option(
    "--image", metavar="IMAGE", help="Image of the jobs, which need a shell.  [default: a base image of AzureML]"
)
@click.option(
    "--output", type=click.Path(path_type=Path), metavar="FILE", help="Default: ID.jsonl; .gz compresses it."
)
@click.option("--clean", metavar="ID", help="Record nothing; remove what a killed recording has left.")
@click.option("--no-sdk", is_flag=True, help="Without the steps of azure-ai-ml.")
@click.option("--yes", is_flag=True, help="Do not ask before anything is made.")
def record(
    *,
    subscription: str,
    resource_group: str,
    workspace: str,
    compute: str | None,
    size: str | None,
    image: str | None,
    output: Path | None,
    clean: str | None,
    no_sdk: bool,
    yes: bool,
) -> None:
    """Record how a workspace answers, in a file without names, ids and secrets.

    Two jobs of seconds run on one node; all that is made carries the tag aml-train.parity, and is removed afterwards. The
    sign-in is that of all commands. docs/parity.md has what is in the file.

    Exit codes: 0, 1 something of the workspace is left in the recording, 2 arguments, 7 cancelled, 8 the workspace.
    """
    from aml_train.azure import clean_recording, new_recording_id, record_workspace, write_recording

    place = _place(subscription, resource_group, workspace, compute=compute, size=size, image=image)
    with sigterm_as_interrupt():
        if clean is not None:
            removals = clean_recording(place, clean, report=_report)
            left = [one.name for one in removals if one.result in ("left", "foreign")]
            click.echo(f"{len(removals) - len(left)} things of {clean} removed or archived, {len(left)} left")
            if left:
                raise ServiceError(f"These are left: {', '.join(left)}.", hint="Remove them in the studio.")
            return
        id_ = new_recording_id()
        file = output or Path(f"{id_}.jsonl")
        if not file.absolute().parent.is_dir():
            raise InvalidError(f"--output: there is no folder {file.parent}.")
        _confirm(place, id_, yes=yes)
        again = f"--subscription {subscription} --resource-group {resource_group} --workspace {workspace}"
        click.echo(f"If it is killed: aml-train parity record {again} --clean {id_}", err=True)
        made = record_workspace(place, id_=id_, report=_report, with_sdk=not no_sdk)
    write_recording(made.recording, file)
    taken = made.recording
    click.echo(
        f"{file}: {len(taken.steps())} steps, {len(taken.exchanges())} requests; nothing that was learned is in it"
    )
    for one in made.removals:
        if one.result in ("left", "foreign"):
            click.echo(f"left in the workspace: {one.name} ({printable(one.why)})", err=True)
    click.echo(f"Review it before you send it: aml-train parity show {file}", err=True)


@parity.command("show")
@click.argument("file", type=click.Path(path_type=Path))
def show(file: Path) -> None:
    """Print everything that a recording has in clear, for a review before it is sent.

    First what was replaced, by kind; then each text and key, with its count.
    """
    from aml_train.azure import kept_texts, marks, read_recording

    recording = read_recording(file)
    header = ", ".join(f"{key} {value}" for key, value in recording.header.items())
    click.echo(f"{len(recording.steps())} steps, {len(recording.exchanges())} requests; {printable(header)}")
    replaced = ", ".join(f"{count} {kind}" for kind, count in marks(recording.lines).items())
    click.echo(f"Replaced: {replaced}")
    click.echo("In clear:")
    for text, count in kept_texts(recording.lines):
        click.echo(f"{count:6} {printable(text)}")


def _place(
    subscription: str,
    resource_group: str,
    workspace: str,
    *,
    compute: str | None,
    size: str | None,
    image: str | None,
) -> RecordedPlace:
    """Return the place with the environment's credential, without a request."""
    from aml_train.azure import (
        PARITY_IMAGE,
        PARITY_SIZE,
        SECRET_VARIABLES,
        RecordedPlace,
        WorkspaceId,
        cloud_named,
        sign_in_to_azure,
    )

    if compute is not None and size is not None:
        raise InvalidError("--compute and --size are both given.", hint="--size is for serverless compute.")
    cloud = cloud_named(os.environ.get("AZURE_ENVIRONMENT", ""))
    return RecordedPlace(
        workspace=WorkspaceId(subscription_id=subscription, resource_group=resource_group, name=workspace),
        sign_in=sign_in_to_azure(os.environ, cloud=cloud, subscription=subscription),
        cloud=cloud,
        compute=compute,
        size=size or PARITY_SIZE,
        image=image or PARITY_IMAGE,
        tenant=os.environ.get("AZURE_TENANT_ID", ""),
        secrets=tuple(filter(None, (os.environ.get(name) for name in sorted(SECRET_VARIABLES)))),
    )


def _confirm(place: RecordedPlace, id_: str, *, yes: bool) -> None:
    """Say what will be made and what it costs, and ask."""
    from aml_train.azure import AzureRest, find_price

    rest = AzureRest(place.workspace, place.sign_in, place.cloud)
    location, size = rest.location(), place.size
    if place.compute is not None:
        found = rest.find_compute(place.compute)
        if found is None:
            raise InvalidError(
                f"There is no compute {place.compute!r} in the workspace {place.workspace.name}.",
                hint="az ml compute list shows those there are; without --compute the jobs are serverless.",
            )
        size = found.optional_text("properties.properties.vmSize") or "of an unknown size"
    click.echo(f"The recording {id_} makes in {place.workspace.name}, and removes afterwards:", err=True)
    click.echo(
        "  two jobs of seconds, an environment, code, data, a model, a component, a datastore, an MLflow run",
        err=True,
    )
    click.echo(f"It uses {find_price(size, location).text()}.", err=True)
    if yes:
        return
    if not sys.stdin.isatty():
        raise InvalidError("Confirmation needed, but stdin is not a terminal: pass --yes.")
    click.confirm("Record?", abort=True, err=True)


def _report(text: str) -> None:
    click.echo(printable(text), err=True)
