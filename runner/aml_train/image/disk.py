"""Check, from manifests alone, that the base fits the engine's disk."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from docker.errors import APIError, ImageNotFound

from aml_train.core.docker import in_container, remove_container
from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice
from aml_train.core.text import size
from aml_train.core.threads import temporary
from aml_train.image.base import docker_registries
from aml_train.image.inputs import BaseImage
from aml_train.image.leftovers import container_labels
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

if TYPE_CHECKING:
    from docker import DockerClient

_MOST_DIGITS: Final = 20
RATIO: Final = 2.2
"""How much larger layers are unpacked, a cautious estimate, as a base that would fit must not be refused: 3.4 was measured for Python
packages; NVIDIA's images of about 9 GB take about 20 GB."""
HEADROOM: Final = 2_000_000_000
"""Bytes that are wanted beyond the base, for what is installed on it."""
ANNOUNCED: Final = 500_000_000
"""Bytes of a pull from which on its size is reported and the engine's disk is looked at."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """The layers of a base that the engine lacks.

    Attributes:
        compressed: bytes of the layers to be pulled.
        layers: how many they are.
        of: how many the base has.
    """

    compressed: int
    layers: int
    of: int

    @property
    def unpacked(self) -> int:
        """Bytes that the layers take when they are unpacked; an estimate."""
        return int(self.compressed * RATIO)

    @property
    def peak(self) -> int:
        """Bytes during the pull: layers are deleted only after they are unpacked."""
        return self.compressed + self.unpacked


def check_disk(
    base: BaseImage, platform: str, *, engine: DockerClient, environ: Mapping[str, str], listener: Listener
) -> None:
    """Raise ImageError if the base certainly does not fit the engine's disk.

    Nothing is queried if the engine has the base.

    Args:
        environ: Docker's variables, for the engine's place and the registry's credentials.
        listener: receives a warning if room is short, or a notice if it is unknown.
    """
    if base.digest is None or base.image_id is not None:
        return
    name = base.reference.familiar
    try:
        with docker_registries(environ)(base.reference.registry) as registry:
            repository, digest = base.reference.repository, base.digest
            need = _need(registry, repository, digest, registry.get_manifest(repository, digest), platform, engine)
    except ImageError as error:
        listener(Notice(text=f"Whether {name} fits the engine's disk cannot be known: {error.message}"))
        return
    if need.layers == 0 or _builder_has(engine, base):
        return
    judge_room(name, need, find_room(engine, environ), listener)


def check_pull(
    registry: Registry,
    repository: str,
    manifest: Manifest,
    platform: str,
    *,
    engine: DockerClient,
    listener: Listener,
) -> None:
    """Raise ImageError if an image certainly does not fit the engine's disk.

    A large pull is announced, whether it fits or not.

    Args:
        registry: has the image.
        repository: of the image.
        manifest: of the image, or an index.
        platform: which of an index's images is meant.
        engine: is about to pull it.
        listener: receives how much is pulled, and a warning if room is short.
    """

    name = f"{registry.host}/{repository}@{manifest.digest}"
    with contextlib.suppress(ImageNotFound):
        engine.images.get(name)
        return
    try:
        need = _need(registry, repository, manifest.digest, manifest, platform, engine)
    except ImageError as error:
        # The pull reports better what the registry has lost.
        listener(Notice(text=f"Whether {name} fits the engine's disk cannot be known: {error.message}"))
        return
    if need.peak < ANNOUNCED:
        return
    listener(Notice(text=f"{repository}@{manifest.digest[:19]} is pulled to be tested: {size(need.compressed)}."))
    # docker-py calls an engine at a Unix socket `localhost`, and any other one by its address.
    local = str(engine.api.base_url).startswith("http+docker://localhost")
    environ = {} if local else {"DOCKER_HOST": str(engine.api.base_url)}
    judge_room(repository, need, find_room(engine, environ), listener, base=False)


def judge_room(name: str, need: Need, room: Room, listener: Listener, *, base: bool = True) -> None:
    """Compare, and report; raise ImageError if *name* does not fit."""
    layers = "layer" if need.layers == 1 else "layers"
    what = (
        f"{name} has {need.layers} {layers} of {need.of} that the engine lacks: {size(need.compressed)} to pull, about "
        f"{size(need.unpacked)} unpacked, {size(need.peak)} while it is pulled"
    )
    if room.free is None:
        listener(Notice(text=f"{what}. Whether that fits under {room.path} cannot be known: {room.how}."))
    elif room.free < need.peak:
        misfit = f"the base does not fit the engine's disk: {what}"
        if not base:
            misfit = misfit.replace("the base", "the image", 1)
        raise ImageError(
            f"{misfit}; {size(room.free)} are free under {room.path} ({room.how}), "
            f"{size(need.peak - room.free)} too little",
            hint="See what Docker keeps (docker system df) and free some of it (docker builder prune, docker image prune --all); "
            "use a smaller base or a runner with a larger disk, or build elsewhere (`image.builder`); on a hosted runner of GitHub, "
            "delete toolchains that the job does not need: docs/workflows.md.",
        )
    elif room.free < need.peak + HEADROOM:
        text = f"{what}; {size(room.free)} are free under {room.path}: it will be tight."
        listener(Notice(text=text, level="warning"))


def _need(
    registry: Registry, repository: str, digest: str, manifest: Manifest | None, platform: str, engine: DockerClient
) -> Need:
    """Return what the engine lacks of *manifest*, or of an index's image for *platform*."""
    if manifest is not None and manifest.is_index:
        digest = manifest.child_for(platform)
        manifest = registry.get_manifest(repository, digest)
    if manifest is None:
        raise ImageError(f"the registry {registry.host} does not have {repository}@{digest}")
    layers = registry.image_config(repository, manifest, platform).list_of_texts("rootfs.diff_ids")
    return missing(manifest.layer_sizes, layers, _chains(engine))


def _chains(engine: DockerClient) -> Iterator[list[str]]:
    """Yield the layers of each image of the engine, which others may remove meanwhile."""

    for entry in engine.api.images(all=True):
        with contextlib.suppress(ImageNotFound):
            yield engine.images.get(entry["Id"]).attrs["RootFS"].get("Layers") or []


def missing(sizes: Sequence[int], diff_ids: Sequence[str], chains: Iterable[Sequence[str]]) -> Need:
    """Return the layers above the longest beginning that one of *chains* shares. Pure.

    Engines keep a layer together with all that is below it, so a layer counts as there only with what is below.

    Args:
        sizes: of the base's layers, compressed.
        diff_ids: of the same layers.
        chains: the layers of each image that the engine has.
    """
    shared = 0
    for chain in chains:
        same = 0
        for one, other in zip(diff_ids, chain, strict=False):
            if one != other:
                break
            same += 1
        shared = max(shared, same)
    return Need(compressed=sum(sizes[shared:]), layers=len(sizes) - shared, of=len(sizes))


def _builder_has(engine: DockerClient, base: BaseImage) -> bool:
    """Return whether BuildKit's cache, which is separate, has the base, or may have it.

    Until version 23.0 an engine tells one client at a time, and refuses all others.
    """
    try:
        cached = engine.df().get("BuildCache") or ()
    except APIError:
        return True
    return any(f"@{base.digest}" in str(entry.get("Description")) for entry in cached)


_LEASE: Final = 120.0
_TRIED: Final = 3
_UNIX: Final = "unix://"
# The folder of containerd when it is the engine's image store (https://docs.docker.com/engine/storage/containerd/).
_CONTAINERD_ROOT: Final = "/var/lib/containerd"


@dataclass(frozen=True, kw_only=True)
class Room:
    """The free space in the engine's folder of images.

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

    The engine does not report it. See :func:`room_here`; elsewhere a container of an existing image reports it.

    Args:
        engine: the engine.
        environ: where ``DOCKER_HOST`` may say that it is elsewhere.
    """
    return room_here(engine, environ) or _ask_container(engine, _store(engine.info()))


def room_here(engine: DockerClient, environ: Mapping[str, str]) -> Room | None:
    """Return what is free as far as it is known without a container; None elsewhere.

    The system reports it for a local engine's folder; from inside one of its containers the file system of that container is
    the same one.
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
    return None


def _store(info: Mapping[str, Any]) -> str:
    """Return the folder that images are kept in."""
    status = dict(info.get("DriverStatus") or ())
    return _CONTAINERD_ROOT if "io.containerd" in status.get("driver-type", "") else str(info["DockerRootDir"])


def _has_images(engine: DockerClient, info: Mapping[str, Any]) -> bool:
    """Return whether the engine's folder, with its images, is visible in here.

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
    """Return the folder that an overlay at ``/`` in mountinfo writes to, or "". Pure."""
    for line in mounts.splitlines():
        before, _, after = line.partition(" - ")
        if before.split()[4:5] == ["/"] and after.startswith("overlay "):
            found = re.search(r"upperdir=([^,\s]+)", after)
            return found[1] if found else ""
    return ""


def _ask_container(engine: DockerClient, path: str) -> Room:
    """Run df in a container: its file system is that of the images."""

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
            tried.append(f"{name}: its df reported nothing")
    why = "; ".join(tried) or "it has no image whose container could report it"
    return Room(path=path, free=None, how=f"the engine is elsewhere, and {why}")


def parse_df(text: str) -> int | None:
    """Return the free bytes of ``df -Pk`` (POSIX): line 2, column 4. Pure."""
    lines = text.splitlines()
    columns = lines[1].split() if len(lines) > 1 else []
    free = columns[3] if len(columns) > 3 else ""
    return int(free) * 1024 if free.isdecimal() and len(free) < _MOST_DIGITS else None
