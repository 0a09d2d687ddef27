"""The commands ``aml-train emulator workspace …``."""

from __future__ import annotations

from typing import Any, Final

import click

from aml_train.cli.emulator_request import ask_emulator
from aml_train.cli.result import json_option, print_result, print_result_line

_DELETE_SECONDS: Final = 330.0


@click.group()
def workspace() -> None:
    """Create, list and delete workspaces of the running local AzureML.

    \b
    aml-train emulator workspace create team-a
    eval "$(aml-train emulator env --workspace team-a)"
    aml-train emulator workspace delete team-a

    A workspace has its own jobs, data, models, environments, clusters and page. The identity, the registry and faults are shared.
    """


@workspace.command("create")
@click.argument("name")
@json_option()
def create(name: str, *, as_json: bool) -> None:
    """Create the workspace NAME."""
    made = ask_emulator("workspaces", {"name": name}, method="POST")
    if as_json:
        print_result(made)
        return
    click.echo(f"workspace {made['name']} is ready")
    click.echo(f'Next: eval "$(aml-train emulator env --workspace {made["name"]})"', err=True)


@workspace.command("list")
@json_option(lines=True)
def list_(*, as_json: bool) -> None:
    """Print the names of the workspaces, the first one first."""
    found: list[dict[str, Any]] = ask_emulator("workspaces")["workspaces"]
    for one in found:
        if as_json:
            print_result_line(one)
        else:
            click.echo(one["name"])


@workspace.command("delete")
@click.argument("name")
@click.option("--force", is_flag=True, help="Cancel its jobs that run.")
def delete(name: str, *, force: bool) -> None:
    """Delete the workspace NAME with its jobs, data and models."""
    query = {"name": name, "force": "1" if force else None}
    ask_emulator("workspaces", query, method="DELETE", seconds=_DELETE_SECONDS)
    click.echo(f"workspace {name} is deleted")
