"""Warn, from manifests alone, that an image may not fit the engine's disk."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docker.errors import ImageNotFound

from aml_train.core.docker import in_container
from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice
from aml_train.core.text import size
from aml_train.image.base import docker_registries
from aml_train.image.inputs import BaseImage
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

if TYPE_CHECKING:
    from docker import DockerClient

RATIO: Final = 2.2
"""How much larger layers are unpacked, a cautious estimate: 3.4 was measured for Python packages; NVIDIA's images of about 9 GB take
about 20 GB."""
ANNOUNCED: Final = 150_000_000
"""Bytes of a pull from which on its size is compared with the engine's disk."""
_UNIX: Final = "unix://"
# The folder of containerd when it is the engine's image store (https://docs.docker.com/engine/storage/containerd/).
_CONTAINERD_ROOT: Final = "/var/lib/containerd"


def check_disk(
    base: BaseImage, platform: str, *, engine: DockerClient, environ: Mapping[str, str], listener: Listener
) -> None:
    """Warn if the base, which the engine lacks, may not fit its disk.

    Args:
        environ: Docker's variables, for the engine's place and the registry's credentials.
        listener: receives the warning.
    """
    if base.digest is None or base.image_id is not None:
        return
    try:
        with docker_registries(environ)(base.reference.registry) as registry:
            repository = base.reference.repository
            count = _bytes(registry, repository, registry.get_manifest(repository, base.digest), platform)
    except ImageError:  # the build reports it better
        return
    _compare(base.reference.familiar, count, room_here(engine, environ), listener)


def check_pull(
    registry: Registry,
    repository: str,
    manifest: Manifest,
    platform: str,
    *,
    engine: DockerClient,
    listener: Listener,
) -> None:
    """Warn if an image that is about to be pulled for tests may not fit the engine's disk."""
    name = f"{registry.host}/{repository}@{manifest.digest}"
    try:
        engine.images.get(name)
    except ImageNotFound:
        # docker-py calls an engine at a Unix socket `localhost`, and any other one by its address.
        local = str(engine.api.base_url).startswith("http+docker://localhost")
        room = room_here(engine, {}) if local else None
        _compare(
            f"{repository}@{manifest.digest[:19]}", _bytes(registry, repository, manifest, platform), room, listener
        )


def _bytes(registry: Registry, repository: str, manifest: Manifest | None, platform: str) -> int:
    """Return the compressed size of an image, or of an index's image for *platform*."""
    if manifest is not None and manifest.is_index:
        manifest = registry.get_manifest(repository, manifest.child_for(platform))
    return 0 if manifest is None else sum(manifest.layer_sizes)


def _compare(name: str, count: int, room: Room | None, listener: Listener) -> None:
    need = int(count * (1 + RATIO))  # layers are deleted only after they are unpacked
    if count < ANNOUNCED or room is None or room.free >= need:
        return
    text = (
        f"{name} has {size(count)} to pull, {size(need)} while it is unpacked, and {size(room.free)} are free under "
        f"{room.path}: if the engine lacks most of it, it will not fit. See what Docker keeps (docker system df), use a smaller "
        "base or a larger disk, or build elsewhere (`image.builder`)."
    )
    listener(Notice(text=text, level="warning"))


@dataclass(frozen=True, kw_only=True)
class Room:
    """The free space, in bytes, in the engine's folder of images."""

    path: str
    free: int


def room_here(engine: DockerClient, environ: Mapping[str, str]) -> Room | None:
    """Return what is free in the folder of a local engine, as the file system says; None elsewhere.

    A container of that engine does not have the folder; the container's own file system is the same one.
    """
    info = engine.info()
    if not environ.get("DOCKER_HOST", _UNIX).startswith(_UNIX) or "Docker Desktop" in info.get("OperatingSystem", ""):
        return None
    status = dict(info.get("DriverStatus") or ())
    containerd = "io.containerd" in status.get("driver-type", "")
    path = _CONTAINERD_ROOT if containerd else str(info["DockerRootDir"])
    seen = "/" if in_container() and not Path(info["DockerRootDir"]).is_dir() else path
    try:
        found = os.statvfs(seen)
    except OSError:
        return None
    return Room(path=path, free=found.f_bavail * found.f_frsize)
