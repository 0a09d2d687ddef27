"""The commands ``aml-train emulator …``: the local AzureML, faults, page."""

from __future__ import annotations

import json
import os
import shlex
import sys
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

import click

from aml_train.cli.console import ConsoleListener
from aml_train.cli.output import json_option, print_exactly, print_result_line
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.text import printable
from aml_train.local import lifecycle
from aml_train.local.admin import emulator_info, request_admin
from aml_train.local.browser import answer_program, browser_variables, is_sign_in, sign_in_page
from aml_train.local.environment import client_environment
from aml_train.local.lifecycle import reset_emulator, start_emulator, stop_emulator
from aml_train.local.settings import EmulatorSettings

if TYPE_CHECKING:
    from aml_train.local.settings import EmulatorInfo

_FAULTS: Final = ("status", "delay", "truncate", "reset", "outage")
_FOLLOW_SECONDS: Final = 0.5
_DELETE_SECONDS: Final = 330.0


def emulator_settings() -> EmulatorSettings:
    """Return the settings of the local AzureML in the environment."""
    return EmulatorSettings.from_environment(dict(os.environ))


def _not_running(settings: EmulatorSettings) -> ServiceError:
    return ServiceError(f"{settings.name} does not run.", hint="Start it: aml-train emulator start")


def ask_emulator(
    path: str, query: Mapping[str, object] | None = None, *, method: str = "GET", seconds: float = 60.0
) -> dict[str, Any]:
    """Send an admin request to the running local AzureML; return its answer.

    Entries of *query* that are None are left out.

    Raises:
        InvalidError: it refuses the request.
        ServiceError: it does not run, or fails.
    """
    settings = emulator_settings()
    given = {name: value for name, value in (query or {}).items() if value is not None}
    target = settings.path_of(f"{path}?{urlencode(given)}" if given else path)
    answer = request_admin(settings, target, method=method, seconds=seconds)
    if answer is None:
        raise _not_running(settings)
    status, value = answer
    reason = str(value.get("error", status)).rstrip(".")
    if status in (400, 404) or (status == 409 and path == "workspaces"):
        raise InvalidError(f"{settings.name} refused the request: {reason}.")
    if status >= 400:
        raise ServiceError(f"{settings.name} failed: {reason}.", hint="aml-train emulator logs")
    return value


def running_emulator(workspace: str | None = None) -> EmulatorInfo:
    """Return the description of the running local AzureML.

    Args:
        workspace: one of its workspaces; that of the environment if None.

    Raises:
        InvalidError: it has no such workspace.
        ServiceError: it does not run.
    """
    settings = emulator_settings()
    settings = settings if workspace is None else replace(settings, workspace=workspace)
    found = emulator_info(settings)
    if found is None:
        raise _not_running(settings)
    return found


@click.group()
def emulator() -> None:
    """Manage the local AzureML, an emulator in a container.

    \b
    aml-train emulator start
    eval "$(aml-train emulator env)"  connects azure-ai-ml and MLflow here
    python my_azure_ml_script.py
    """


def _show(path: str, query: Mapping[str, object] | None = None, *, method: str = "GET") -> None:
    """Send an admin request, and print the list of that name in its answer, as JSON."""
    click.echo(json.dumps(ask_emulator(path, query, method=method)[path], indent=2))


@emulator.command("start")
def emulator_start() -> None:
    """Start the local AzureML, if it does not run.

    Its state is kept in a Docker volume.
    """
    settings = emulator_settings()
    info = start_emulator(settings, ConsoleListener(sys.stderr))
    click.echo(f"{settings.name} is ready: workspace {info.workspace}, resource group {info.resource_group}")
    click.echo(f"Its page: {settings.page_origin}/ui/", err=True)
    click.echo('Next: eval "$(aml-train emulator env)"', err=True)


@emulator.command("status")
def emulator_status() -> None:
    """Show the state of the local AzureML.

    Prints as JSON whether it runs, its jobs by state, and requests that it did not support.
    """
    click.echo(json.dumps(lifecycle.emulator_status(emulator_settings()), indent=2))


@emulator.command("stop")
def emulator_stop() -> None:
    """Stop the local AzureML. Jobs, models and data are kept."""
    settings = emulator_settings()
    click.echo(f"{settings.name} is stopped" if stop_emulator(settings) else f"{settings.name} was not running")


@emulator.command("reset")
@click.confirmation_option("--yes", prompt="Remove the container and all its jobs, models, images and data?")
def emulator_reset() -> None:
    """Remove the local AzureML with everything in it."""
    settings = emulator_settings()
    reset_emulator(settings)
    click.echo(f"{settings.name} and its data are removed")


@emulator.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Continue as the log grows.")
def emulator_logs(*, follow: bool) -> None:
    """Print the log of the local AzureML."""
    for line in lifecycle.emulator_logs(emulator_settings(), follow=follow):
        click.echo(line)


_workspace_option = click.option("--workspace", metavar="NAME", help="Of this workspace.  [default: the first one]")


@emulator.command("env")
@_workspace_option
def emulator_env(*, workspace: str | None) -> None:
    """Print variables that connect Azure SDKs, as shell exports.

    BROWSER among them has programs that open a browser to sign you in open `aml-train emulator sign-in`, which grants at once.
    """
    variables = client_environment(running_emulator(workspace), dict(os.environ))
    named = {} if workspace is None else {"AML_TRAIN_EMULATOR_WORKSPACE": workspace}
    variables |= browser_variables(sys.executable) | named
    print_exactly("".join(f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()))


@emulator.command("config")
@_workspace_option
def emulator_config(*, workspace: str | None) -> None:
    """Print the workspace's config.json, which from_config() reads.

    \b
    aml-train emulator config > config.json
    """
    info = running_emulator(workspace)
    names = {"subscription_id": info.subscription_id, "resource_group": info.resource_group}
    click.echo(json.dumps({**names, "workspace_name": info.workspace}, indent=4))


@emulator.command("sign-in")
@click.argument("address")
def sign_in(address: str) -> None:
    """Grant the sign-in at ADDRESS, as a browser would after your password.

    Programs call it by the variable BROWSER of `aml-train emulator env`. Another address than that of a sign-in is refused, so that
    the next browser opens it.
    """
    if not is_sign_in(address):
        raise InvalidError("It is no address of a sign-in.", hint="Such as https://login.microsoftonline.com/….")
    answer_program(*sign_in_page(running_emulator(), address))


@emulator.command("open")
@click.argument("job", metavar="[JOB]", required=False)
def open_page(job: str | None) -> None:
    """Open the local AzureML's page: runs, charts, logs, models.

    Prints its address and, on a terminal, opens it in a browser; with JOB, the page of that job. Only browsers on this machine have
    access; from elsewhere, forward the port: ssh -L 7380:127.0.0.1:7380 HOST.
    """
    running_emulator()
    settings = emulator_settings()
    address = f"{settings.page_origin}/ui/" + (f"runs/{quote(job, safe='')}" if job else "")
    click.echo(address)
    if sys.stdout.isatty() and click.launch(address) != 0:
        click.echo("No browser could be opened: open the address yourself.", err=True)


@emulator.command("requests")
@click.option("-f", "--follow", is_flag=True, help="Continue as requests come in.")
@click.option("-n", "--lines", type=click.IntRange(1, 1000), default=50, show_default=True, help="At most so many.")
@json_option(lines=True)
def requests(*, follow: bool, lines: int, as_json: bool) -> None:
    """Print the last requests to the local AzureML.

    Each line has the time, the answer's status, the duration, and the request.
    """
    answer = ask_emulator("requests", {"limit": lines})
    while True:
        for entry in answer["requests"]:
            if as_json:
                print_result_line(entry)
            else:
                click.echo(_line(entry))
        if not follow:
            return
        time.sleep(_FOLLOW_SECONDS)
        answer = ask_emulator("requests", {"since": answer["total"]})


@emulator.group()
def fault() -> None:
    """Inject faults into requests, to test your error handling.

    \b
    aml-train emulator fault add status --probability 0.1 --seed 7  one in ten: 503
    aml-train emulator fault add status --status 429 --retry-after 2 --path '*/jobs/*' --count 3
    aml-train emulator fault add reset --after --method PUT --path '*/jobs/*' --count 1
    aml-train emulator fault add outage --host '*.blob.core.windows.net' --seconds 20
    """


@fault.command("add")
@click.argument("kind", type=click.Choice(_FAULTS))
@click.option("--method", help="Pattern of the HTTP method.  [default: *]")
@click.option("--host", help="Pattern of the host, such as *.blob.core.windows.net.  [default: *]")
@click.option("--path", help="Pattern of the path, or of path and query: */jobs/*, *comp=block&*.  [default: *]")
@click.option("--status", type=click.IntRange(400, 599), help="Status of the answer of `status`.  [default: 503]")
@click.option("--code", help="The error's code, instead of the service's code for the status.")
@click.option("--retry-after", type=float, metavar="SECONDS", help="Answer with this Retry-After.")
@click.option("--delay", type=float, metavar="SECONDS", help="Wait before anything else.")
@click.option("--after", is_flag=True, help="The request takes effect; only its answer is lost, or late.")
@click.option(
    "--probability", type=click.FloatRange(0, 1), help="Of a fault, for each matching request.  [default: 1]"
)
@click.option("--seed", type=int, help="Seed of the draws: the same seed hits the same requests.  [default: 0]")
@click.option("--skip", type=click.IntRange(0), metavar="N", help="Skip the first N matching requests.")
@click.option("--count", type=click.IntRange(0), metavar="N", help="Inject at most N faults.")
@click.option("--seconds", type=float, metavar="SECONDS", help="End after this time; else when it is cleared.")
def fault_add(kind: str, *, after: bool, **given: Any) -> None:
    """Add a fault.

    KIND is `status` (an error is answered), `delay` (the right answer, late), `truncate` (half of an answer), `reset`
    (the connection breaks), or `outage` (the host cannot be connected to). Outages can hit any host, the other faults
    only Azure's hosts. When faults change, open connections are closed once.
    """
    answer = ask_emulator("faults", {"kind": kind, "after": "true" if after else None, **given}, method="POST")
    click.echo(f"fault {answer['id']} is active; clear it: aml-train emulator fault clear {answer['id']}")


@fault.command("list")
def fault_list() -> None:
    """Print the active faults, with the number of requests that each has hit, as JSON."""
    _show("faults")


@fault.command("clear")
@click.argument("number", type=int, required=False)
def fault_clear(number: int | None) -> None:
    """Remove fault NUMBER, or all of them."""
    removed = ask_emulator("faults", {"id": number}, method="DELETE")["removed"]
    click.echo(f"{removed} removed")


@emulator.group()
def role() -> None:
    """Change the roles of the identity that signs in.

    \b
    aml-train emulator role set registry AcrPull  it may pull, not push
    aml-train emulator role set workspace Reader  it may read the workspace

    They decide what the permissions interface answers, and what the registry's tokens allow. A place is `subscription`,
    `workspace`, `registry` or `storage`.
    """


@role.command("set")
@click.argument("place")
@click.argument("roles", nargs=-1)
def role_set(place: str, roles: tuple[str, ...]) -> None:
    """Replace the roles at PLACE by ROLES, such as AcrPull; without ROLES by none."""
    _show("roles", {"place": place, "roles": ",".join(roles)}, method="POST")


@role.command("list")
def role_list() -> None:
    """Print the roles by place, as JSON."""
    _show("roles")


@role.command("clear")
def role_clear() -> None:
    """Restore the roles of the beginning: everything is allowed."""
    _show("roles", method="DELETE")


@emulator.group("job")
def job() -> None:
    """Preempt or fail a job, or change the state that it shows.

    \b
    aml-train emulator job preempt NAME                   its nodes are taken back: it is queued again
    aml-train emulator job preempt NAME --fail            it fails with PreemptionError
    aml-train emulator job fail NAME --code ServiceError  by a fault of AzureML
    aml-train emulator job show NAME NotResponding        until the next `show`
    """


@job.command("preempt")
@click.argument("name")
@click.option("--force", is_flag=True, help="Also on a cluster whose nodes are dedicated.")
@click.option("--fail", is_flag=True, help="Let it fail with PreemptionError instead of queueing it again.")
def preempt(name: str, *, force: bool, fail: bool) -> None:
    """Preempt job NAME, which runs on a cluster of low priority.

    AzureML queues the same job again; what it wrote to outputs/ and what it logged stay. Some jobs fail instead.
    """
    given = {"force": "1" if force else None, "fail": "1" if fail else None}
    ask_emulator(f"jobs/{quote(name, safe='')}/preempt", given, method="POST")
    click.echo(f"{name} is preempted")


@job.command("fail")
@click.argument("name")
@click.option("--code", help="The error's code, such as UserError.  [default: SystemError]")
@click.option("--message", help="The error's message.")
def fail(name: str, *, code: str | None, message: str | None) -> None:
    """Fail job NAME."""
    ask_emulator(f"jobs/{quote(name, safe='')}/fail", {"code": code, "message": message}, method="POST")
    click.echo(f"{name} fails")


@job.command("show")
@click.argument("name")
@click.argument("status", required=False)
def show(name: str, status: str | None) -> None:
    """Let job NAME show STATUS instead of its state; without STATUS, its state again."""
    answer = ask_emulator(f"jobs/{quote(name, safe='')}/show", {"status": status}, method="POST")
    click.echo(f"{name} shows {answer['status']}")


@emulator.group()
def environment() -> None:
    """Replace Azure's curated environments by local images.

    \b
    aml-train emulator environment add 'AzureML-acpt-*' my-image:1
    aml-train emulator environment add 'sklearn-1.5:*' my-sklearn:1

    Patterns are compared with the environment's NAME and NAME:VERSION; the latest match counts.
    """


@environment.command("add")
@click.argument("pattern")
@click.argument("image")
def environment_add(pattern: str, image: str) -> None:
    """Use IMAGE for the curated environments that match PATTERN."""
    _show("environments", {"pattern": pattern, "image": image}, method="POST")


@environment.command("list")
def environment_list() -> None:
    """Show the images by pattern; the first match counts."""
    _show("environments")


@environment.command("clear")
def environment_clear() -> None:
    """Remove all images from the list."""
    _show("environments", method="DELETE")


@emulator.group()
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
def registry_create(name: str, *, description: str | None) -> None:
    """Create the registry NAME, for environments, models, data and components."""
    _show("registries", {"name": name, "description": description}, method="POST")


@registry.command("list")
def registry_list() -> None:
    """Show the registries, and how many versions of assets each has."""
    _show("registries")


@registry.command("delete")
@click.argument("name")
def registry_delete(name: str) -> None:
    """Delete the registry NAME with its assets."""
    _show("registries", {"name": name}, method="DELETE")


@emulator.group()
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
def workspace_create(name: str) -> None:
    """Create the workspace NAME."""
    made = ask_emulator("workspaces", {"name": name}, method="POST")
    click.echo(f"workspace {made['name']} is ready")
    click.echo(f'Next: eval "$(aml-train emulator env --workspace {made["name"]})"', err=True)


@workspace.command("list")
def workspace_list() -> None:
    """Print the names of the workspaces, the first one first."""
    for one in ask_emulator("workspaces")["workspaces"]:
        click.echo(one["name"])


@workspace.command("delete")
@click.argument("name")
@click.option("--force", is_flag=True, help="Cancel its jobs that run.")
def workspace_delete(name: str, *, force: bool) -> None:
    """Delete the workspace NAME with its jobs, data and models."""
    query = {"name": name, "force": "1" if force else None}
    ask_emulator("workspaces", query, method="DELETE", seconds=_DELETE_SECONDS)
    click.echo(f"workspace {name} is deleted")


def _line(entry: dict[str, Any]) -> str:
    moment = time.strftime("%H:%M:%S", time.localtime(entry["time"]))
    status = "---" if entry["status"] is None else str(entry["status"])
    error = f" {entry['error']}" if entry.get("error") else ""
    hit = f" (fault {entry['fault']})" if entry.get("fault") else ""
    line = f"{moment} {status} {entry['ms']:8.1f} ms  {entry['method']} {entry['host']}{entry['path']}{error}{hit}"
    return printable(line)
