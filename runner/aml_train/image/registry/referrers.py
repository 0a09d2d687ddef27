"""Referrers: documents that a registry keeps with an image, found by its digest.

OCI distribution specification 1.1 (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md): a manifest
with a ``subject`` is listed at ``/v2/NAME/referrers/DIGEST``. A registry without that interface answers with 404; clients
then keep the list as an index under the tag ``sha256-HEX`` ("referrers tag schema").

Small documents of ours (test records, facts) are kept under a tag as well: later runs find them by the tag without a list.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from aml_train.core.answers import Answer
from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.references import is_digest
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest, sha256_digest

EMPTY: Final = b"{}"
EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
_ATTEMPTS: Final = 5
_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Referrer:
    """A manifest that refers to an image, as a list of referrers shows it."""

    digest: str
    size: int
    media_type: str
    artifact_type: str
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def descriptor(self) -> dict[str, Any]:
        """Its entry in a list of referrers."""
        found: dict[str, Any] = {"mediaType": self.media_type, "digest": self.digest, "size": self.size}
        found["artifactType"] = self.artifact_type
        return found | ({"annotations": dict(self.annotations)} if self.annotations else {})


def fallback_tag(digest: str) -> str:
    """Return the tag of the list of referrers in a registry without their interface."""
    return digest.replace(":", "-", 1)


def subject_of(image: Manifest) -> dict[str, Any]:
    """Return the descriptor by which a manifest refers to *image*."""
    return {"mediaType": image.media_type, "digest": image.digest, "size": len(image.content)}


def list_referrers(
    registry: Registry, repository: str, digest: str, *, artifact_type: str | None = None
) -> tuple[Referrer, ...]:
    """Return the manifests that refer to the image *digest*; none if it is unknown.

    Args:
        artifact_type: only those of that type; None for all.

    Raises:
        ImageError: the registry refuses, or the list is damaged.
    """
    entries = registry.referrers(repository, digest)
    if entries is None:
        entries = _fallback_entries(registry, repository, digest)
    found = (_referrer(entry, f"{registry.host}/{repository}@{digest}") for entry in entries)
    return tuple(one for one in found if artifact_type in (None, one.artifact_type))


def attach_document(
    registry: Registry,
    repository: str,
    image: Manifest,
    *,
    artifact_type: str,
    content: bytes,
    annotations: Mapping[str, str] | None = None,
) -> Referrer:
    """Keep *content* with *image*; return its manifest. A repetition changes nothing.

    Args:
        artifact_type: the document's kind, by which it is found.
        annotations: short facts that lists of referrers show.

    Raises:
        ImageError: the registry refuses.
    """
    encoded = _manifest_of(registry, repository, image, artifact_type, content, annotations)
    registry.put_manifest(repository, sha256_digest(encoded), encoded, OCI_MANIFEST)
    return enter_referrer(registry, repository, encoded)


def _manifest_of(
    registry: Registry,
    repository: str,
    image: Manifest | None,
    artifact_type: str,
    content: bytes,
    annotations: Mapping[str, str] | None = None,
) -> bytes:
    """Upload *content*; return the manifest of a document that is about *image*."""
    config = registry.upload_blob(repository, EMPTY)
    layer = registry.upload_blob(repository, content)
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": artifact_type,
        "config": {"mediaType": EMPTY_TYPE, "digest": config, "size": len(EMPTY)},
        "layers": [{"mediaType": artifact_type, "digest": layer, "size": len(content)}],
        **({} if image is None else {"subject": subject_of(image)}),
        **({"annotations": dict(annotations)} if annotations else {}),
    }
    return json.dumps(manifest, sort_keys=True).encode()


def enter_referrer(registry: Registry, repository: str, content: bytes) -> Referrer:
    """Have a stored manifest listed with its subject; return its entry.

    A registry with the interface lists it by itself. Otherwise the index under the fall-back tag gets an entry: it is
    read again after it was written, because another client may have written it at the same time.

    Raises:
        ImageError: the registry refuses, or other clients replaced the index each time.
    """
    manifest = Manifest(digest=sha256_digest(content), media_type=OCI_MANIFEST, content=content)
    document, subject = manifest.answer, manifest.answer.text("subject.digest")
    found = Referrer(
        digest=manifest.digest,
        size=len(content),
        media_type=OCI_MANIFEST,
        artifact_type=document.text("artifactType"),
        annotations=document.texts("annotations"),
    )
    if registry.referrers(repository, subject) is not None:
        return found
    for _ in range(_ATTEMPTS):
        entries = [entry.mapping() for entry in _fallback_entries(registry, repository, subject)]
        if any(entry.get("digest") == found.digest for entry in entries):
            return found
        write_fallback(registry, repository, subject, [*entries, found.descriptor])
    if any(one.digest == found.digest for one in list_referrers(registry, repository, subject)):
        return found
    raise ImageError(
        f"the list of referrers {registry.host}/{repository}:{fallback_tag(subject)} was replaced by other clients "
        f"{_ATTEMPTS} times in a row",
        hint="Run again; what was stored is found by its digest.",
    )


def write_fallback(registry: Registry, repository: str, subject: str, entries: Iterable[Mapping[str, Any]]) -> str:
    """Write the index of a fall-back tag with *entries*; return its digest."""
    index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [dict(entry) for entry in entries]}
    content = json.dumps(index, sort_keys=True).encode()
    return registry.put_manifest(repository, fallback_tag(subject), content, OCI_INDEX)


def read_referrer(registry: Registry, repository: str, referrer: Referrer) -> bytes:
    """Return the document of a referrer, checked against its digests.

    Raises:
        DamagedError: it is missing, damaged, or has not exactly one layer.
    """
    name = f"{registry.host}/{repository}@{referrer.digest}"
    manifest = registry.get_manifest(repository, referrer.digest)
    if manifest is None:
        raise DamagedError(f"{name} is listed as a referrer, and is not in the registry")
    return _content(registry, repository, manifest, name)


def _content(registry: Registry, repository: str, manifest: Manifest, name: str) -> bytes:
    layers = list(manifest.answer.each("layers"))
    if len(layers) != 1:
        raise DamagedError(f"{name} has {len(layers)} layers where a document has one")
    return registry.get_blob(repository, _digest(layers[0], name), limit=_MOST_BYTES)


def _fallback_entries(registry: Registry, repository: str, digest: str) -> list[Answer]:
    tag = fallback_tag(digest)
    index = registry.get_manifest(repository, tag)
    if index is None:
        return []
    if not index.is_index:
        raise DamagedError(
            f"{registry.host}/{repository}:{tag} is not a list of referrers but {index.media_type[:200]}",
            hint="Remove that tag from the registry.",
        )
    return list(index.answer.each("manifests"))


def _referrer(entry: Answer, name: str) -> Referrer:
    return Referrer(
        digest=_digest(entry, name),
        size=entry.whole("size") or 0,
        media_type=entry.text("mediaType"),
        artifact_type=entry.optional_text("artifactType") or "",
        annotations=entry.texts("annotations"),
    )


def _digest(entry: Answer, name: str) -> str:
    digest = entry.text("digest")
    if not is_digest(digest):
        raise DamagedError(f"{name} names something without digest")
    return digest


_SUBJECT: Final = "org.aml-train.subject"


def store_document(
    registry: Registry, repository: str, tag: str, *, media_type: str, content: bytes, subject: str
) -> str:
    """Write *content* into *repository* under *tag*; return its manifest's digest.

    It is one of the image's referrers, too, if the image is in *repository*.

    Args:
        media_type: what *content* is.
        subject: digest of the image that it is about.
    """
    image = registry.get_manifest(repository, subject)
    encoded = _manifest_of(registry, repository, image, media_type, content, annotations={_SUBJECT: subject})
    digest = registry.put_manifest(repository, tag, encoded, OCI_MANIFEST)
    if image is not None:
        enter_referrer(registry, repository, encoded)
    return digest


def load_document(
    registry: Registry, repository: str, tag: str, *, media_type: str, noun: str, hint: str
) -> bytes | None:
    """Return what is in *repository* under *tag*, or None where there is nothing.

    Args:
        media_type: what it must be.
        noun: what it is called in errors, such as ``test record``.
        hint: what to do where it is something else.

    Raises:
        DamagedError: if there is something else under the tag.
    """
    manifest = registry.get_manifest(repository, tag)
    if manifest is None:
        return None
    where = f"{registry.host}/{repository}:{tag}"
    try:
        found = manifest.answer.optional_text("artifactType") or manifest.media_type
        content = _content(registry, repository, manifest, where) if found == media_type else None
    except DamagedError as error:
        raise DamagedError(f"the {noun} {where} is damaged: {error.message}", hint=hint) from error
    if content is None:
        raise DamagedError(f"{where} is not a {noun} but {found[:200]}", hint=hint)
    return content
