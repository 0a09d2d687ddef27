"""The commands ``aml-train emulator registry …``: registries of the local AzureML."""

from __future__ import annotations

import json
from typing import Any

import click

from aml_train.cli.emulator_request import ask_emulator


@click.group()
def registry() -> None:
    """Make registries, which share assets beyond a workspace.

    \b
    aml-train emulator registry create shared
    eval "$(aml-train emulator env)"
    python -c 'from azure.ai.ml import MLClient; ... MLClient(credential, registry_name="shared")'

    The registry azureml always exists, with the curated environments that an image plays.
    """


@registry.command("create")
@click.argument("name")
@click.option("--description", metavar="TEXT", help="Description of the registry.")
def create(name: str, *, description: str | None) -> None:
    """Create the registry NAME, for environments, models, data and components."""
    _print(ask_emulator("registries", {"name": name, "description": description}, method="POST"))


@registry.command("list")
def list_registries() -> None:
    """Show the registries, and how many versions of assets each has."""
    _print(ask_emulator("registries"))


@registry.command("delete")
@click.argument("name")
def delete(name: str) -> None:
    """Delete the registry NAME with its assets."""
    _print(ask_emulator("registries", {"name": name}, method="DELETE"))


def _print(answer: dict[str, Any]) -> None:
    click.echo(json.dumps(answer["registries"], indent=2))
