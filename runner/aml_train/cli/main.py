"""The command line: options → values → the pipeline. The composition root; everything slow is imported on demand."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from aml_train import __version__
from aml_train.cli.compare import compare
from aml_train.cli.data import data
from aml_train.cli.emulator import clean, fault, requests
from aml_train.cli.emulator_jobs import job
from aml_train.cli.environments import environment
from aml_train.cli.image import image
from aml_train.cli.init import init
from aml_train.cli.jobs import jobs
from aml_train.cli.model import model
from aml_train.cli.options import configuration, load, secret_path, with_secret_paths
from aml_train.cli.page import open_page
from aml_train.cli.promote import promote, rollback
from aml_train.cli.running import colors, events_file, execute, terminate_like_interrupt
from aml_train.cli.submit import submit

if TYPE_CHECKING:
    from aml_train.config import Config
    from aml_train.local import EmulatorSettings

_EPILOG = """\b
Exit codes
  0 passed, submitted      3 image-failed     6 gate-failed
  1 error (ours)           4 tests-failed     7 cancelled, timed-out
  2 invalid                5 job-failed       8 service-error, not-responding, preempted
"""


@click.group(epilog=_EPILOG, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.version_option(__version__, prog_name="aml-train", message="%(prog)s %(version)s")
def cli() -> None:
    """From a commit to a gated, registered model on Azure Machine Learning.

    \b
    aml-train init         write a first aml-train.yml from what is here
    aml-train validate     check aml-train.yml and the job, all faults at once
    aml-train plan         show what a run would do: the Dockerfile, the job, the gate
    aml-train run          build, test, submit, follow, gate, register
    aml-train attach       follow and gate what `run --no-wait` submitted
    aml-train submit       any command as a job
    aml-train jobs         list, show, follow, cancel, resubmit and download jobs
    aml-train model        list and show models, and where they come from
    aml-train promote      put a model into a stage, if it meets what is asked there; `rollback` undoes it
    aml-train compare      two jobs, models or files side by side
    aml-train image check  is an image ready for AzureML and InfiniBand?
    aml-train image render  the Dockerfile as it will be built
    aml-train convert      a run configuration of the SDK v1 as a command job
    aml-train data         list, upload, download, copy and remove what datastores hold

    Without a cloud: the target `local` runs everything against the local AzureML, an emulator in a container.
    """


@cli.command()
@configuration
def validate(
    directory: Path, config: Path | None, job: Path | None, target: str | None, sets: tuple[str, ...]
) -> None:
    """Check the configuration and the job; report every fault at once.

    Each fault is one line, `file:line: what: why; remedy`. Nothing is built, sent or asked of any service.
    """

    loaded: Config = load(directory, config, job, target, sets)
    for notice in loaded.notices:
        click.echo(f"note: {notice}", err=True)
    click.echo(f"valid: {loaded.describe()}")


@cli.command()
def schema() -> None:
    """Print the JSON Schema of aml-train.yml, for editors.

    \b
    aml-train schema > aml-train.schema.json
    # yaml-language-server: $schema=aml-train.schema.json
    """
    from aml_train.config import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@cli.command()
@configuration
def convert(
    directory: Path, config: Path | None, job: Path | None, target: str | None, sets: tuple[str, ...]
) -> None:
    """Print a run configuration of the SDK v1 as the command job that does the same.

    \b
    aml-train convert > job.yml                                    the one that aml-train.yml names
    aml-train convert --config .azureml/gpu.runconfig > job.yml    any other

    What a command job cannot say is refused with its line. Nothing is sent or asked of any service.
    """
    from aml_train.cli.conversion import render_job

    click.echo(render_job(load(directory, config, job, target, (*sets, "sdk=v2"))), nl=False)


@cli.command()
@configuration
def plan(directory: Path, config: Path | None, job: Path | None, target: str | None, sets: tuple[str, ...]) -> None:
    """Show what a run would do; change nothing.

    Prints the target, the Dockerfile as it will be built, the job as it will be submitted, the gate and the model.
    """
    from aml_train.pipeline import Host, own_output, prepare_run, render_plan

    loaded = load(directory, config, job, target, sets)
    prepared = prepare_run(loaded, Host(environ=dict(os.environ)), own=own_output())
    click.echo(render_plan(prepared.plan))


@cli.command()
@configuration
@click.option("--fresh", is_flag=True, help="Train again, even if the same job has completed.")
@click.option("--force-build", is_flag=True, help="Build and test the image again, even if it is in the registry.")
@click.option("--keep-tests", is_flag=True, help="Run the tests in any case, and keep their container to look into.")
@click.option("--no-wait", is_flag=True, help="Submit and return; `aml-train attach` gates later.")
@click.option(
    "--on-cancel",
    type=click.Choice(["cancel", "detach"]),
    help="What an interruption does to the job: cancel it, or let it go on.  [default: `watch.on-cancel`, else cancel]",
)
@click.option("--group", metavar="NAME", help="What the run belongs to, such as a pull request; see --supersede.")
@click.option("--supersede", is_flag=True, help="Cancel the unfinished jobs of older runs of the same --group.")
@click.option("--no-register", is_flag=True, help="Gate, and register no model, as for a pull request.")
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing, like `aml-train plan`.")
@secret_path
@events_file
@colors
def run(
    directory: Path,
    config: Path | None,
    job: Path | None,
    target: str | None,
    sets: tuple[str, ...],
    *,
    fresh: bool,
    force_build: bool,
    keep_tests: bool,
    no_wait: bool,
    on_cancel: str | None,
    group: str | None,
    supersede: bool,
    no_register: bool,
    dry_run: bool,
    secret_paths: tuple[Path, ...],
    json_file: Path | None,
    no_color: bool,
) -> None:
    """Build the image, test in it, submit the job, follow it, decide the gate, register the model.

    A second run of the same commit finds the tested image and attaches to the completed job. Ctrl-C cancels the job;
    with --on-cancel detach it goes on.

    \b
    aml-train run                                   what aml-train.yml says
    aml-train run --set job.inputs.epochs=3         with another input
    aml-train run --fresh                           train again
    aml-train run --config job.yml                  a bare AzureML command job
    """
    from aml_train.pipeline import Group, Host, RunOptions, own_output, prepare_run

    if supersede and group is None:
        raise click.UsageError("--supersede needs --group: whose older runs are meant?")
    changes = (*sets, f"watch.on-cancel={on_cancel}") if on_cancel else sets
    loaded = load(directory, config, job, target, changes)
    with terminate_like_interrupt():
        prepared = prepare_run(
            loaded, Host(environ=with_secret_paths(os.environ, secret_paths)), own=own_output(json_file)
        )
        if dry_run:
            from aml_train.pipeline import render_plan

            click.echo(render_plan(prepared.plan))
            return
        options = RunOptions(
            fresh=fresh,
            force_build=force_build,
            keep_tests=keep_tests,
            wait=not no_wait,
            group=Group(name=group, sequence=int(time.time())) if group else None,
            supersede=supersede,
            register=not no_register,
        )
        code = execute(prepared, options, json_file, no_color=no_color)
    sys.exit(code)


@cli.command()
@configuration
@click.argument("job_name", metavar="[JOB]", required=False)
@click.option("--no-register", is_flag=True, help="Gate, and register no model, as for a pull request.")
@events_file
@colors
def attach(
    directory: Path,
    config: Path | None,
    job: Path | None,
    target: str | None,
    sets: tuple[str, ...],
    *,
    job_name: str | None,
    no_register: bool,
    json_file: Path | None,
    no_color: bool,
) -> None:
    """Follow a job that was submitted before, decide the gate, register the model.

    JOB is the job's name, as `run --no-wait` told it; without it, the latest job that was submitted from the same commit and
    configuration. The verdict and the exit code are those that `run` would have come to. Nothing is built or submitted,
    and Ctrl-C leaves the job alone.

    \b
    aml-train run --no-wait            in one workflow
    aml-train attach                   in another one, later
    """
    from aml_train.pipeline import Host, RunOptions, own_output, prepare_run

    loaded = load(directory, config, job, target, sets)
    with terminate_like_interrupt():
        prepared = prepare_run(
            loaded, Host(environ=dict(os.environ)), image=job_name is None, own=own_output(json_file)
        )
        options = RunOptions(attach=True, job=job_name, register=not no_register)
        code = execute(prepared, options, json_file, no_color=no_color)
    sys.exit(code)


cli.add_command(compare)
cli.add_command(data)
cli.add_command(image)
cli.add_command(submit)
cli.add_command(init)
cli.add_command(jobs)
cli.add_command(model)
cli.add_command(promote)
cli.add_command(rollback)


@cli.group()
def emulator() -> None:
    """The local AzureML: an emulator in a container that the real Azure SDKs talk to.

    \b
    aml-train emulator start
    eval "$(aml-train emulator env)"       now azure-ai-ml and MLflow talk to it
    python my_azure_ml_script.py
    """


emulator.add_command(clean)
emulator.add_command(fault)
emulator.add_command(job)
emulator.add_command(environment)
emulator.add_command(requests)
emulator.add_command(open_page)


def _emulator_settings() -> EmulatorSettings:
    from aml_train.local import EmulatorSettings

    return EmulatorSettings.from_environment(dict(os.environ))


@emulator.command("start")
@click.option(
    "--environment",
    "environments",
    multiple=True,
    metavar="PATTERN=IMAGE",
    help="An image of this machine that plays curated environments; may be repeated.",
)
def emulator_start(environments: tuple[str, ...]) -> None:
    """Start the local AzureML, or find that it runs. Its state is kept in a Docker volume."""
    from aml_train.cli.console import ConsoleListener
    from aml_train.cli.environments import pairs_of
    from aml_train.local import name_environments, start

    images = pairs_of(environments)
    settings = _emulator_settings()
    info = start(settings, ConsoleListener(sys.stderr))
    name_environments(info, images)
    click.echo(f"{settings.name} is ready: workspace {info.workspace}, resource group {info.resource_group}")
    click.echo(f"Its page: {settings.page_origin}/ui/", err=True)
    click.echo('Next: eval "$(aml-train emulator env)"', err=True)


@emulator.command("status")
def emulator_status() -> None:
    """Show whether the local AzureML runs, its jobs by state, and requests that it did not support."""
    from aml_train.local import status

    click.echo(json.dumps(status(_emulator_settings()), indent=2))


@emulator.command("stop")
def emulator_stop() -> None:
    """Stop the local AzureML. Jobs, models and data are kept."""
    from aml_train.local import stop

    settings = _emulator_settings()
    click.echo(f"{settings.name} is stopped" if stop(settings) else f"{settings.name} was not running")


@emulator.command("reset")
@click.confirmation_option("--yes", prompt="Remove the container and all its jobs, models, images and data?")
def emulator_reset() -> None:
    """Remove the local AzureML with everything in it."""
    from aml_train.local import reset

    settings = _emulator_settings()
    reset(settings)
    click.echo(f"{settings.name} and its data are removed")


@emulator.command("logs")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
def emulator_logs(*, follow: bool) -> None:
    """Print the log of the local AzureML."""
    from aml_train.local import logs

    for line in logs(_emulator_settings(), follow=follow):
        click.echo(line)


@emulator.command("env")
def emulator_env() -> None:
    """Print the variables that make Azure SDKs reach the local AzureML, as shell exports."""
    from aml_train.core.errors import ServiceError
    from aml_train.local import client_environment, info, shell_exports

    settings = _emulator_settings()
    found = info(settings)
    if found is None:
        raise ServiceError(f"{settings.name} does not run.", hint="Start it: aml-train emulator start")
    click.echo(shell_exports(client_environment(found, dict(os.environ))))
