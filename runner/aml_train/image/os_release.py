"""Which distribution an image is: read from its ``/etc/os-release``, without running it.

The file's format: https://www.freedesktop.org/software/systemd/man/latest/os-release.html.
"""

from __future__ import annotations

import io
import shlex
import tarfile
import zlib
from collections.abc import Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final

from aml_train.core.docker import remove_container
from aml_train.core.errors import ImageError
from aml_train.core.threads import temporary
from aml_train.image.base import Registries
from aml_train.image.registry.client import Registry
from aml_train.image.spec import BaseImage

if TYPE_CHECKING:
    from docker import DockerClient

_PATHS: Final = ("/usr/lib/os-release", "/etc/os-release")
_LIMIT: Final = 64 * 1024
_LEASE: Final = 120.0


def parse_os_release(text: str) -> str | None:
    """Return distribution and version in NVIDIA's words, such as ``ubuntu22.04`` or ``debian12``; None where it says neither."""
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


def read_os(base: BaseImage, *, platform: str, engine: DockerClient, registries: Registries) -> str:
    """Return the distribution of *base*, such as ``ubuntu22.04``.

    Where the engine has the base, a container of it is made, never started, and its file read. Otherwise the base's first
    layer is read from its registry, up to the file: it is the distribution's own, and later layers update it in place.

    Args:
        base: the resolved base.
        platform: which of an index's images is meant.
        engine: the engine that will build.
        registries: makes a client for the base's registry.

    Raises:
        ImageError: if the base has no os-release, or it says no distribution; the hint names the key to give instead.
    """
    name = base.reference.familiar
    text = _from_engine(base.image_id, engine) if base.image_id is not None else None
    if text is None and base.digest is not None:
        with registries(base.reference.registry) as registry:
            text = _from_registry(registry, base.reference.repository, base.digest, platform)
    found = parse_os_release(text) if text is not None else None
    if found is None:
        what = "has no /etc/os-release" if text is None else "has an /etc/os-release without ID and VERSION_ID"
        raise ImageError(
            f"the base {name} {what}, so its distribution is not known",
            hint="Give it: image.ofed.os, such as ubuntu22.04.",
        )
    return found


def _from_engine(image_id: str, engine: DockerClient) -> str | None:
    from docker.errors import NotFound

    from aml_train.image.leftovers import container_labels

    create = partial(
        engine.containers.create,
        image_id,
        command=["true"],
        labels=container_labels(engine, "os-release", _LEASE),
        network_mode="none",
    )
    with temporary(create, remove_container) as container:
        for path in _PATHS:
            try:
                stream, _ = container.get_archive(path)
            except NotFound:
                continue
            content = b"".join(stream)
            with tarfile.open(fileobj=io.BytesIO(content)) as archive:
                for member in archive:
                    file = archive.extractfile(member) if member.isfile() else None
                    if file is not None:
                        return file.read(_LIMIT).decode(errors="replace")
    return None


def _from_registry(registry: Registry, repository: str, digest: str, platform: str) -> str | None:
    manifest = registry.get_manifest(repository, digest)
    if manifest is not None and manifest.is_index:
        os, _, architecture = platform.partition("/")
        for entry in manifest.document["manifests"]:
            of = entry.get("platform", {})
            if (of.get("os"), of.get("architecture")) == (os, architecture):
                manifest = registry.get_manifest(repository, entry["digest"])
                break
        else:
            raise ImageError(
                f"the base {repository}@{digest} is not made for {platform}", hint="Give image.platform."
            )
    layers = manifest.blobs[1:] if manifest is not None else []
    return find_in_layer(registry.stream_blob(repository, layers[0])) if layers else None


def find_in_layer(chunks: Iterable[bytes]) -> str | None:
    """Return the text of os-release in a layer (tar, perhaps gzip), reading no further than it; None where it is not there."""
    wanted = {path.lstrip("/") for path in _PATHS}
    try:
        with tarfile.open(fileobj=_Stream(_inflated(chunks)), mode="r|") as archive:
            for member in archive:
                if member.isfile() and member.name.removeprefix("./") in wanted:
                    file = archive.extractfile(member)
                    return file.read(_LIMIT).decode(errors="replace") if file is not None else None
    except (tarfile.TarError, zlib.error):  # zstd, or no layer at all: then nothing is known
        return None
    return None


def _inflated(chunks: Iterable[bytes]) -> Iterator[bytes]:
    inflate = None
    for number, chunk in enumerate(chunks):
        if number == 0 and chunk[:2] == b"\x1f\x8b":
            inflate = zlib.decompressobj(wbits=31)
        yield inflate.decompress(chunk) if inflate is not None else chunk


class _Stream(io.RawIOBase):
    """Reads an iterator of bytes as a file."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks, self._rest = chunks, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        parts, have = [self._rest], len(self._rest)
        for chunk in self._chunks if size < 0 or have < size else ():
            parts.append(chunk)
            have += len(chunk)
            if 0 <= size <= have:
                break
        whole = b"".join(parts)
        end = len(whole) if size < 0 else size
        self._rest = whole[end:]
        return whole[:end]
