"""The registry's content, read from its files, as a plain one lists no manifests.

The files are those of the CNCF distribution registry's filesystem driver
(https://github.com/distribution/distribution/blob/v2.8.2/registry/storage/paths.go). Tags are read from them at each request, so
what is removed here is gone at once; layers are cached by the registry, and are left alone.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_INDEXES = ("application/vnd.docker.distribution.manifest.list.v2+json", "application/vnd.oci.image.index.v1+json")
_DEFAULT_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


@dataclass(frozen=True, kw_only=True)
class Tag:
    """A tag; times are seconds since the epoch."""

    name: str
    digest: str
    created: float
    updated: float


@dataclass(frozen=True, kw_only=True)
class StoredManifest:
    """A manifest of a repository; times are seconds since the epoch.

    Attributes:
        size: bytes of configuration and layers, or of the manifests that an index lists.
        tags: names of the tags that point to it.
        architecture, system: of the image; None where the configuration says none.
        children: of an index: digest, architecture and system of each manifest.
    """

    digest: str
    created: float
    updated: float
    media_type: str
    config_type: str | None
    size: int
    tags: tuple[str, ...]
    architecture: str | None
    system: str | None
    children: tuple[tuple[str, str | None, str | None], ...]


class RegistryStorage:
    """Reads one registry's storage, and takes tags and repositories away.

    Args:
        folder: the ``rootdirectory`` of the registry's filesystem driver.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._repositories = folder / "docker" / "registry" / "v2" / "repositories"
        self._blobs = folder / "docker" / "registry" / "v2" / "blobs"

    def repositories(self) -> list[str]:
        """Return the names of the repositories that have a manifest, in order."""
        found = []
        for place, folders, _ in os.walk(self._repositories):
            if "_manifests" in folders:
                name = str(Path(place).relative_to(self._repositories))
                if next(self._digests(name), None) is not None:
                    found.append(name)
            folders[:] = [folder for folder in folders if not folder.startswith("_")]
        return sorted(found)

    def exists(self, repository: str) -> bool:
        """Return whether the repository has a manifest."""
        return next(self._digests(repository), None) is not None

    def created(self, repository: str) -> float:
        """Return when the repository got its first manifest."""
        return (self._manifests(repository) / "revisions").stat().st_mtime

    def tags(self, repository: str) -> list[Tag]:
        """Return the repository's tags by name."""
        folder = self._manifests(repository) / "tags"
        names = sorted(path.name for path in folder.iterdir()) if folder.is_dir() else []
        return [tag for name in names if (tag := self.tag(repository, name)) is not None]

    def tag(self, repository: str, name: str) -> Tag | None:
        """Return one tag, None where there is none."""
        folder = self._manifests(repository) / "tags" / name
        link = folder / "current" / "link"
        try:
            digest, updated, created = link.read_text("ascii").strip(), link.stat().st_mtime, folder.stat().st_mtime
        except (FileNotFoundError, NotADirectoryError):
            return None
        if not digest:
            return None  # it is being written
        # The folder changes when the tag is first set, the link each time.
        return Tag(name=name, digest=digest, created=min(created, updated), updated=updated)

    def manifests(self, repository: str) -> list[StoredManifest]:
        """Return the repository's manifests by digest."""
        tags = self.tags(repository)
        digests = sorted(self._digests(repository))
        return [found for digest in digests if (found := self._manifest(repository, digest, tags)) is not None]

    def manifest(self, repository: str, digest: str) -> StoredManifest | None:
        """Return one manifest, None where there is none."""
        return self._manifest(repository, digest, self.tags(repository))

    def referrers(self, repository: str, digest: str) -> list[dict[str, Any]]:
        """Return the descriptors of the manifests whose ``subject`` is *digest*.

        https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md#listing-referrers
        """
        found = []
        for one in sorted(self._digests(repository)):
            try:
                content = self._content(one)
                document = json.loads(content)
            except (FileNotFoundError, ValueError):
                continue
            if not isinstance(document, dict) or (document.get("subject") or {}).get("digest") != digest:
                continue
            config = document.get("config") or {}
            entry = {
                "mediaType": document.get("mediaType") or _DEFAULT_TYPE,
                "digest": one,
                "size": len(content),
                "artifactType": document.get("artifactType") or config.get("mediaType"),
                "annotations": document.get("annotations"),
            }
            found.append({key: value for key, value in entry.items() if value})
        return found

    def untag(self, repository: str, tag: str) -> bool:
        """Delete a tag, not its manifest, as registry 3 does; False if there is none.

        The tag's folder is moved away before it is deleted, so that no client sees half a tag.
        """
        return self._remove(self._manifests(repository) / "tags" / tag)

    def delete_repository(self, repository: str) -> bool:
        """Take all manifests and tags of a repository away; False where there are none."""
        return self._remove(self._manifests(repository))

    def _remove(self, folder: Path) -> bool:
        trash = self._folder / f"trash-{secrets.token_hex(8)}"
        try:
            folder.rename(trash)
        except FileNotFoundError:
            return False
        shutil.rmtree(trash)
        return True

    def _manifests(self, repository: str) -> Path:
        return self._repositories / repository / "_manifests"

    def _digests(self, repository: str) -> Iterator[str]:
        folder = self._manifests(repository) / "revisions"
        for link in folder.glob("*/*/link"):
            yield f"{link.parent.parent.name}:{link.parent.name}"

    def _manifest(self, repository: str, digest: str, tags: list[Tag]) -> StoredManifest | None:
        algorithm, _, value = digest.partition(":")
        folder = self._manifests(repository) / "revisions" / algorithm / value
        try:
            created = folder.stat().st_mtime
            updated = (folder / "link").stat().st_mtime
            document = self._json(digest)
        except FileNotFoundError:
            return None
        mine = [tag for tag in tags if tag.digest == digest]
        media_type = str(document.get("mediaType") or _DEFAULT_TYPE)
        listed = document.get("manifests") or ()
        config = document.get("config") or {}
        image = {} if media_type in _INDEXES else self._config(config)
        entries = [*listed] if media_type in _INDEXES else [config, *(document.get("layers") or ())]
        return StoredManifest(
            digest=digest,
            created=min(created, updated),
            updated=max([updated, *(tag.updated for tag in mine)]),
            media_type=media_type,
            config_type=config.get("mediaType"),
            size=sum(int(entry.get("size", 0)) for entry in entries),
            tags=tuple(tag.name for tag in mine),
            architecture=image.get("architecture"),
            system=image.get("os"),
            children=tuple(
                (str(entry["digest"]), *(entry.get("platform", {}).get(key) for key in ("architecture", "os")))
                for entry in listed
            ),
        )

    def _config(self, config: dict[str, Any]) -> dict[str, Any]:
        """Return an image's configuration, empty for another artifact's."""
        kind = str(config.get("mediaType", ""))
        if not kind.startswith(("application/vnd.docker.container.image", "application/vnd.oci.image.config")):
            return {}
        try:
            return self._json(str(config["digest"]))
        except (FileNotFoundError, ValueError):
            return {}

    def _content(self, digest: str) -> bytes:
        algorithm, _, value = digest.partition(":")
        return (self._blobs / algorithm / value[:2] / value / "data").read_bytes()

    def _json(self, digest: str) -> dict[str, Any]:
        document = json.loads(self._content(digest))
        return document if isinstance(document, dict) else {}
