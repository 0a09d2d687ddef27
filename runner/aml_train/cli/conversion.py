"""A run configuration of the SDK v1, written as the YAML of the command job that does the same. Pure."""

from __future__ import annotations

import os
from typing import Any, Final

import yaml

from aml_train.config import Config
from aml_train.core.errors import InvalidError

SCHEMA: Final = "https://azuremlschemas.azureedge.net/latest/commandJob.schema.json"
_ORDER: Final = ("name", "display_name", "experiment_name", "description", "tags", "properties", "command", "code")


def render_job(config: Config) -> str:
    """Return the YAML of a command job, with remarks on where it belongs and what goes with it.

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
        remarks.append(f"In aml-train.yml, `job: {path}` takes the place of `runconfig:`.")
    if config.image is not None:
        remarks.append("It runs in the image of aml-train.yml, and has no environment of its own.")
    document = {key: job.document[key] for key in _ORDER if key in job.document} | dict(job.document)
    head = {"$schema": SCHEMA, "type": "command"}
    text = yaml.dump(head | document, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1_000_000)
    return "".join(f"# {remark}\n" for remark in remarks) + text


class _Dumper(yaml.SafeDumper):
    """Writes text of several lines as such."""


def _text(dumper: yaml.SafeDumper, text: str) -> Any:
    style = "|" if "\n" in text and not any(line != line.rstrip() for line in text.split("\n")) else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _text)
