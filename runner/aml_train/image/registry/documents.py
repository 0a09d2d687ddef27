"""Small documents that the registry keeps with an image, each under its tag."""

from __future__ import annotations

import json
from typing import Final

from aml_train.core.errors import ImageError
from aml_train.core.references import is_digest
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_MANIFEST

_EMPTY: Final = b"{}"
_EMPTY_TYPE: Final = "application/vnd.oci.empty.v1+json"
_SUBJECT: Final = "org.aml-train.subject"


def store_document(
    registry: Registry, repository: str, tag: str, *, media_type: str, content: bytes, subject: str
) -> str:
    """Write *content* into *repository* under *tag*; return its manifest's digest.

    Args:
        media_type: what *content* is.
        subject: digest of the image that it is about.
    """
    config = registry.upload_blob(repository, content)
    empty = registry.upload_blob(repository, _EMPTY)
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": media_type,
        "config": {"mediaType": media_type, "digest": config, "size": len(content)},
        "layers": [{"mediaType": _EMPTY_TYPE, "digest": empty, "size": len(_EMPTY)}],
        "annotations": {_SUBJECT: subject},
    }
    return registry.put_manifest(repository, tag, json.dumps(manifest, sort_keys=True).encode(), OCI_MANIFEST)


def load_document(
    registry: Registry, repository: str, tag: str, *, media_type: str, noun: str, hint: str
) -> bytes | None:
    """Return what is in *repository* under *tag*, or None where there is nothing.

    Args:
        media_type: what it must be.
        noun: what it is called in errors, such as ``test record``.
        hint: what to do where it is something else.

    Raises:
        ImageError: if there is something else under the tag.
    """
    manifest = registry.get_manifest(repository, tag)
    if manifest is None:
        return None
    where = f"{registry.host}/{repository}:{tag}"
    try:
        found, digest = manifest.answer.text("config.mediaType"), manifest.answer.text("config.digest")
    except ImageError as error:
        raise ImageError(f"the {noun} {where} is damaged: {error.message}", hint=hint) from error
    if found != media_type:
        raise ImageError(f"{where} is not a {noun} but {found[:200]}", hint=hint)
    if not is_digest(digest):
        raise ImageError(f"the {noun} {where} is damaged: its manifest names no digest", hint=hint)
    return registry.get_blob(repository, digest)
