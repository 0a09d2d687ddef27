"""Copy an image from one registry to another, byte for byte, with all that refers to it.

Everything is addressed by its digest: a copy that was interrupted is continued by the same call, and a complete one changes
nothing.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.references import is_digest
from aml_train.core.threads import map_parallel
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest
from aml_train.image.registry.referrers import enter_referrer, entries_of


@dataclass(frozen=True, kw_only=True)
class ImageCopy:
    """Copies within *repository*, which has the same name in both registries."""

    source: Registry
    target: Registry
    repository: str

    def copy(self, digest: str, *, tags: Sequence[str], documents: Iterable[str] = ()) -> None:
        """Copy the image *digest*, its referrers, and the documents under some tags.

        Args:
            digest: of its manifest or index; the target's is the same.
            tags: names for it in the target, besides its digest.
            documents: tags of the source, such as those of test records, which the target gets, too.

        Raises:
            ImageError: a registry refuses or does not answer, or the source does not have the image.
            DamagedError: something has another digest than its name says.
        """
        image = self._copied(digest, [digest, *tags])
        for entry in entries_of(self.source, self.repository, digest):
            name = entry.text("digest")
            if self.source.head_manifest(self.repository, name) is None:
                continue  # a list under a tag may name what is gone
            self._copied(name, [name])
            if self.target.referrers(self.repository, image.digest) is None:
                enter_referrer(self.target, self.repository, image.digest, entry.mapping())
        for tag in documents:
            if self.source.head_manifest(self.repository, tag) is not None:
                self._copied(tag, [tag])

    def _copied(self, reference: str, names: Sequence[str]) -> Manifest:
        """Copy what *reference* names, an index's children first, and put it under *names*."""
        manifest = self.source.get_manifest(self.repository, reference)
        if manifest is None:
            raise ImageError(f"{self.source.host} does not have {self.repository}@{reference} any more")
        for child in manifest.children:
            self._copied(child, [child])
        map_parallel(self._copy_blob, dict.fromkeys(manifest.blobs), "copy-image")
        for name in names:
            # A tag that is locked, or the digest, has these very bytes already.
            if self.target.head_manifest(self.repository, name) != manifest.digest:
                self.target.put_manifest(self.repository, name, manifest.content, manifest.media_type)
        return manifest

    def _copy_blob(self, digest: str) -> None:
        if not is_digest(digest):
            raise DamagedError(
                f"{self.source.host}/{self.repository} names {digest[:80]!r} as a blob, which is no digest"
            )
        if self.target.has_blob(self.repository, digest):
            return
        with tempfile.TemporaryFile() as file:
            whole = hashlib.sha256()
            for data in self.source.stream_blob(self.repository, digest):
                file.write(data)
                whole.update(data)
            if digest != f"sha256:{whole.hexdigest()}":
                raise DamagedError(f"the blob {self.repository}@{digest} of {self.source.host} has other contents")
            self.target.upload(self.repository, digest, file)
