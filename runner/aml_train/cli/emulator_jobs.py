"""The commands ``aml-train emulator job …``: what Azure does to jobs, on purpose."""

from __future__ import annotations

from urllib.parse import quote

import click

from aml_train.cli.emulator import asked


@click.group("job")
def job() -> None:
    """Have happen to a job of the local AzureML what otherwise only Azure brings about.

    \b
    aml-train emulator job preempt NAME                   its nodes are taken back: it fails with PreemptionError
    aml-train emulator job fail NAME --code ServiceError  it fails by a fault of AzureML
    aml-train emulator job show NAME NotResponding        it shows that state until `job show NAME`, or its end
    """


@job.command("preempt")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also on a cluster whose nodes are dedicated.")
def preempt(name: str, *, force: bool) -> None:
    """Take back the nodes of job NAME, which waits or runs on a cluster of low priority."""
    asked(f"jobs/{quote(name, safe='')}/preempt", {"force": "1" if force else None}, method="POST")
    click.echo(f"{name} is preempted")


@job.command("fail")
@click.argument("name")
@click.option("--code", help="The error's code, such as UserError.  [default: SystemError]")
@click.option("--message", help="What AzureML is to say.")
def fail(name: str, *, code: str | None, message: str | None) -> None:
    """Have job NAME fail."""
    asked(f"jobs/{quote(name, safe='')}/fail", {"code": code, "message": message}, method="POST")
    click.echo(f"{name} fails")


@job.command("show")
@click.argument("name")
@click.argument("status", required=False)
def show(name: str, status: str | None) -> None:
    """Have job NAME show STATUS, any word, instead of its own state; without STATUS its own again."""
    answer = asked(f"jobs/{quote(name, safe='')}/show", {"status": status}, method="POST")
    click.echo(f"{name} shows {answer['status']}")
