"""Options that several commands share, and what they mean."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aml_train.config.model import Config

_Command = TypeVar("_Command", bound=Callable[..., Any])


_JOB = click.option("--job", type=click.Path(path_type=Path), help="Another command job than the configuration's.")


def configuration(command: _Command) -> _Command:
    """Add the options that say what to run."""
    return configuration_without_job(_JOB(command))


def configuration_without_job(command: _Command) -> _Command:
    """Add the options that say what to run, where the job is given otherwise."""
    sets = click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key, such as job.inputs.epochs=5; may be repeated.",
    )
    return _place(
        sets(command),
        directory="The project folder.  [default: .]",
        config="aml-train.yml, or a bare command job YAML.  [default: aml-train.yml, else job.yml]",
    )


def target_options(command: _Command) -> _Command:
    """Add the options that say which workspace is meant, where nothing else of the configuration matters."""
    return _place(
        command,
        directory="The project folder, whose aml-train.yml names the targets.  [default: .]",
        config="Another file than aml-train.yml.",
    )


def _place(command: _Command, *, directory: str, config: str) -> _Command:
    """Add the options for the project's folder, its configuration and the target; *directory* and *config* are their help."""
    options = (
        click.option(
            "-C",
            "--directory",
            type=click.Path(path_type=Path, file_okay=False, exists=True),
            default=Path(),
            help=directory,
        ),
        click.option("--config", type=click.Path(path_type=Path), help=config),
        click.option("--target", metavar="NAME", help="One of `targets:`.  [default: `target:`, else local]"),
    )
    for option in reversed(options):
        command = option(command)
    return command


def load(directory: Path, config: Path | None, job: Path | None, target: str | None, sets: Sequence[str]) -> Config:
    """Load and check the configuration that the options of :func:`configuration` name."""
    from aml_train.config.load import load_config

    return load_config(config, directory=directory.absolute(), job=job, target=target, sets=sets)
