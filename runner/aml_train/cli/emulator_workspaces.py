"""The commands ``aml-train emulator workspace …`` and ``… latency``."""

from __future__ import annotations

import json
import re
from typing import Any, Final

import click

from aml_train.cli.emulator_request import ask_emulator
from aml_train.cli.result import json_option, print_result, print_result_line

_DELETE_SECONDS: Final = 330.0
_UNITS: Final = {"ms": 0.001, "s": 1.0}


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


@click.command()
@click.argument("round_trip", metavar="[TIME]", required=False)
def latency(round_trip: str | None) -> None:
    """Make every request take TIME longer, such as 20ms; 0 ends it.

    Without TIME, print it. It is a round trip's, for all hosts and all clients, jobs among them: a new connection takes one or more
    of it, as over a network. Open connections are closed once. It ends when the local AzureML stops.
    """
    if round_trip is None:
        answer = ask_emulator("latency")
    else:
        answer = ask_emulator("latency", {"seconds": _seconds(round_trip)}, method="POST")
    click.echo(f"{json.dumps(round(answer['seconds'] * 1000, 3))} ms")


def _seconds(text: str) -> float:
    match = re.fullmatch(r"(\d+(?:\.\d+)?)(ms|s)|0", text)
    if match is None:
        raise click.BadParameter(f"'{text}' is not a time such as 20ms, 0.5s or 0", param_hint="TIME")
    return float(match[1]) * _UNITS[match[2]] if match[1] else 0.0
