"""The commands that read the configuration alone: validate, convert."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.output import json_option, print_exactly, print_result
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.config.document import json_schema
from aml_train.core.errors import InvalidError
from aml_train.core.text import readable_yaml
from aml_train.pipeline.check import check_image, check_run

if TYPE_CHECKING:
    from aml_train.config.model import Config

_JOB_SCHEMA: Final = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
_JOB_ORDER: Final = (
    "name", "display_name", "experiment_name", "description", "tags", "properties", "command", "code"
)  # fmt: skip


@click.command()
@project_options
@click.option("--schema", is_flag=True, help="Print the JSON Schema of aml-train.yml, for editors; check nothing.")
@json_option()
def validate(project: ProjectOptions, *, schema: bool, as_json: bool) -> None:
    """Check the configuration and the job; report every fault.

    Each fault is one line, `file:line: what: why; remedy`. The files that the configuration and the job name are read: scripts with the
    arguments that they require, tests, requirements, conda files, Dockerfiles, code and data. Nothing is run, and no service is contacted.

    \b
    aml-train validate
    aml-train validate --schema > aml-train.schema.json
    """
    if schema:
        print_exactly(json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n")
        return
    try:
        loaded = project.load(check=check_image)
        check_run(loaded, os.environ)
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
@project_options
def convert(project: ProjectOptions) -> None:
    """Convert a run configuration of the SDK v1 to a command job.

    \b
    aml-train convert > job.yml   # the one of aml-train.yml
    aml-train convert --config .azureml/gpu.runconfig > job.yml   # any other

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
    text = readable_yaml({"$schema": _JOB_SCHEMA, "type": "command"} | document)
    return "".join(f"# {remark}\n" for remark in remarks) + text
