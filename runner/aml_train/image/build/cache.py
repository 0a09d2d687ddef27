"""The cache of builds in the registry, for engines without any images."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from aml_train.image.registry.auth import RegistryAuth

if TYPE_CHECKING:
    from docker import DockerClient

CACHE_TAG: Final = "cache"
"""Tag of the image that was built last, whose configuration carries the inline cache."""

LAYERS_TAG: Final = "cache-layers"
"""Tag of the artefact that ``type=registry`` leaves: the layers of every stage."""


@dataclass(frozen=True, kw_only=True)
class Cache:
    """The places in which a build looks for earlier ones, and leaves its own.

    Attributes:
        kind: ``inline``: in the image itself, which every BuildKit can; ``registry``: a separate artefact, which needs a
            builder on containerd's image store; None for neither.
        repository: the released images' repository, as the engine names it.
        found: whether there is anything there to look at.
        logins: host (and port) → credentials, for the ``docker`` command: of that repository, and of what is built on.
    """

    kind: Literal["inline", "registry"] | None = None
    repository: str = ""
    found: bool = False
    logins: Mapping[str, RegistryAuth] = field(default_factory=dict)

    def arguments(self, *, no_cache: bool = False) -> list[str]:
        """Return the options for ``docker build``. Pure."""
        if self.kind is None:
            return []
        if self.kind == "inline":
            look = [f"--cache-from={self.repository}:{CACHE_TAG}"] if self.found and not no_cache else []
            return [*look, "--build-arg=BUILDKIT_INLINE_CACHE=1"]
        place = f"type=registry,ref={self.repository}:{LAYERS_TAG}"
        look = [f"--cache-from={place}"] if self.found and not no_cache else []
        return [*look, f"--cache-to={place},mode=max,image-manifest=true,oci-mediatypes=true"]


def cache_kind(buildx: bool, driver_status: Sequence[Sequence[Any]] | None) -> Literal["inline", "registry"]:
    """Return the cache that a builder can leave: inline, or in a registry.

    Args:
        buildx: whether the buildx plugin builds.
        driver_status: ``DriverStatus`` of the engine's information.

    Source: https://docs.docker.com/build/cache/backends/ ("docker driver").
    """
    status = {str(key): str(value) for key, value in driver_status or ()}
    return "registry" if buildx and "containerd" in status.get("driver-type", "") else "inline"


def engine_cache_kind(engine: DockerClient, *, buildx: bool) -> Literal["inline", "registry"]:
    """Return :func:`cache_kind` of *engine*."""
    if not buildx:
        return "inline"
    information: Mapping[str, Any] = engine.info()
    return cache_kind(buildx, information.get("DriverStatus"))
