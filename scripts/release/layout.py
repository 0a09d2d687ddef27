"""An image as an OCI layout in one tar file that is the same for each build.

``docker save`` gives the engine's layers. They are written again with times no newer than the commit's, and compressed here,
so that the manifest's digest is known before anything is pushed, and is the same in every registry.

OCI image specification 1.1. The file also has the ``manifest.json`` by which every engine loads it.
"""

from __future__ import annotations

import contextlib
import datetime
import gzip
import hashlib
import io
import json
import tarfile
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, Final, cast

from scripts.release.commands import ReleaseError

MANIFEST_TYPE: Final = "application/vnd.oci.image.manifest.v1+json"
_CONFIG_TYPE: Final = "application/vnd.oci.image.config.v1+json"
_LAYER_TYPE: Final = "application/vnd.oci.image.layer.v1.tar+gzip"
_CHUNK: Final = 1 << 20
_GZIP: Final = b"\x1f\x8b"
#: Of an image's configuration. Engines add others, with the names of containers and builders.
_KEPT: Final = ("architecture", "os", "variant", "config")
_OF_THE_BUILDER: Final = ("Hostname", "Domainname", "Image", "AttachStdin", "AttachStdout", "AttachStderr", "Tty")


@dataclass(frozen=True, kw_only=True)
class Blob:
    """A part of an image, by its digest."""

    digest: str
    size: int

    @property
    def path(self) -> str:
        """Its place in a layout."""
        return f"blobs/{self.digest.replace(':', '/')}"


@dataclass(frozen=True, kw_only=True)
class Layout:
    """An image in a file that :func:`write_layout` wrote."""

    file: Path
    manifest: bytes = field(repr=False)

    @classmethod
    def open(cls, file: Path) -> Layout:
        """Read the manifest in *file*.

        Raises:
            ReleaseError: *file* is not such a layout.
        """
        try:
            with tarfile.open(file, "r:") as archive:
                index = json.loads(_member(archive, "index.json"))
                digest = index["manifests"][0]["digest"]
                manifest = _member(archive, Blob(digest=digest, size=0).path)
        except (OSError, tarfile.TarError, LookupError, ValueError) as error:
            raise ReleaseError(f"{file} is not the layout of an image: {error}. Build the release again.") from error
        if digest_of(manifest) != digest:
            raise ReleaseError(f"{file} is damaged: the manifest {digest} has another digest.")
        return cls(file=file, manifest=manifest)

    @property
    def digest(self) -> str:
        """The image's digest."""
        return digest_of(self.manifest)

    @property
    def blobs(self) -> list[Blob]:
        """The configuration and then the layers."""
        document = json.loads(self.manifest)
        return [Blob(digest=one["digest"], size=one["size"]) for one in (document["config"], *document["layers"])]

    def read(self, blob: Blob) -> bytes:
        """Return a blob's contents, verified.

        Raises:
            ReleaseError: they have another digest, or are missing.
        """
        try:
            with tarfile.open(self.file, "r:") as archive:
                content = _member(archive, blob.path)
        except (KeyError, tarfile.TarError) as error:
            raise ReleaseError(f"{self.file} lacks {blob.digest}: {error}. Build the release again.") from error
        if digest_of(content) != blob.digest:
            raise ReleaseError(f"{self.file} is damaged: {blob.digest} has another digest.")
        return content


def digest_of(content: bytes) -> str:
    """Return ``sha256:…`` of *content*."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


def write_layout(saved: Path, target: Path, *, epoch: int, base_layers: Sequence[str], name: str) -> Layout:
    """Write the one image of *saved* as a layout into *target*.

    Args:
        saved: the file of ``docker save``.
        epoch: the newest time of a file in the layers, in seconds since 1970.
        base_layers: uncompressed digests of the base's layers, which stay as they are.
        name: ``NAME:TAG`` that an engine gives to the image when it loads the file.
    """
    with tarfile.open(saved, "r:") as archive, tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        (entry,) = json.loads(_member(archive, "manifest.json"))
        config = json.loads(_member(archive, entry["Config"]))
        blobs: list[tuple[Blob, Path]] = []
        plain_digests: list[str] = []
        for path, known in zip(entry["Layers"], config["rootfs"]["diff_ids"], strict=True):
            part = Path(scratch, str(len(blobs)))
            blob, plain = _write_layer(archive, path, part, None if known in base_layers else epoch)
            blobs.append((blob, part))
            plain_digests.append(plain)
        content = _json(_configuration(config, plain_digests, epoch))
        manifest = _json(_manifest(content, [blob for blob, _ in blobs]))
        _write_archive(target, content, manifest, blobs, epoch=epoch, name=name)
    return Layout(file=target, manifest=manifest)


def _configuration(config: Mapping[str, Any], layers: Sequence[str], epoch: int) -> dict[str, Any]:
    """Return *config* without the builder's names, and with no time after *epoch*."""
    newest = datetime.datetime.fromtimestamp(epoch, datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    kept = {key: config[key] for key in _KEPT if key in config}
    kept["config"] = {key: value for key, value in config["config"].items() if key not in _OF_THE_BUILDER}
    history = [{**one, "created": min(one.get("created", newest), newest)} for one in config.get("history", ())]
    return {
        **kept,
        "created": newest,
        "history": history,
        "rootfs": {"type": "layers", "diff_ids": list(layers)},
    }


def _manifest(config: bytes, layers: Sequence[Blob]) -> dict[str, Any]:
    return {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": _CONFIG_TYPE, "digest": digest_of(config), "size": len(config)},
        "layers": [{"mediaType": _LAYER_TYPE, "digest": one.digest, "size": one.size} for one in layers],
    }


def _write_layer(archive: tarfile.TarFile, path: str, target: Path, epoch: int | None) -> tuple[Blob, str]:
    """Compress a layer into *target*; return it and the digest of its plain form.

    *epoch* None keeps the layer's own times.
    """
    with _plain(archive, path) as source, target.open("wb") as raw:
        compressed = _Hashing(raw)
        with gzip.GzipFile(
            filename="", mode="wb", compresslevel=6, fileobj=cast("IO[bytes]", compressed), mtime=0
        ) as out:
            plain = _Hashing(out)
            if epoch is None:
                while chunk := source.read(_CHUNK):
                    plain.write(chunk)
            else:
                _rewrite(source, plain, epoch)
    return Blob(digest=compressed.digest, size=target.stat().st_size), plain.digest


def _rewrite(source: IO[bytes], target: _Hashing, epoch: int) -> None:
    """Copy a layer's tar; no file is newer than *epoch*."""
    options: dict[str, Any] = {"encoding": "utf-8", "errors": "surrogateescape"}
    with (
        tarfile.open(fileobj=source, mode="r|", **options) as old,
        tarfile.open(fileobj=cast("IO[bytes]", target), mode="w|", format=tarfile.PAX_FORMAT, **options) as new,
    ):
        for member in old:
            member.mtime = min(int(member.mtime), epoch)
            for key in ("mtime", "atime", "ctime"):
                member.pax_headers.pop(key, None)  # type: ignore[attr-defined]
            new.addfile(member, old.extractfile(member) if member.isreg() else None)


@contextlib.contextmanager
def _plain(archive: tarfile.TarFile, path: str) -> Iterator[IO[bytes]]:
    """Open a layer's tar, which an engine may have saved compressed."""
    stored = archive.extractfile(path)
    if stored is None:
        raise ReleaseError(f"docker save wrote no layer {path}")
    with stored:
        magic = stored.read(2)
        stored.seek(0)
        if magic == _GZIP:
            with gzip.open(stored) as plain:
                yield cast("IO[bytes]", plain)
        else:
            yield stored


class _Hashing(io.RawIOBase):
    """Passes on what is written, and keeps its SHA-256."""

    def __init__(self, target: Any) -> None:
        self._target = target
        self._hash = hashlib.sha256()

    @property
    def digest(self) -> str:
        """The digest of everything that was written."""
        return f"sha256:{self._hash.hexdigest()}"

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        self._hash.update(data)
        self._target.write(data)
        return len(data)


def _write_archive(
    target: Path, config: bytes, manifest: bytes, layers: Sequence[tuple[Blob, Path]], *, epoch: int, name: str
) -> None:
    """Write the layout's files in one order, with one time and owner."""
    document = json.loads(config)
    platform = {key: document[key] for key in ("architecture", "os", "variant") if key in document}
    names = {"io.containerd.image.name": name, "org.opencontainers.image.ref.name": name.rpartition(":")[2]}
    described = {"mediaType": MANIFEST_TYPE, "digest": digest_of(manifest), "size": len(manifest)}
    index = {"schemaVersion": 2, "manifests": [{**described, "annotations": names, "platform": platform}]}
    parts = [Blob(digest=digest_of(one), size=len(one)).path for one in (config, manifest)]
    paths = [blob.path for blob, _ in layers]
    loaded = [{"Config": parts[0], "RepoTags": [name], "Layers": paths}]
    small = {
        "oci-layout": _json({"imageLayoutVersion": "1.0.0"}),
        "index.json": _json(index),
        "manifest.json": _json(loaded),
        parts[0]: config,
        parts[1]: manifest,
    }
    with tarfile.open(target, "w:", format=tarfile.PAX_FORMAT) as archive:
        for folder in ("blobs", "blobs/sha256"):  # which some readers do not make by themselves
            archive.addfile(_info(folder, 0, epoch, folder=True))
        for path, content in small.items():
            archive.addfile(_info(path, len(content), epoch), io.BytesIO(content))
        for path, part in dict(zip(paths, (part for _, part in layers), strict=True)).items():
            with part.open("rb") as stream:
                archive.addfile(_info(path, part.stat().st_size, epoch), stream)


def _info(path: str, size: int, epoch: int, *, folder: bool = False) -> tarfile.TarInfo:
    info = tarfile.TarInfo(path)
    info.size, info.mtime, info.mode = size, epoch, 0o755 if folder else 0o644
    info.type = tarfile.DIRTYPE if folder else tarfile.REGTYPE
    return info


def _member(archive: tarfile.TarFile, path: str) -> bytes:
    stream = archive.extractfile(path)
    if stream is None:
        raise KeyError(path)
    with stream:
        return stream.read()


def _json(value: object) -> bytes:
    return json.dumps(value, sort_keys=True, separators=(",", ":")).encode()
