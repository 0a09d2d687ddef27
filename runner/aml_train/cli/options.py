"""Options that several commands share, and what they mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

if TYPE_CHECKING:
    from aml_train.config import Config

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


def secret_path(command: _Command) -> _Command:
    """Add the option that allows secret files outside the workspace; see :func:`with_secret_paths`."""
    return click.option(
        "--secret-path",
        "secret_paths",
        multiple=True,
        type=click.Path(path_type=Path),
        metavar="PATH",
        help="A file or folder outside the workspace that `image.secrets` may read; may be repeated.",
    )(command)


def with_secret_paths(environment: Mapping[str, str], paths: Sequence[Path]) -> dict[str, str]:
    """Return *environment* with *paths* among the places that secrets may be read from."""
    from aml_train.image import SECRET_PATH_VARIABLE

    given = [environment.get(SECRET_PATH_VARIABLE, ""), *(str(path.absolute()) for path in paths)]
    return {**environment, SECRET_PATH_VARIABLE: os.pathsep.join(one for one in given if one)}


def load(directory: Path, config: Path | None, job: Path | None, target: str | None, sets: Sequence[str]) -> Config:
    """Load and check the configuration that the options of :func:`configuration` name."""
    from aml_train.config import load_config

    return load_config(config, directory=directory.absolute(), job=job, target=target, sets=sets)
