"""How much room the Docker engine has left for images."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.docker import in_container, remove_container
from aml_train.core.threads import temporary
from aml_train.image.leftovers import container_labels

if TYPE_CHECKING:
    from docker import DockerClient

_LEASE: Final = 120.0
_TRIED: Final = 3
_UNIX: Final = "unix://"
# Where containerd keeps images when it is the engine's image store (https://docs.docker.com/engine/storage/containerd/).
_CONTAINERD_ROOT: Final = "/var/lib/containerd"


@dataclass(frozen=True, kw_only=True)
class Room:
    """What is free where the engine keeps images.

    Attributes:
        path: that folder, as the engine names it.
        free: bytes; None where they cannot be known.
        how: where the figure is from, or why there is none.
    """

    path: str
    free: int | None
    how: str


def find_room(engine: DockerClient, environ: Mapping[str, str]) -> Room:
    """Return what is free under the engine's data root.

    The engine does not tell. A local engine's folder is asked of the system; from inside one of its containers the file
    system of that container is the same one; elsewhere a container of an image that is there is asked.

    Args:
        engine: the engine.
        environ: where ``DOCKER_HOST`` may say that it is elsewhere.
    """
    info = engine.info()
    path = _store(info)
    local = environ.get("DOCKER_HOST", _UNIX).startswith(_UNIX) and "Docker Desktop" not in info.get(
        "OperatingSystem", ""
    )
    if local and (not in_container() or _has_images(engine, info)):
        free = _free(path)
        if free is not None:
            return Room(path=path, free=free, how="the file system says")
    elif in_container() and upper_folder(_mounts()).startswith(f"{info['DockerRootDir']}/"):
        return Room(path=path, free=_free("/"), how="this container's file system says")
    return _ask_container(engine, path)


def _store(info: Mapping[str, Any]) -> str:
    """Return the folder that images are kept in."""
    status = dict(info.get("DriverStatus") or ())
    return _CONTAINERD_ROOT if "io.containerd" in status.get("driver-type", "") else str(info["DockerRootDir"])


def _has_images(engine: DockerClient, info: Mapping[str, Any]) -> bool:
    """Tell whether the folder that the engine names is the engine's own in here, too: its images are in it.

    moby (image/fs.go) keeps the configuration of each image in a file named by the image id.
    """
    kept = Path(info["DockerRootDir"], "image", str(info.get("Driver")), "imagedb", "content", "sha256")
    ids = [str(image["Id"]).removeprefix("sha256:") for image in engine.api.images()[:_TRIED]]
    try:
        return bool(ids) and all((kept / name).is_file() for name in ids)
    except PermissionError:
        return False


def _free(path: str) -> int | None:
    """Return the bytes that are free where *path* is; None where it is not there."""
    try:
        found = os.statvfs(path)
    except OSError:
        return None
    return found.f_bavail * found.f_frsize


def _mounts() -> str:
    return Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")


def upper_folder(mounts: str) -> str:
    """Return the folder that an overlay at ``/`` writes to, by the text of ``/proc/self/mountinfo``; else nothing. Pure."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4:5] == ["/"] and after.startswith("overlay "):
            found = re.search(r"upperdir=([^,\s]+)", after)
            return found[1] if found else ""
    return ""


def _ask_container(engine: DockerClient, path: str) -> Room:
    """Ask a container: its own file system lies where the images lie."""
    from docker.errors import APIError

    tried = []
    # The smallest images often have nothing but one program.
    images = sorted((image for image in engine.api.images() if image["RepoTags"]), key=lambda one: -one["Size"])
    for image in images[:_TRIED]:
        name = str(image["RepoTags"][0])
        create = partial(
            engine.containers.create,
            str(image["Id"]),
            entrypoint=["/bin/df", "-Pk", "/"],
            command=[],
            labels=container_labels(engine, "disk", _LEASE),
            network_mode="none",
        )
        try:
            with temporary(create, remove_container) as container:
                container.start()
                container.wait(timeout=_LEASE)
                free = parse_df(container.logs(stderr=False).decode("utf-8", "replace"))
        except APIError as error:  # such as: no df in the image
            tried.append(f"{name}: {error.explanation or error}")
        else:
            if free is not None:
                return Room(path=path, free=free, how=f"a container of {name} says")
            tried.append(f"{name}: its df told nothing")
    why = "; ".join(tried) or "it has no image whose container could be asked"
    return Room(path=path, free=None, how=f"the engine is elsewhere, and {why}")


def parse_df(text: str) -> int | None:
    """Read the free bytes in what ``df -Pk`` wrote (POSIX): the fourth column of the second line. Pure."""
    lines = text.splitlines()
    columns = lines[1].split() if len(lines) > 1 else []
    return int(columns[3]) * 1024 if len(columns) > 3 and columns[3].isdigit() else None
