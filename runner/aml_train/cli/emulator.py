"""The commands ``aml-train emulator fault …``, ``requests`` and ``clean``: the local AzureML as a service that one looks into."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlencode

import click

if TYPE_CHECKING:
    from aml_train.local import EmulatorSettings

_KINDS: Final = ("status", "delay", "truncate", "reset", "outage")
_FOLLOW_SECONDS: Final = 0.5
_CLEAN_SECONDS: Final = 600.0


def asked(
    path: str, query: Mapping[str, object] | None = None, *, method: str = "GET", seconds: float = 60.0
) -> dict[str, Any]:
    """Return what the running local AzureML answers to an admin request; what is None in *query* is left out.

    Raises:
        InvalidError: it refuses what was asked.
        ServiceError: it does not run, or fails.
    """
    from aml_train.core.errors import InvalidError, ServiceError
    from aml_train.local import EmulatorSettings, ask

    settings: EmulatorSettings = EmulatorSettings.from_environment(dict(os.environ))
    given = {name: value for name, value in (query or {}).items() if value is not None}
    answer = ask(settings, f"{path}?{urlencode(given)}" if given else path, method=method, seconds=seconds)
    if answer is None:
        raise ServiceError(f"{settings.name} does not run.", hint="Start it: aml-train emulator start")
    status, value = answer
    if status in (400, 404):
        raise InvalidError(f"{settings.name} refused it: {value.get('error', status)}.")
    if status >= 400:
        raise ServiceError(f"{settings.name} failed: {value.get('error', status)}.", hint="aml-train emulator logs")
    return value


@click.group()
def fault() -> None:
    """Have requests to the local AzureML go wrong on purpose, to see what your code makes of it.

    \b
    aml-train emulator fault add status --probability 0.1 --seed 7          a tenth of all answers is 503
    aml-train emulator fault add status --status 429 --retry-after 2 --path '*/jobs/*' --count 3
    aml-train emulator fault add reset --after --method PUT --path '*/jobs/*' --count 1
    aml-train emulator fault add outage --host '*.blob.core.windows.net' --seconds 20
    """


@fault.command("add")
@click.argument("kind", type=click.Choice(_KINDS))
@click.option("--method", help="Pattern of the HTTP method.  [default: *]")
@click.option("--host", help="Pattern of the host, such as *.blob.core.windows.net.  [default: *]")
@click.option("--path", help="Pattern of the path, or of path and query: */jobs/*, *comp=block&*.  [default: *]")
@click.option("--status", type=click.IntRange(400, 599), help="What `status` answers.  [default: 503]")
@click.option("--code", help="The error's code, where the service's own for the status does not do.")
@click.option("--retry-after", type=float, metavar="SECONDS", help="Answer with this Retry-After.")
@click.option("--delay", type=float, metavar="SECONDS", help="Wait before anything else.")
@click.option("--after", is_flag=True, help="Let the request take effect; only its answer is lost, or late.")
@click.option("--probability", type=click.FloatRange(0, 1), help="Of each request that fits.  [default: 1]")
@click.option("--seed", type=int, help="Of the draws: the same seed, the same requests.  [default: 0]")
@click.option("--skip", type=click.IntRange(0), metavar="N", help="Let N requests that fit through first.")
@click.option("--count", type=click.IntRange(0), metavar="N", help="At most N faults.")
@click.option("--seconds", type=float, metavar="SECONDS", help="For so long; else until it is cleared.")
def fault_add(kind: str, *, after: bool, **given: Any) -> None:
    """Add a fault.

    KIND is `status` (an error is answered), `delay` (the right answer, late), `truncate` (half of an answer), `reset`
    (the connection breaks), or `outage` (the host cannot be connected to). Azure's hosts alone have faults, and
    outages any host. Open connections are broken off once when faults change.
    """
    answer = asked("faults", {"kind": kind, "after": "true" if after else None, **given}, method="POST")
    click.echo(f"fault {answer['id']} is at work; clear it: aml-train emulator fault clear {answer['id']}")


@fault.command("list")
def fault_list() -> None:
    """Print the faults that are at work, and how many requests each has hit, as JSON."""
    click.echo(json.dumps(asked("faults")["faults"], indent=2))


@fault.command("clear")
@click.argument("number", type=int, required=False)
def fault_clear(number: int | None) -> None:
    """Remove fault NUMBER, or all of them."""
    removed = asked("faults", {"id": number}, method="DELETE")["removed"]
    click.echo(f"{removed} removed")


@click.command("requests")
@click.option("-f", "--follow", is_flag=True, help="Go on as requests come in.")
@click.option("-n", "--lines", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each.")
def requests(*, follow: bool, lines: int, as_json: bool) -> None:
    """Print the last requests to the local AzureML's service: when, what, the answer, how long."""
    answer = asked("requests", {"limit": lines})
    while True:
        for entry in answer["requests"]:
            click.echo(json.dumps(entry) if as_json else _line(entry))
        if not follow:
            return
        time.sleep(_FOLLOW_SECONDS)
        answer = asked("requests", {"since": answer["total"]})


@click.command("clean")
@click.option("--older-than", default="7d", show_default=True, metavar="TIME", help="Such as 90s, 30m, 12h, 7d.")
@click.option("--keep", type=click.IntRange(0), default=0, metavar="N", help="Keep the N newest runs, however old.")
@click.option("--dry-run", is_flag=True, help="Only say what would go.")
def clean(*, older_than: str, keep: int, dry_run: bool) -> None:
    """Remove jobs and runs that ended long ago, with their logs, outputs and metrics, and code that none uses any more.

    Jobs whose outputs a model or a data asset names stay, and so does what you stored in a datastore yourself, and the
    images. The disk has the room back within ten minutes, when the storage collects what was removed.
    """
    from aml_train.core.text import size

    answer = asked(
        "clean",
        {"older_than": _seconds(older_than), "keep": keep, "dry_run": "1" if dry_run else None},
        method="POST",
        seconds=_CLEAN_SECONDS,
    )
    for name, reason in answer["kept"].items():
        click.echo(f"{name} stays: {reason}")
    gone = answer["assets"]
    click.echo(
        f"{'Would remove' if dry_run else 'Removed'} {len(answer['runs'])} runs, {gone['codes']} code uploads,"
        f" {gone['data']} unnamed data assets: {answer['blobs']} files, {size(answer['bytes'])}"
    )


def _seconds(text: str) -> int:
    units = {"s": 1, "m": 60, "h": 3600, "d": 86400}
    if not (text[:-1].isascii() and text[:-1].isdecimal() and text[-1] in units):
        raise click.BadParameter(f"'{text}' is not a time such as 90s, 30m, 12h or 7d", param_hint="--older-than")
    return int(text[:-1]) * units[text[-1]]


def _line(entry: dict[str, Any]) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(entry["time"]))
    status = "---" if entry["status"] is None else str(entry["status"])
    told = f" {entry['error']}" if entry.get("error") else ""
    hit = f" (fault {entry['fault']})" if entry.get("fault") else ""
    line = f"{moment} {status} {entry['ms']:8.1f} ms  {entry['method']} {entry['host']}{entry['path']}{told}{hit}"
    return "".join(char if char.isprintable() else f"\\x{ord(char):02x}" for char in line)
