"""The command ``aml-train devcontainer``: the tested image in editors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from aml_train.cli.options import ProjectOptions, project_options, this_host
from aml_train.cli.result import json_option, print_result

if TYPE_CHECKING:
    from aml_train.config import Config
    from aml_train.pipeline import DeskImage

#: The option that both commands of the desk have.
environment_option: Final = click.option(
    "--environment",
    metavar="NAME[:VERSION]",
    help="Use the image of an environment of the workspace instead of the configuration's.",
)


def find_image(project: ProjectOptions, environment: str | None) -> tuple[Config, DeskImage]:
    """Return the configuration and the image to work in."""
    from aml_train.cli.console import ConsoleListener
    from aml_train.pipeline import find_desk_image, prepare_run

    config = project.load()
    prepared = prepare_run(config, this_host())
    return config, find_desk_image(prepared, ConsoleListener(sys.stderr), environment)


@click.command("devcontainer")
@project_options
@click.option(
    "--check", "only_check", is_flag=True, help="Change nothing; exit code 10 if the file names another image."
)
@environment_option
@click.option("--user", metavar="NAME", help="The user in a new file.  [default: the image's]")
@click.option(
    "--feature",
    "features",
    multiple=True,
    metavar="REFERENCE",
    help="A feature in a new file, such as ghcr.io/devcontainers/features/git:1; may be repeated.",
)
@click.option("--mount", "mounts", multiple=True, metavar="MOUNT", help="A mount in a new file; may be repeated.")
@click.option(
    "--extension",
    "extensions",
    multiple=True,
    metavar="ID",
    help="Another VS Code extension in a new file; may be repeated.",
)
@json_option()
def devcontainer(
    project: ProjectOptions,
    *,
    only_check: bool,
    environment: str | None,
    user: str | None,
    features: tuple[str, ...],
    mounts: tuple[str, ...],
    extensions: tuple[str, ...],
    as_json: bool,
) -> None:
    """Write or update .devcontainer/devcontainer.json with the tested image.

    The image is the one that `aml-train image build` or `aml-train run` has built and tested, by its digest. An existing file keeps its
    other values, its comments and its order: only `image` and `customizations.aml-train` change.

    \b
    aml-train devcontainer                        write the file, or update the digest
    aml-train devcontainer --check                in CI: exit code 10 if the file is outdated
    aml-train devcontainer --environment sklearn:3
    """
    from aml_train.cli.scaffold.devcontainer import DEVCONTAINER, first_devcontainer, updated_devcontainer
    from aml_train.core.errors import ImageError, InvalidError, OutdatedError

    config, image = find_image(project, environment)
    if image.digest is None:
        raise ImageError(
            f"the image {image.reference} is in this engine only, so it has no digest",
            hint="Push it to a registry, or open it here: aml-train image shell",
        )
    path = config.directory / DEVCONTAINER
    before = _read(path)
    if before is not None and (user or features or mounts or extensions):
        raise InvalidError(
            f"{DEVCONTAINER} exists: --user, --feature, --mount and --extension are for a new file",
            hint="Write them into the file: only `image` and `customizations.aml-train` are kept up to date.",
        )
    if before is None:
        first = _first(config, image, user=user, features=features, mounts=mounts, extensions=extensions)
        after = first_devcontainer(image.reference, image.origin(), first)
    else:
        after = updated_devcontainer(before, image.reference, image.origin(), str(DEVCONTAINER))
    status = "unchanged" if before == after else "created" if before is None else "updated"
    if only_check and status != "unchanged":
        raise OutdatedError(
            f"{DEVCONTAINER} does not name {image.reference}" if before else f"{DEVCONTAINER} does not exist",
            hint="Write it, and commit it: aml-train devcontainer",
        )
    if status != "unchanged":
        _write(path, after)
    facts: dict[str, Any] = {"status": status, "file": str(DEVCONTAINER), "image": image.reference, **image.origin()}
    if as_json:
        print_result(facts)
    else:
        click.echo(f"{DEVCONTAINER}: {status}, {image.reference}{_tests(image)}")


def _first(
    config: Config,
    image: DeskImage,
    *,
    user: str | None,
    features: tuple[str, ...],
    mounts: tuple[str, ...],
    extensions: tuple[str, ...],
) -> Any:
    from aml_train.cli.scaffold.devcontainer import EXTENSIONS, FirstContainer

    resources = config.job.document.get("resources") or {}
    shm_size = resources.get("shm_size")
    return FirstContainer(
        name=config.directory.resolve().name,
        user=user or image.settings.user,
        features=features,
        mounts=mounts,
        extensions=tuple(dict.fromkeys((*EXTENSIONS, *extensions))),
        gpu="CUDA_VERSION" in image.settings.variables,
        shm_size=str(shm_size) if shm_size else None,
    )


def _tests(image: DeskImage) -> str:
    if image.record is None:
        return ""
    count = "" if image.record.passed is None else f"{image.record.passed} "
    return f" ({count}tests passed at {image.record.at})"


def _read(path: Path) -> str | None:
    from aml_train.core.errors import InvalidError

    try:
        return path.read_bytes().decode("utf-8")
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise InvalidError(f"{path} cannot be read: {error}") from error


def _write(path: Path, text: str) -> None:
    from aml_train.core.errors import InvalidError

    try:
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(text.encode("utf-8"))
    except OSError as error:
        raise InvalidError(f"{path} cannot be written: {error.strerror}") from error
