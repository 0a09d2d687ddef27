"""Before anything is pulled: does the base fit the engine's disk? From manifests alone."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.errors import ImageError
from aml_train.core.events import Listener, Notice
from aml_train.core.text import size
from aml_train.image.base import docker_registries
from aml_train.image.data_root import Room, find_room
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import BaseImage

if TYPE_CHECKING:
    from docker import DockerClient

RATIO: Final = 2.2
"""How much larger layers are unpacked, a cautious estimate, as a base that would fit must not be refused: 3.4 was measured for Python
packages; NVIDIA's images of about 9 GB take about 20 GB."""
HEADROOM: Final = 2_000_000_000
"""Bytes that are wanted beyond the base, for what is installed on it."""
_BUSY: Final = "a disk usage operation is already running"
_PAUSES: Final = (1.0,) * 120
"""Seconds between asking an engine that answers somebody else; it takes seconds to look through many images."""


@dataclass(frozen=True, kw_only=True)
class Need:
    """What a base takes that is not in the engine yet.

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
        """Bytes that are taken while the pull goes on: what was pulled is deleted only after it was unpacked."""
        return self.compressed + self.unpacked


def check_disk(
    base: BaseImage, platform: str, *, engine: DockerClient, environ: Mapping[str, str], listener: Listener
) -> None:
    """Raise ImageError if the base certainly does not fit the engine's disk. Nothing is asked where the engine has it.

    Args:
        base: what is built FROM.
        platform: what is built for.
        engine: the engine that builds.
        environ: Docker's variables, for the engine's place and the registry's credentials.
        listener: told where it will be tight, or cannot be known.
    """
    if base.digest is None or base.image_id is not None:
        return
    name = base.reference.familiar
    try:
        with docker_registries(environ)(base.reference.registry) as registry:
            need = _need(registry, base, platform, engine)
    except ImageError as error:
        listener(Notice(text=f"Whether {name} fits the engine's disk cannot be known: {error.message}"))
        return
    if need.layers == 0 or _builder_has(engine, base):
        return
    judge_room(name, need, find_room(engine, environ), listener)


def judge_room(name: str, need: Need, room: Room, listener: Listener) -> None:
    """Compare; raise ImageError if *name* does not fit. Pure but for what it tells."""
    layers = "layer" if need.layers == 1 else "layers"
    what = (
        f"{name} has {need.layers} {layers} of {need.of} that the engine lacks: {size(need.compressed)} to pull, about "
        f"{size(need.unpacked)} unpacked, {size(need.peak)} while it is pulled"
    )
    if room.free is None:
        listener(Notice(text=f"{what}. Whether that fits under {room.path} cannot be known: {room.how}."))
    elif room.free < need.peak:
        raise ImageError(
            f"the base does not fit the engine's disk: {what}; {size(room.free)} are free under {room.path} ({room.how}), "
            f"{size(need.peak - room.free)} too little",
            hint="See what Docker keeps (docker system df) and free some of it (docker builder prune, docker image prune --all); "
            "use a smaller base or a runner with a larger disk; on a hosted runner of GitHub, delete toolchains that the job does not "
            "need (/usr/share/dotnet, /usr/local/lib/android, /opt/ghc) in a step before.",
        )
    elif room.free < need.peak + HEADROOM:
        text = f"{what}; {size(room.free)} are free under {room.path}: it will be tight."
        listener(Notice(text=text, level="warning"))


def _need(registry: Registry, base: BaseImage, platform: str, engine: DockerClient) -> Need:
    repository, digest = base.reference.repository, str(base.digest)
    manifest = _manifest(registry, repository, digest)
    if manifest.is_index:
        manifest = _manifest(registry, repository, child_for(manifest, platform))

    def fail(problem: str) -> ImageError:
        return ImageError(f"the configuration of {base.reference.familiar} is not an image's: it {problem}")

    try:
        document = Answer(decode(registry.get_blob(repository, str(manifest.config_digest))), fail)
    except UndecodableError as error:
        raise fail(str(error)) from error
    return missing(manifest.layer_sizes, document.list_of_texts("rootfs.diff_ids"), _chains(engine))


def _chains(engine: DockerClient) -> Iterator[list[str]]:
    """Yield the layers of each image that the engine has; others may remove images meanwhile."""
    from docker.errors import ImageNotFound

    for entry in engine.api.images(all=True):
        with contextlib.suppress(ImageNotFound):
            yield engine.images.get(entry["Id"]).attrs["RootFS"].get("Layers") or []


def _manifest(registry: Registry, repository: str, digest: str) -> Manifest:
    manifest = registry.get_manifest(repository, digest)
    if manifest is None:
        raise ImageError(f"the registry {registry.host} does not have {repository}@{digest}")
    return manifest


def child_for(index: Manifest, platform: str) -> str:
    """Return the digest of the manifest that *index* lists for *platform*, such as ``linux/amd64``. Pure.

    Raises:
        ImageError: if there is none.
    """
    wanted = platform.split("/")[:2]
    for entry in index.document["manifests"]:
        listed: Mapping[str, Any] = entry.get("platform") or {}
        if [listed.get("os"), listed.get("architecture")] == wanted:
            return str(entry["digest"])
    raise ImageError(f"the index {index.digest} has no image for {platform}")


def missing(sizes: Sequence[int], diff_ids: Sequence[str], chains: Iterable[Sequence[str]]) -> Need:
    """Return what is to be pulled: the layers above the longest beginning that one of *chains* shares. Pure.

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
    """Tell whether BuildKit has pulled the base earlier: it keeps that beside the engine's images."""
    return any(f"@{base.digest}" in str(entry.get("Description")) for entry in build_cache(engine))


def build_cache(engine: DockerClient, *, sleep: Callable[[float], None] = time.sleep) -> list[dict[str, Any]]:
    """Return what the engine says of its build cache, waiting for others who ask.

    Until version 23.0 an engine answers one at a time, and 500 to all others (moby 20.10, ``daemon/disk_usage.go``).

    Args:
        engine: the engine.
        sleep: waits so many seconds.

    Raises:
        docker.errors.APIError: the engine refuses, or others have asked all the time.
    """
    from docker.errors import APIError

    for pause in (*_PAUSES, None):
        try:
            return list(engine.df().get("BuildCache") or ())
        except APIError as error:
            if pause is None or _BUSY not in str(error.explanation or error):
                raise
            sleep(pause)
    raise AssertionError("unreachable")  # pragma: no cover - the last attempt returns or raises
