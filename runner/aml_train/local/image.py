"""Pull the image of the local AzureML, or build it from this installation."""

from __future__ import annotations

import importlib.util
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import APIError

from aml_train.core.docker import BuildCli, buildkit_cli, engine_platform
from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice
from aml_train.core.temporary import temporary_folder
from aml_train.core.version import REPOSITORY, __version__
from aml_train.image.build.build import build_folder
from aml_train.local.settings import IMAGE, EmulatorSettings

if TYPE_CHECKING:
    from docker import DockerClient

#: Paths in the build context, as the Dockerfile names them.
SOURCES: Final = "runner/aml_emulator"
LOCKS: Final = ("requirements/emulator.txt", "requirements/node.txt")

_PROXIES: Final = ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy")
_NAME_ANOTHER: Final = "Or name another image: AML_TRAIN_EMULATOR_IMAGE."


def obtain_image(
    client: DockerClient, settings: EmulatorSettings, listener: Listener, *, published: bool = bool(REPOSITORY)
) -> None:
    """Pull the image; if it is this version's and cannot be pulled, build it.

    Args:
        client: the engine, which does not have the image.
        settings: name it.
        listener: receives the steps and the build's progress.
        published: whether this version's image is in a registry.

    Raises:
        ImageError: it can be neither pulled nor built.
    """

    own = settings.image == IMAGE
    if published or not own:
        listener(Notice(text=f"Pulling {settings.image}"))
        try:
            client.images.pull(settings.image)
        except APIError as error:
            reason = str(error.explanation or error)
            if not own:
                raise ImageError(
                    f"The local AzureML's image {settings.image} is not on the engine and cannot be pulled: {reason}",
                    hint=f"Unset AML_TRAIN_EMULATOR_IMAGE for the image of this version, {IMAGE}, which is built from this"
                    " installation if it cannot be pulled.",
                ) from error
            listener(Notice(text=f"{settings.image} cannot be pulled: {reason}", level="warning"))
        else:
            return
    listener(Notice(text=f"Building {settings.image} from this installation; this takes a few minutes, once"))
    _build(client, settings.image, listener)


def _build(client: DockerClient, tag: str, listener: Listener) -> None:
    package, failed = find_package(), f"The local AzureML's image {tag} cannot be built from this installation"
    try:
        cli = buildkit_cli(os.environ)
    except ImageError as error:
        raise ImageError(f"{failed}: {error.message}", hint=f"{error.hint} {_NAME_ANOTHER}") from error
    try:
        with temporary_folder("build") as folder:
            write_context(package, folder)
            build_folder(
                folder,
                dockerfile=folder / SOURCES / "Dockerfile",
                tag=tag,
                build_args=build_arguments(cli),
                cli=cli,
                platform=engine_platform(client),
                listener=listener,
            )
    except ImageError as error:
        raise ImageError(
            f"{failed}: {error.message}",
            hint=f"The build needs the disk, Docker Hub, Debian's packages, PyPI and npm. {_NAME_ANOTHER}",
        ) from error


def build_arguments(cli: BuildCli) -> Mapping[str, str | None]:
    """Return the version, and the names of the proxy variables that are set."""
    return {"VERSION": __version__, **{name: None for name in _PROXIES if cli.environ.get(name)}}


def find_package() -> Path:
    """Return the folder of the package ``aml_emulator``, which is not imported."""
    found = importlib.util.find_spec("aml_emulator")
    assert found is not None and found.submodule_search_locations  # noqa: S101, PT018 - it is of the same installation
    return Path(found.submodule_search_locations[0])


def write_context(package: Path, folder: Path) -> None:
    """Write the build context into *folder*.

    The lock files are in the package of a wheel, and in the root of a checkout.
    """
    shutil.copytree(package, folder / SOURCES, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    for lock in LOCKS:
        source, target = package / lock, folder / lock
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(source if source.is_file() else package.parents[1] / lock, target)
