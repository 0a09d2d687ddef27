"""The images that the release's images are built on, by digest.

Dockerfiles name them by tag, so that an engine without a registry can build them. A release looks the digests up, builds from
a copy of the Dockerfile with digests, and records them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final, Literal

from aml_train.core.references import DOCKER_HUB, ImageRef
from scripts.release.commands import ReleaseError
from scripts.release.registry import open_registry

if TYPE_CHECKING:
    from docker import DockerClient

Source = Literal["registry", "engine"]
_FROM: Final = re.compile(r"^FROM (?:--platform=\S+ )?(?P<image>\S+)(?: AS (?P<stage>\S+))?$", re.MULTILINE)


def find_bases(dockerfile: str) -> list[str]:
    """Return the images that *dockerfile* is built on, without its own stages."""
    found = list(_FROM.finditer(dockerfile))
    stages = {match["stage"] for match in found}
    return list(dict.fromkeys(match["image"] for match in found if match["image"] not in stages))


def pin_bases(dockerfile: str, digests: Mapping[str, str]) -> str:
    """Return *dockerfile* with the digest after each image that *digests* has."""

    def pinned(match: re.Match[str]) -> str:
        image = match["image"]
        return match[0].replace(image, f"{image}@{digests[image]}", 1) if image in digests else match[0]

    return _FROM.sub(pinned, dockerfile)


def look_up(image: str, environ: Mapping[str, str]) -> str:
    """Return the digest that a registry has for *image*.

    Raises:
        ReleaseError: the registry does not have it.
        ImageError: the registry does not answer, or refuses.
    """
    reference = ImageRef.parse(image)
    host = "registry-1.docker.io" if reference.registry == DOCKER_HUB else reference.registry
    with open_registry(host, environ, login=reference.registry) as registry:
        head = registry.head_manifest(reference.repository, reference.digest or reference.tag or "latest")
    if head is None:
        raise ReleaseError(f"The base {image} is not in the registry {host}. Correct the Dockerfile.")
    return head


def prepare_base(
    engine: DockerClient, image: str, source: Source, environ: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Return the digest of a base, and its layers as the engine has them.

    Args:
        engine: pulls the base.
        image: as a Dockerfile names it.
        source: ``registry``: the digest of the registry; ``engine``: the id of the engine's own image, for engines
            without a registry, whose releases no one else can build again.
    """
    from docker.errors import ImageNotFound

    if source == "registry":
        digest = look_up(image, environ)
        pulled = engine.images.pull(f"{ImageRef.parse(image).with_digest(digest).familiar}")
        return digest, list(pulled.attrs["RootFS"]["Layers"])
    try:
        present = engine.images.get(image)
    except ImageNotFound as error:
        raise ReleaseError(f"The engine does not have the base {image}. Pull it, or use --bases registry.") from error
    return str(present.id), list(present.attrs["RootFS"]["Layers"])
