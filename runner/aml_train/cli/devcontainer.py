"""The commands ``aml-train image devcontainer`` and ``shell``: the tested image in editors and terminals.

Of devcontainer.json only ``image`` is ours. All else belongs to the user, as do comments and order.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aml_train.cli.console import ConsoleListener
from aml_train.cli.options import this_host
from aml_train.cli.output import json_option, print_result, write_file
from aml_train.cli.project import ProjectOptions, project_options
from aml_train.core.docker import connect_engine
from aml_train.core.errors import Fault, ImageError, InvalidError, OutdatedError
from aml_train.dev_image import find_dev_image
from aml_train.image.push import pull_image
from aml_train.image.testing.container import has_gpus
from aml_train.pipeline.prepare import prepare_run

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.config.model import Config
    from aml_train.dev_image import DevImage

DEVCONTAINER: Final = Path(".devcontainer/devcontainer.json")
EXTENSIONS: Final = ("ms-python.python", "ms-toolsai.vscode-ai")
"""Python, and Azure Machine Learning."""

_INTRODUCTION: Final = """\
// The image in which the tests of this repository passed, by its digest.
// `aml-train image devcontainer` keeps `image` up to date; everything else is yours.
"""

#: The option that `devcontainer` and `shell` have.
environment_option: Final = click.option(
    "--environment",
    metavar="NAME[:VERSION]",
    help="Use the image of an environment of the workspace instead of the configuration's.",
)


def find_image(project: ProjectOptions, environment: str | None) -> tuple[Config, DevImage]:
    """Return the configuration and the image to work in."""
    config = project.load()
    prepared = prepare_run(config, this_host())
    return config, find_dev_image(prepared, ConsoleListener(sys.stderr), environment)


@click.command("devcontainer")
@project_options
@click.option(
    "--check", "only_check", is_flag=True, help="Change nothing; exit code 10 if the file names another image."
)
@environment_option
@json_option()
def devcontainer(
    project: ProjectOptions,
    *,
    only_check: bool,
    environment: str | None,
    as_json: bool,
) -> None:
    """Write or update .devcontainer/devcontainer.json with the tested image.

    The image is the one that `aml-train image build` or `aml-train run` has built and tested, by its digest. Of an existing file only
    `image` changes.

    \b
    aml-train image devcontainer          write the file, or update the digest
    aml-train image devcontainer --check  in CI: exit code 10 if outdated
    aml-train image devcontainer --environment sklearn:3
    """
    config, image = find_image(project, environment)
    if image.digest is None:
        raise ImageError(
            f"the image {image.reference} is in this engine only, so it has no digest",
            hint="Push it to a registry, or open it here: aml-train image shell",
        )
    path = config.directory / DEVCONTAINER
    before = _read(path)
    if before is None:
        after = first_devcontainer(config, image)
    else:
        after = updated_devcontainer(before, image.reference, str(DEVCONTAINER))
    status = "unchanged" if before == after else "created" if before is None else "updated"
    if only_check and status != "unchanged":
        raise OutdatedError(
            f"{DEVCONTAINER} does not name {image.reference}" if before else f"{DEVCONTAINER} does not exist",
            hint="Write it, and commit it: aml-train image devcontainer",
        )
    if status != "unchanged":
        write_file(path, after.encode())
    facts: dict[str, Any] = {"status": status, "file": str(DEVCONTAINER), "image": image.reference, **image.origin()}
    if as_json:
        print_result(facts)
    else:
        click.echo(f"{DEVCONTAINER}: {status}, {image.reference}{_tests(image)}")


def first_devcontainer(config: Config, image: DevImage) -> str:
    """Return the text of a new devcontainer.json."""
    resources = config.job.document.get("resources") or {}
    shm_size = resources.get("shm_size")
    document: dict[str, Any] = {
        "name": config.directory.resolve().name,
        "image": image.reference,
        "remoteUser": image.settings.user,
        **({"runArgs": [f"--shm-size={shm_size}"]} if shm_size else {}),
        **({"hostRequirements": {"gpu": "optional"}} if "CUDA_VERSION" in image.settings.variables else {}),
        "customizations": {"vscode": {"extensions": list(EXTENSIONS)}},
    }
    return f"{_INTRODUCTION}{json.dumps(document, indent=2, ensure_ascii=False)}\n"


#: The member `image`, outside of comments of a line.
_IMAGE: Final = re.compile(r'^(?![ \t]*//)(.*?"image"[ \t]*:[ \t]*)"[^"\n]*"', re.MULTILINE)


def updated_devcontainer(text: str, image: str, where: str) -> str:
    """Return a devcontainer.json with another image; everything else stays as it is.

    Raises:
        InvalidError: it names no image, or several.
    """
    count = len(_IMAGE.findall(text))
    if count != 1:
        what = f"{count} lines name an `image`" if count else "no line names the `image`"
        remedy = f'write `"image": "{image}"` in place of what builds the container'
        raise InvalidError([Fault(where=where, what=what, why="the tested image is used as it is", remedy=remedy)])
    return _IMAGE.sub(lambda match: match[1] + json.dumps(image), text)


def _tests(image: DevImage) -> str:
    if image.record is None:
        return ""
    count = "" if image.record.passed is None else f"{image.record.passed} "
    return f" ({count}tests passed at {image.record.at})"


def _read(path: Path) -> str | None:
    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path} cannot be read: {error}") from error


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
