"""The pipeline's commands: validate, schema, convert, plan, run, attach."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.masking import print_exactly
from aml_train.cli.options import (
    OutputOptions,
    ProjectOptions,
    gate_junit,
    output_options,
    project_options,
    secret_path,
    sigterm_as_interrupt,
    this_host,
    with_secret_paths,
)
from aml_train.cli.result import json_option, print_result

if TYPE_CHECKING:
    from aml_train.config.model import Config
    from aml_train.pipeline.prepare import PreparedRun

_JOB_SCHEMA: Final = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
_JOB_ORDER: Final = (
    "name", "display_name", "experiment_name", "description", "tags", "properties", "command", "code"
)  # fmt: skip


@click.command()
@project_options
@json_option()
def validate(project: ProjectOptions, *, as_json: bool) -> None:
    """Check the configuration and the job; report every fault.

    Each fault is one line, `file:line: what: why; remedy`. No service is contacted.
    """
    from aml_train.core.errors import InvalidError

    try:
        loaded = project.load()
    except InvalidError as error:
        if as_json:
            faults = [vars(fault) for fault in error.faults] or [{"where": "", "what": error.message}]
            print_result({"valid": False, "faults": faults})
        raise
    for notice in loaded.notices:
        click.echo(f"note: {notice}", err=True)
    if as_json:
        notes = [str(one) for one in loaded.notices]
        print_result({"valid": True, "description": loaded.describe(), "notes": notes})
    else:
        click.echo(f"valid: {loaded.describe()}")


@click.command()
def schema() -> None:
    """Print the JSON Schema of aml-train.yml, for editors.

    \b
    aml-train schema > aml-train.schema.json
    # yaml-language-server: $schema=aml-train.schema.json
    """
    from aml_train.config.document import json_schema

    click.echo(json.dumps(json_schema(), indent=2, ensure_ascii=False))


@click.command()
@project_options
def convert(project: ProjectOptions) -> None:
    """Convert a run configuration of the SDK v1 to a command job.

    \b
    aml-train convert > job.yml                                    the one of aml-train.yml
    aml-train convert --config .azureml/gpu.runconfig > job.yml    any other

    Settings that a command job cannot express are refused with their line. No service is contacted.
    """
    print_exactly(render_job(project.load("sdk=v2")))


def render_job(config: Config) -> str:
    """Return the YAML of the command job that replaces a run configuration.

    Its paths start from the run configuration's source directory, as they do in *config*.

    Args:
        config: one whose job was made of a run configuration, for the SDK v2.

    Raises:
        InvalidError: the job is a command job already.
    """
    from aml_train.core.errors import InvalidError

    job = config.job
    name = os.path.relpath(job.file, config.directory)
    if job.runconfig is None:
        raise InvalidError(f"{name} is a command job already: there is nothing to convert.")
    path = os.path.relpath(job.directory / "job.yml", config.directory)
    remarks = [
        f"The command job that does what the run configuration {name} says. Save it as {path}: its paths start there."
    ]
    if config.file is not None:
        remarks.append(f"In aml-train.yml, `job: {path}` replaces `runconfig:`.")
    if config.image is not None:
        remarks.append("It runs in the image of aml-train.yml, and names no environment.")
    document = {key: job.document[key] for key in _JOB_ORDER if key in job.document} | dict(job.document)
    text = _dump_yaml({"$schema": _JOB_SCHEMA, "type": "command"} | document)
    return "".join(f"# {remark}\n" for remark in remarks) + text


def _dump_yaml(document: Mapping[str, object]) -> str:
    """Return YAML in which text of several lines is a literal block."""
    import yaml

    class Dumper(yaml.SafeDumper):
        pass

    def represent_text(dumper: yaml.SafeDumper, text: str) -> yaml.Node:
        style = "|" if "\n" in text and not any(line != line.rstrip() for line in text.split("\n")) else None
        return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)

    Dumper.add_representer(str, represent_text)
    return str(yaml.dump(document, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=1_000_000))


@click.command()
@project_options
@json_option()
def plan(project: ProjectOptions, *, as_json: bool) -> None:
    """Show what a run would do, without changing anything.

    Prints the target, the Dockerfile as it will be built, the job as it will be submitted, the gate and the model.
    """
    from aml_train.pipeline.prepare import prepare_run
    from aml_train.pipeline.run_files import own_output

    loaded = project.load()
    prepared = prepare_run(loaded, this_host(), own=own_output())
    print_plan(prepared, as_json=as_json)


def print_plan(prepared: PreparedRun, *, as_json: bool) -> None:
    """Print what a run would do, as text or as JSON."""
    from aml_train.pipeline.data import with_data
    from aml_train.pipeline.plan import render_plan
    from aml_train.pipeline.plan_values import plan_facts

    plan = with_data(prepared).plan
    if as_json:
        print_result(plan_facts(plan))
    else:
        click.echo(render_plan(plan))


@click.command()
@project_options
@click.option("--fresh", is_flag=True, help="Train again, even if the same job has completed.")
@click.option("--force-build", is_flag=True, help="Build and test the image again, even if it is in the registry.")
@click.option("--keep-tests", is_flag=True, help="Run the tests in any case, and keep their container.")
@click.option("--no-wait", is_flag=True, help="Submit and return; `aml-train attach` gates later.")
@click.option(
    "--on-cancel",
    type=click.Choice(["cancel", "detach"]),
    help="Effect of an interruption on the job.  [default: `watch.on-cancel`, else cancel]",
)
@click.option("--group", metavar="NAME", help="Group of the run, such as a pull request; see --supersede.")
@click.option("--supersede", is_flag=True, help="Cancel the unfinished jobs of older runs of the same --group.")
@click.option("--no-register", is_flag=True, help="Decide the gate, but register no model, as for a pull request.")
@click.option("--dry-run", is_flag=True, help="Print the plan and change nothing, like `aml-train plan`.")
@secret_path
@gate_junit
@output_options
def run(
    project: ProjectOptions,
    output: OutputOptions,
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
    gate_junit: Path | None,
    secret_paths: tuple[Path, ...],
) -> None:
    """Build and test the image, train, gate, register the model.

    A second run of the same commit finds the tested image and attaches to the completed job. Ctrl-C cancels the job;
    with --on-cancel detach it continues.

    \b
    aml-train run                                   the job of aml-train.yml
    aml-train run --set job.inputs.epochs=3         with another input
    aml-train run --fresh                           train again
    aml-train run --config job.yml                  a bare AzureML command job
    """
    from aml_train.pipeline.prepare import prepare_run
    from aml_train.pipeline.result import Group, RunOptions
    from aml_train.pipeline.run_files import own_output

    if supersede and group is None:
        raise click.UsageError("--supersede needs --group, which names the older runs.")
    with sigterm_as_interrupt():
        loaded = project.load(*([f"watch.on-cancel={on_cancel}"] if on_cancel else []))
        prepared = prepare_run(
            loaded,
            this_host(with_secret_paths(os.environ, secret_paths)),
            own=own_output(output.events, gate_junit),
            proposed=no_register,
        )
        if dry_run:
            print_plan(prepared, as_json=output.as_json)
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
        code = output.execute(prepared, options, gate_junit=gate_junit)
    sys.exit(code)


@click.command()
@project_options
@click.argument("job_name", metavar="[JOB]", required=False)
@click.option("--no-register", is_flag=True, help="Decide the gate, but register no model, as for a pull request.")
@gate_junit
@output_options
def attach(
    project: ProjectOptions,
    output: OutputOptions,
    *,
    job_name: str | None,
    no_register: bool,
    gate_junit: Path | None,
) -> None:
    """Follow a submitted job, gate it, register its model.

    JOB is the name that `run --no-wait` printed; by default, the latest job that was submitted from the same commit and
    configuration. The verdict and the exit code are the same as with `run`. Nothing is built or submitted, and Ctrl-C
    does not affect the job.

    \b
    aml-train run --no-wait            in one workflow
    aml-train attach                   in another one, later
    """
    from aml_train.pipeline.prepare import prepare_run
    from aml_train.pipeline.result import RunOptions
    from aml_train.pipeline.run_files import own_output

    with sigterm_as_interrupt():
        loaded = project.load()
        prepared = prepare_run(
            loaded,
            this_host(),
            image=job_name is None,
            own=own_output(output.events, gate_junit),
            proposed=no_register,
        )
        options = RunOptions(attach=True, job=job_name, register=not no_register)
        code = output.execute(prepared, options, gate_junit=gate_junit)
    sys.exit(code)
