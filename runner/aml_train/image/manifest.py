"""Manifests of images and indexes, byte for byte (OCI image specification 1.1; Docker image manifest version 2, schema 2)."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any, Final

from aml_train.errors import ImageError
from aml_train.references import is_digest

DOCKER_MANIFEST: Final = "application/vnd.docker.distribution.manifest.v2+json"
DOCKER_LIST: Final = "application/vnd.docker.distribution.manifest.list.v2+json"
OCI_MANIFEST: Final = "application/vnd.oci.image.manifest.v1+json"
OCI_INDEX: Final = "application/vnd.oci.image.index.v1+json"
_INDEXES: Final = (DOCKER_LIST, OCI_INDEX)


def sha256_digest(content: bytes) -> str:
    """Return ``sha256:…`` of *content*."""
    return "sha256:" + hashlib.sha256(content).hexdigest()


@dataclass(frozen=True, kw_only=True)
class Manifest:
    """A manifest or an index, byte for byte."""

    digest: str
    media_type: str
    content: bytes

    @property
    def document(self) -> dict[str, Any]:
        """The parsed contents."""
        try:
            document = json.loads(self.content)
        except ValueError as error:
            raise ImageError(f"the manifest {self.digest} is not JSON: {error}") from error
        if not isinstance(document, dict):
            raise ImageError(f"the manifest {self.digest} is not a JSON object")
        return document

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests rather than layers."""
        return self.media_type in _INDEXES

    @property
    def config_digest(self) -> str | None:
        """Digest of the image's configuration, which classic engines call the image id; None for an index."""
        return None if self.is_index else self._entries()[0]["digest"]

    @property
    def blobs(self) -> list[str]:
        """Digests of configuration and layers that the registry keeps; layers kept elsewhere (``urls``) are left out."""
        return [] if self.is_index else [entry["digest"] for entry in self._entries() if not entry.get("urls")]

    @property
    def children(self) -> list[str]:
        """Digests of the manifests that an index lists."""
        return [entry["digest"] for entry in self._entries()] if self.is_index else []

    @property
    def layer_bytes(self) -> int | None:
        """Compressed size of all layers; None for an index."""
        return None if self.is_index else sum(entry["size"] for entry in self._entries()[1:])

    def _entries(self) -> list[dict[str, Any]]:
        """Return what is listed: an index's manifests, or an image's configuration and then its layers."""
        document = self.document
        try:
            entries = document["manifests"] if self.is_index else [document["config"], *document["layers"]]
            if not all(is_digest(entry["digest"]) and isinstance(entry["size"], int) for entry in entries):
                raise ImageError(f"the manifest {self.digest} lists something without digest or size")
        except (KeyError, TypeError) as error:
            raise ImageError(f"the manifest {self.digest} is not an image's: {error!r}") from error
        return list(entries)


@dataclass(frozen=True, kw_only=True)
class ManifestHead:
    """What HEAD says of a manifest."""

    digest: str
    media_type: str
