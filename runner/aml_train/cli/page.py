"""The command ``aml-train emulator open``: the page of the local AzureML."""

from __future__ import annotations

import os
import sys
from urllib.parse import quote

import click


@click.command("open")
@click.argument("job", metavar="[JOB]", required=False)
@click.option("--print", "only_print", is_flag=True, help="Print the address alone; open no browser.")
def open_page(job: str | None, *, only_print: bool) -> None:
    """Show the page of the local AzureML: runs, charts, logs, files, models.

    Prints its address and, on a terminal, opens it in a browser; with JOB, the page of that job. The page answers browsers
    on this machine only; from elsewhere, forward the port: ssh -L 7380:127.0.0.1:7380 HOST.
    """
    from aml_train.core.errors import ServiceError
    from aml_train.local import EmulatorSettings, info

    settings = EmulatorSettings.from_environment(dict(os.environ))
    if info(settings) is None:
        raise ServiceError(f"{settings.name} does not run.", hint="Start it: aml-train emulator start")
    address = f"{settings.page_origin}/ui/" + (f"runs/{quote(job, safe='')}" if job else "")
    click.echo(address)
    if sys.stdout.isatty() and not only_print and click.launch(address) != 0:
        click.echo("No browser could be opened: open the address yourself.", err=True)
