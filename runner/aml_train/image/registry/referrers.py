"""Referrers: documents that a registry keeps with an image, found by its digest.

OCI distribution specification 1.1 (https://github.com/opencontainers/distribution-spec/blob/v1.1.1/spec.md): a manifest
with a ``subject`` is listed at ``/v2/NAME/referrers/DIGEST``. A registry without that interface answers with 404; clients
then keep the list as an index under the tag ``sha256-HEX`` ("referrers tag schema").

Small documents of ours (test records, facts) are kept under a tag as well: later runs find them by the tag without a list.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from aml_train.core.answers import Answer
from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.references import is_digest
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, Manifest, sha256_digest

EMPTY: Final = b"{}"
_ATTEMPTS: Final = 5
_MOST_BYTES: Final = 64 << 20


@dataclass(frozen=True, kw_only=True)
class Referrer:
    """A manifest that refers to an image, as a list of referrers shows it."""

    digest: str
    artifact_type: str


def fallback_tag(digest: str) -> str:
    """Return the tag of the list of referrers in a registry without their interface."""
    return digest.replace(":", "-", 1)


def list_referrers(
    registry: Registry, repository: str, digest: str, *, artifact_type: str | None = None
) -> tuple[Referrer, ...]:
    """Return the manifests that refer to the image *digest*; none if it is unknown.

    Args:
        artifact_type: only those of that type; None for all.

    Raises:
        ImageError: the registry refuses, or the list is damaged.
    """
    found = [
        Referrer(digest=one.text("digest"), artifact_type=one.optional_text("artifactType") or "")
        for one in entries_of(registry, repository, digest)
    ]
    return tuple(one for one in found if artifact_type in (None, one.artifact_type))


def entries_of(registry: Registry, repository: str, digest: str) -> list[Answer]:
    """Return the entries of the list of the image's referrers, each with a digest; raises as :func:`list_referrers`."""
    entries = registry.referrers(repository, digest)
    if entries is None:
        entries = _fallback_entries(registry, repository, digest)
    for one in entries:
        _digest(one, f"{registry.host}/{repository}@{digest}")
    return entries


def attach_document(
    registry: Registry,
    repository: str,
    image: Manifest | None,
    *,
    artifact_type: str,
    content: bytes,
    annotations: Mapping[str, str] | None = None,
    tag: str | None = None,
) -> Referrer:
    """Keep *content* with *image*; return its manifest. A repetition changes nothing.

    Args:
        image: what it is about; None if *repository* does not have it.
        artifact_type: the document's kind, by which it is found.
        annotations: short facts that lists of referrers show.
        tag: another name than its digest.

    Raises:
        ImageError: the registry refuses.
    """
    config = registry.upload_blob(repository, EMPTY)
    layer = registry.upload_blob(repository, content)
    noted = {"annotations": dict(annotations)} if annotations else {}
    manifest: dict[str, Any] = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": artifact_type,
        "config": {"mediaType": "application/vnd.oci.empty.v1+json", "digest": config, "size": len(EMPTY)},
        "layers": [{"mediaType": artifact_type, "digest": layer, "size": len(content)}],
        **noted,
    }
    if image is not None:
        manifest["subject"] = {"mediaType": image.media_type, "digest": image.digest, "size": len(image.content)}
    encoded = json.dumps(manifest, sort_keys=True).encode()
    digest = registry.put_manifest(repository, tag or sha256_digest(encoded), encoded, OCI_MANIFEST)
    if image is not None and registry.referrers(repository, image.digest) is None:
        entry = {"mediaType": OCI_MANIFEST, "digest": digest, "size": len(encoded), "artifactType": artifact_type}
        enter_referrer(registry, repository, image.digest, entry | noted)
    return Referrer(digest=digest, artifact_type=artifact_type)


def enter_referrer(registry: Registry, repository: str, subject: str, entry: Mapping[str, Any]) -> None:
    """Write *entry* into the index under the fall-back tag of the image *subject*.

    It is read again after it was written, because another client may have written it at the same time.

    Raises:
        ImageError: the registry refuses, or other clients replaced the index each time.
    """
    for attempt in range(_ATTEMPTS + 1):
        entries = [one.mapping() for one in _fallback_entries(registry, repository, subject)]
        if any(one.get("digest") == entry["digest"] for one in entries):
            return
        if attempt < _ATTEMPTS:
            index = {"schemaVersion": 2, "mediaType": OCI_INDEX, "manifests": [*entries, entry]}
            content = json.dumps(index, sort_keys=True).encode()
            registry.put_manifest(repository, fallback_tag(subject), content, OCI_INDEX)
    raise ImageError(
        f"the list of referrers {registry.host}/{repository}:{fallback_tag(subject)} was replaced by other clients "
        f"{_ATTEMPTS} times in a row",
        hint="Run again; what was stored is found by its digest.",
    )


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


def _digest(entry: Answer, name: str) -> str:
    digest = entry.text("digest")
    if not is_digest(digest):
        raise DamagedError(f"{name} names something without digest")
    return digest


def store_document(
    registry: Registry, repository: str, tag: str, *, media_type: str, content: bytes, subject: str
) -> None:
    """Write *content* into *repository* under *tag*; it is one of the image's referrers, too, if that is there.

    Args:
        media_type: what *content* is.
        subject: digest of the image that it is about.
    """
    image, about = registry.get_manifest(repository, subject), {"org.aml-train.subject": subject}
    attach_document(
        registry, repository, image, artifact_type=media_type, content=content, annotations=about, tag=tag
    )


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
