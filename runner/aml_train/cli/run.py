"""The pipeline's commands: plan, run, attach."""

from __future__ import annotations

import time
from collections.abc import Iterable
from pathlib import Path

import click

from aml_train.cli.options import (
    OutputOptions,
    force_build,
    gate_junit,
    keep_tests,
    no_register,
    output_options,
    print_plan,
    this_host,
)
from aml_train.cli.output import json_option, write_file
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.core.errors import InvalidError
from aml_train.pipeline.plan import PlannedImage
from aml_train.pipeline.prepare import prepare_run
from aml_train.pipeline.result import Group, RunOptions
from aml_train.pipeline.run_files import own_output


@click.command()
@project_options
@click.option(
    "--lock",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Write the versions that pip would install to FILE, for `image.pip.constraints`.",
)
@json_option()
def plan(project: ProjectOptions, *, lock: Path | None, as_json: bool) -> None:
    """Show what a run would do, without changing anything.

    Prints the target, the Dockerfile as it will be built, the job as it will be submitted, the gate and the model.
    """
    shown = print_plan(prepare_run(project.load(), this_host(), own=own_output()), as_json=as_json)
    if lock is not None:
        versions = locked(shown.images)
        if not versions:
            raise InvalidError(f"there are no versions to write into {lock}", hint="The notes of the plan say why.")
        bases = dict.fromkeys(one.spec.base.pinned for one in shown.images)
        lines = [f"{name}=={version}" for name, version in versions.items()]
        write_file(lock, "\n".join([f"# What pip would install into {', '.join(bases)}", *lines, ""]).encode())


def locked(images: Iterable[PlannedImage]) -> dict[str, str]:
    """Return the versions that pip would install into *images*, by names; raises InvalidError if images differ in one."""
    versions: dict[str, str] = {}
    for name, version in sorted(item for one in images for item in one.packages.items()):
        if versions.setdefault(name, version) != version:
            raise InvalidError(
                f"no file holds the versions of all images: one needs {name} {versions[name]}, another {version}",
                hint="`aml-train plan --json` has those of each.",
            )
    return versions


@click.command()
@project_options
@click.option("--fresh", is_flag=True, help="Train again, even if the same job has completed.")
@force_build
@keep_tests
@click.option("--no-wait", is_flag=True, help="Submit and return; `aml-train attach` gates later.")
@click.option(
    "--on-cancel",
    type=click.Choice(["cancel", "detach"]),
    help="Effect of an interruption on the job.  [default: `watch.on-cancel`, else cancel]",
)
@click.option("--group", metavar="NAME", help="Group of the run, such as a pull request; see --supersede.")
@click.option("--supersede", is_flag=True, help="Cancel the unfinished jobs of older runs of the same --group.")
@no_register
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
    gate_junit: Path | None,
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
    if supersede and group is None:
        raise click.UsageError("--supersede needs --group, which names the older runs.")
    options = RunOptions(
        fresh=fresh,
        force_build=force_build,
        keep_tests=keep_tests,
        wait=not no_wait,
        group=Group(name=group, sequence=int(time.time())) if group else None,
        supersede=supersede,
        register=not no_register,
    )
    output.execute(
        project.load(*([f"watch.on-cancel={on_cancel}"] if on_cancel else [])),
        lambda _prepared: options,
        gate_junit=gate_junit,
        proposed=no_register,
    )


@click.command()
@project_options
@click.argument("job_name", metavar="[JOB]", required=False)
@no_register
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
    options = RunOptions(attach=True, job=job_name, register=not no_register)
    output.execute(
        project.load(), lambda _prepared: options, gate_junit=gate_junit, image=job_name is None, proposed=no_register
    )
