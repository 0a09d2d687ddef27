"""The command ``aml-train image shell``: a shell in the tested image."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from aml_train.cli.console import ConsoleListener
from aml_train.cli.devcontainer import environment_option, find_image
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.core.docker import connect_engine
from aml_train.core.errors import ImageError
from aml_train.image.push import pull_image
from aml_train.image.testing.container import has_gpus

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.pipeline.dev_image import DevImage

_PLACE: Final = "/workspaces"
_SHELL: Final = 'if command -v bash >/dev/null; then exec bash "$@"; else exec sh "$@"; fi'
_COMMAND: Final = 'exec "$@"'


@click.command("shell", context_settings={"allow_interspersed_args": False})
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
@project_options
@environment_option
@click.option("--user", metavar="NAME", help="The user in the container.  [default: the image's]")
def shell(command: tuple[str, ...], project: ProjectOptions, *, environment: str | None, user: str | None) -> None:
    """Open a shell in the tested image, or run COMMAND in it.

    The project is mounted at /workspaces/NAME, where the shell begins; what is written there is written into the project. The container
    is removed at the end. The exit code is that of the shell or of COMMAND. GPUs are passed on if the engine has some.

    \b
    aml-train image shell
    aml-train image shell -- python -m pytest -q tests
    aml-train image shell --environment sklearn:3 -- python -V
    """
    docker = shutil.which("docker")
    if docker is None:
        raise ImageError("there is no docker command on PATH", hint="Install Docker's command line.")
    config, image = find_image(project, environment)
    engine = connect_engine(dict(os.environ))
    try:
        gpus = _pull(engine, image)
    finally:
        engine.close()
    arguments = run_arguments(
        image.reference,
        config.directory.resolve(),
        command,
        terminal=sys.stdin.isatty() and sys.stdout.isatty(),
        gpus=gpus,
        user=user,
    )
    sys.stdout.flush()
    sys.stderr.flush()
    # The container's process takes this one's place: its terminal, its signals and its exit code are then the user's own.
    os.execv(docker, [docker, *arguments])  # noqa: S606 - no shell is wanted


def run_arguments(
    image: str, project: Path, command: Sequence[str], *, terminal: bool, gpus: bool, user: str | None
) -> list[str]:
    """Return the arguments of ``docker`` for a shell, or for *command*. Pure."""
    place = f"{_PLACE}/{project.name}"
    return [
        "run",
        "--rm",
        "--init",
        "--interactive",
        *(["--tty"] if terminal else []),
        *(["--gpus", "all"] if gpus else []),
        *(["--user", user] if user else []),
        "--mount",
        f'type=bind,"source={project}",target={place}'
        if "," in str(project)
        else f"type=bind,source={project},target={place}",
        "--workdir",
        place,
        "--entrypoint",
        "/bin/sh",
        image,
        "-c",
        _COMMAND if command else _SHELL,
        "sh",
        *command,
    ]


def _pull(engine: DockerClient, image: DevImage) -> bool:
    """Have the image in the engine; return whether the engine has GPUs."""
    if image.digest is not None:
        pull_image(engine, image.repository, image.digest, auth=image.auth, listener=ConsoleListener(sys.stderr))
    return has_gpus(engine.info())
