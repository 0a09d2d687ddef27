"""The files of a base image that a build depends on, read without running it.

They are its distribution, and the InfiniBand drivers that it brings.
"""

from __future__ import annotations

import contextlib
import re
import shlex
import tarfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.docker import TooLargeError, fetch_file, open_chunks, remove_container
from aml_train.core.errors import ImageError
from aml_train.core.threads import temporary
from aml_train.image.inputs import BaseImage
from aml_train.image.leftovers import container_labels
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

if TYPE_CHECKING:
    from docker import DockerClient

Registries = Callable[..., Registry]
"""Makes a client for a registry's name, such as ``docker.io`` or ``nvcr.io``, perhaps one with other ``attempts``."""

_OS_RELEASE: Final = ("/usr/lib/os-release", "/etc/os-release")
_DPKG: Final = ("/var/lib/dpkg/status",)
_LIMIT: Final = 64 * 1024
_DPKG_LIMIT: Final = 32 << 20
_LAYERS_LIMIT: Final = 1 << 30
"""How much of a base's layers is read for its list of packages; NVIDIA's larger images name their drivers in the environment."""
_LEASE: Final = 120.0

_DRIVER_PACKAGES: Final = ("libibverbs1", "ibverbs-providers")
"""The verbs library and its providers, mlx5 among them: the packages without which there are no drivers."""


def parse_os_release(text: str) -> str | None:
    """Return the distribution, such as ``ubuntu22.04``, in NVIDIA's words; or None."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            try:
                fields[name] = "".join(shlex.split(value))
            except ValueError:  # an unbalanced quote: not a line of this format
                continue
    identity, version = fields.get("ID", "").lower(), fields.get("VERSION_ID", "")
    return f"{identity}{version}" if identity and version else None


def named_drivers(environment: Mapping[str, str]) -> str | None:
    """Return the drivers that an image's variables name, such as ``rdma-core 56.0``.

    NVIDIA's images name rdma-core in RDMACORE_VERSION, and in MOFED_VERSION in such as ``5.4-rdmacore56.0``.
    """
    if release := environment.get("RDMACORE_VERSION"):
        return f"rdma-core {release} (RDMACORE_VERSION)"
    if found := re.search(r"rdmacore(\d[\d.]*)", environment.get("MOFED_VERSION", "")):
        return f"rdma-core {found[1]} (MOFED_VERSION)"
    if re.match(r"\d", environment.get("MOFED_VERSION", "")):
        return f"MLNX_OFED {environment['MOFED_VERSION']} (MOFED_VERSION)"
    return None


def installed_drivers(status: str) -> str | None:
    """Return the driver packages in dpkg's list, or None if one is missing."""
    versions = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Package") in _DRIVER_PACKAGES and fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields.get("Version", "")
    if len(versions) < len(_DRIVER_PACKAGES):
        return None
    return f"{' and '.join(_DRIVER_PACKAGES)} {versions[_DRIVER_PACKAGES[0]]} (dpkg)"


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """The settings in an image's configuration.

    Attributes:
        user: the user that its processes run as; root if it names none.
        variables: its environment variables.
    """

    user: str
    variables: Mapping[str, str]

    @classmethod
    def of(cls, user: str | None, environment: Iterable[str]) -> ImageSettings:
        """Make them of an image's configuration; a group behind the user is left out."""
        variables = {name: value for name, _, value in (line.partition("=") for line in environment)}
        return cls(user=(user or "").partition(":")[0] or "root", variables=variables)


@dataclass(frozen=True, kw_only=True)
class BaseFiles:
    """Reads files of base images, in the engine or else in their registries.

    Attributes:
        platform: which of an index's images is meant.
        engine: the engine that will build, if one does.
        registries: makes a client for a base's registry.
    """

    platform: str
    engine: DockerClient | None
    registries: Registries

    def distribution(self, base: BaseImage) -> str:
        """Return the distribution of *base*, such as ``ubuntu22.04``.

        If the engine has the base, a container of it is made, never started, and its file read. Otherwise the base's first
        layer is read from its registry, up to the file: it is the distribution's own, and later layers update it in place.

        Raises:
            ImageError: if the base has no os-release, or it says no distribution; the hint names the key to give instead.
        """
        name = base.reference.familiar
        text = self._in_engine(base, _OS_RELEASE, _LIMIT)
        if text is None and base.digest is not None:
            with self._in_registry(base) as (registry, manifest):
                repository, layers = base.reference.repository, manifest.blobs[1:]
                text = find_in_layer(registry.stream_blob(repository, layers[0])) if layers else None
        found = parse_os_release(text) if text is not None else None
        if found is None:
            what = "has no /etc/os-release" if text is None else "has an /etc/os-release without ID and VERSION_ID"
            raise ImageError(
                f"the base {name} {what}, so its distribution is not known",
                hint="Give it: image.ofed.os, such as ubuntu22.04.",
            )
        return found

    def drivers(self, base: BaseImage) -> str | None:
        """Return the InfiniBand drivers that *base* brings, or None.

        Its variables name them (``RDMACORE_VERSION``, ``MOFED_VERSION``), or its list of packages has them. If the engine lacks
        the base, the list is read from its registry, in the latest layer that has one.

        Raises:
            ImageError: if that list cannot be found or read: "no drivers" would then be a guess.
        """
        name = base.reference.familiar
        named = named_drivers(self.settings(base).variables)
        if named is not None:
            return named
        if self.engine is not None and base.image_id is not None:
            status = self._in_engine(base, _DPKG, _DPKG_LIMIT)
        else:
            with self._in_registry(base) as (registry, manifest):
                status = _dpkg_status(registry, base.reference.repository, manifest)
        if status is None:
            raise ImageError(
                f"the drivers of the base {name} are not known: its variables name none, and its list of packages cannot be read",
                hint="Pull it first (docker pull), or write `ofed: none` or `ofed: distro`.",
            )
        return installed_drivers(status)

    def settings(self, base: BaseImage) -> ImageSettings:
        """Return what the configuration of *base* sets, from the engine or the registry."""
        if self.engine is not None and base.image_id is not None:
            config: Mapping[str, Any] = self.engine.images.get(base.image_id).attrs["Config"]
            return ImageSettings.of(config.get("User"), config.get("Env") or ())
        with self._in_registry(base) as (registry, manifest):
            found = registry.image_config(base.reference.repository, manifest, self.platform)
        return ImageSettings.of(found.optional_text("config.User"), found.list_of_texts("config.Env"))

    def _in_engine(self, base: BaseImage, paths: Collection[str], limit: int) -> str | None:
        """Return the first of *paths* that the base in the engine has; None for none."""

        if self.engine is None or base.image_id is None:
            return None
        create = partial(
            self.engine.containers.create,
            base.image_id,
            command=["true"],
            labels=container_labels(self.engine, "base-files", _LEASE),
            network_mode="none",
        )
        with temporary(create, remove_container) as container:
            for path in paths:
                with contextlib.suppress(TooLargeError, ValueError):  # a link
                    if (content := fetch_file(container, path)) is not None:
                        return content[:limit].decode(errors="replace")
        return None

    @contextlib.contextmanager
    def _in_registry(self, base: BaseImage) -> Iterator[tuple[Registry, Manifest]]:
        """Open the base's registry, with the manifest of the platform's image."""
        repository, digest = base.reference.repository, str(base.digest)
        with self.registries(base.reference.registry) as registry:
            manifest = registry.get_manifest(repository, digest)
            if manifest is not None and manifest.is_index:
                try:
                    child = manifest.child_for(self.platform)
                except ImageError as error:
                    what = f"the base {repository}@{digest} is not made for {self.platform}"
                    raise ImageError(what, hint="Give image.platform.") from error
                manifest = registry.get_manifest(repository, child)
            if manifest is None:
                raise ImageError(f"the base {repository}@{digest} is not in the registry {base.reference.registry}")
            yield registry, manifest


def _dpkg_status(registry: Registry, repository: str, manifest: Manifest) -> str | None:
    """Return dpkg's list in the latest layer that has one; None if unknown."""
    compressed = (one.optional_text("mediaType") or "" for one in manifest.answer.each("layers"))
    if sum(manifest.layer_sizes) > _LAYERS_LIMIT or any("zstd" in kind for kind in compressed):
        return None
    for layer in reversed(manifest.blobs[1:]):
        text = find_in_layer(registry.stream_blob(repository, layer), _DPKG, _DPKG_LIMIT)
        if text is not None:
            return text
    return None


def find_in_layer(chunks: Iterable[bytes], paths: Collection[str] = _OS_RELEASE, limit: int = _LIMIT) -> str | None:
    """Return the text of the first of *paths* in a layer (tar, perhaps gzip), or None."""
    wanted = {path.lstrip("/") for path in paths}
    try:
        with tarfile.open(fileobj=open_chunks(iter(chunks)), mode="r|*") as archive:
            for member in archive:
                if member.isfile() and member.name.removeprefix("./") in wanted:
                    file = archive.extractfile(member)
                    return file.read(limit).decode(errors="replace") if file is not None else None
    except (tarfile.TarError, EOFError):  # zstd, or no layer at all: then nothing is known
        return None
    except TypeError:  # Python's own fault with a layer that ends within the header of gzip
        return None
    return None
