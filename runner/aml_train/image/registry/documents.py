"""Small documents that the registry keeps with an image, each under its tag.

Later runs find them by the tag without a list; other tools find them as referrers.
"""

from __future__ import annotations

import json
from typing import Final

from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.references import is_digest
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import OCI_MANIFEST
from aml_train.image.registry.referrers import EMPTY, EMPTY_TYPE, enter_referrer, subject_of

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
    config = registry.upload_blob(repository, content)
    empty = registry.upload_blob(repository, EMPTY)
    manifest = {
        "schemaVersion": 2,
        "mediaType": OCI_MANIFEST,
        "artifactType": media_type,
        "config": {"mediaType": media_type, "digest": config, "size": len(content)},
        "layers": [{"mediaType": EMPTY_TYPE, "digest": empty, "size": len(EMPTY)}],
        "annotations": {_SUBJECT: subject},
    }
    if image is not None:
        manifest["subject"] = subject_of(image)
    encoded = json.dumps(manifest, sort_keys=True).encode()
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
        found, digest = manifest.answer.text("config.mediaType"), manifest.answer.text("config.digest")
    except ImageError as error:
        raise DamagedError(f"the {noun} {where} is damaged: {error.message}", hint=hint) from error
    if found != media_type:
        raise DamagedError(f"{where} is not a {noun} but {found[:200]}", hint=hint)
    if not is_digest(digest):
        raise DamagedError(f"the {noun} {where} is damaged: its manifest names no digest", hint=hint)
    return registry.get_blob(repository, digest)
