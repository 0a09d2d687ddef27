"""Manifests, byte for byte (OCI image specification 1.1; Docker's version 2, 2)."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import Final

from aml_train.core.answers import Answer, UndecodableError, decode
from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.references import is_digest

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
    def answer(self) -> Answer:
        """The parsed contents, which anyone who may push can have written."""

        def fail(problem: str) -> ImageError:
            return DamagedError(f"the manifest {self.digest} cannot be used: it {problem}")

        try:
            return Answer(decode(self.content), fail)
        except UndecodableError as error:
            raise fail(str(error)) from error

    @property
    def is_index(self) -> bool:
        """Whether it lists manifests rather than layers."""
        return self.media_type in _INDEXES

    @property
    def config_digest(self) -> str | None:
        """Digest of the configuration, the classic image id; None for an index."""
        return None if self.is_index else self._entries()[0].text("digest")

    @property
    def blobs(self) -> list[str]:
        """Digests of configuration and layers, but not of layers elsewhere (``urls``)."""
        return (
            [] if self.is_index else [one.text("digest") for one in self._entries() if not one.list_of_texts("urls")]
        )

    @property
    def children(self) -> list[str]:
        """Digests of the manifests that an index lists."""
        return [one.text("digest") for one in self._entries()] if self.is_index else []

    def child_for(self, platform: str) -> str:
        """Return the digest that an index lists for *platform*, such as ``linux/amd64``.

        Raises:
            ImageError: if there is none.
        """
        wanted = platform.split("/")[:2]
        for entry in self._entries():
            if [entry.optional_text("platform.os"), entry.optional_text("platform.architecture")] == wanted:
                return entry.text("digest")
        raise ImageError(f"the index {self.digest} has no image for {platform}")

    @property
    def layer_bytes(self) -> int | None:
        """Compressed size of all layers; None for an index."""
        return None if self.is_index else sum(self.layer_sizes)

    @property
    def layer_sizes(self) -> list[int]:
        """Compressed size of each layer; none for an index."""
        return [] if self.is_index else [one.whole("size") or 0 for one in self._entries()[1:]]

    def _entries(self) -> list[Answer]:
        """Return an index's manifests, or an image's configuration and then its layers."""
        document = self.answer
        wanted = ("manifests",) if self.is_index else ("config", "layers")
        if missing := [key for key in wanted if not document.has(key)]:
            raise ImageError(f"the manifest {self.digest} is not an image's: it lacks {', '.join(missing)}")
        entries = list(document.each(wanted[-1]))
        entries = entries if self.is_index else [document.at("config"), *entries]
        if not all(
            is_digest(one.text("digest")) and (one.whole("size") or 0) >= 0 and one.has("size") for one in entries
        ):
            raise DamagedError(f"the manifest {self.digest} lists something without digest or size")
        return entries
