"""Options that select what a command works on, gathered into one value."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from aml_train.cli.output import masker
from aml_train.config.load import load_config, load_targets

if TYPE_CHECKING:
    from aml_train.config.load import Targets
    from aml_train.config.model import Config
    from aml_train.config.sections.image import ImageConfig

Command = TypeVar("Command", bound=Callable[..., Any])
Option = Callable[[Callable[..., Any]], Callable[..., Any]]


def gather(command: Command, name: str, into: Callable[..., object], options: Mapping[str, Option]) -> Command:
    """Add options to a command, which receives their values as one.

    Args:
        command: the command's function.
        name: its parameter that receives the value.
        into: makes the value of the options' values.
        options: the options by the name of their value, in the order in which the help shows them.
    """

    @functools.wraps(command)
    def gathered(**values: Any) -> Any:
        values[name] = into(**{option: values.pop(option) for option in options})
        return command(**values)

    decorated: Callable[..., Any] = gathered
    for option in reversed(list(options.values())):
        decorated = option(decorated)
    return cast("Command", decorated)


@dataclass(frozen=True, kw_only=True)
class ProjectOptions:
    """The project folder, the configuration and the target that a command line names.

    Attributes:
        directory: the project folder.
        config: the configuration; None for the one that is found in the folder.
        target: one of the configured targets; None for the default one.
        job: a job other than the configuration's.
        sets: changes of the configuration, ``key=value``.
    """

    directory: Path
    config: Path | None
    target: str | None
    job: Path | None = None
    sets: tuple[str, ...] = ()

    def load(self, *changes: str, check: Callable[[ImageConfig, Path], object] | None = None) -> Config:
        """Load and check the configuration, with further *changes*; *check* is that of :func:`load_config`."""
        config = load_config(
            self.config,
            directory=self.directory.absolute(),
            job=self.job,
            target=self.target,
            sets=(*self.sets, *changes),
            check=check,
        )
        for secret in config.secrets(os.environ):
            masker().add(secret)
        return config

    def targets(self) -> Targets:
        """Load the targets alone; the rest of the configuration is not checked."""
        return load_targets(self.config, directory=self.directory)


def _directory(text: str) -> Option:
    return click.option(
        "-C",
        "--directory",
        type=click.Path(path_type=Path, file_okay=False, exists=True),
        default=Path(),
        help=text,
    )


_TARGET: Final = click.option(
    "--target",
    metavar="NAME",
    help="One of `targets:`.  [default: `target:`, else local]",
)
_WITHOUT_JOB: Final[dict[str, Option]] = {
    "directory": _directory("The project folder.  [default: .]"),
    "config": click.option(
        "--config",
        type=click.Path(path_type=Path),
        help="aml-train.yml, or a bare command job YAML.  [default: aml-train.yml, else job.yml]",
    ),
    "target": _TARGET,
    "sets": click.option(
        "--set",
        "sets",
        multiple=True,
        metavar="KEY=VALUE",
        help="Override a key, such as job.inputs.epochs=5; may be repeated.",
    ),
}
_JOB: Final = click.option(
    "--job", type=click.Path(path_type=Path), help="Another command job than the configuration's."
)


def project_options(command: Command) -> Command:
    """Add the options that select what to run."""
    return gather(command, "project", ProjectOptions, {**_WITHOUT_JOB, "job": _JOB})


def project_options_without_job(command: Command) -> Command:
    """Add the options that select what to run, for commands that have their own job."""
    return gather(command, "project", ProjectOptions, _WITHOUT_JOB)


def target_options(command: Command) -> Command:
    """Add the options that select the workspace, for commands without a job."""
    options = {
        "directory": _directory("The project folder, whose aml-train.yml names the targets.  [default: .]"),
        "config": click.option("--config", type=click.Path(path_type=Path), help="Another file than aml-train.yml."),
        "target": _TARGET,
    }
    return gather(command, "project", ProjectOptions, options)
