"""Check that all parts of a released image are in the registry."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Final

from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

CONNECTIONS: Final = 8
"""Requests at once; the client keeps ten connections (``requests.adapters.DEFAULT_POOLSIZE``)."""


def lost_part(registry: Registry, repository: str, manifest: Manifest) -> str | None:
    """Return the digest of a missing part of *manifest*, or None if it is complete.

    Asked for are the manifests that an index lists, and each image's configuration and layers, by HEAD and in parallel. Layers that
    are kept elsewhere (``urls``) are not the registry's.

    Raises:
        ImageError: if the registry refuses or does not answer.
    """
    has_blob = partial(registry.has_blob, repository)
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="completeness") as pool:
        images = [manifest]
        if manifest.is_index:
            images = []
            read = pool.map(partial(registry.get_manifest, repository), manifest.children)
            for digest, child in zip(manifest.children, read, strict=True):
                if child is None:
                    return digest
                images.append(child)
        blobs = list(dict.fromkeys(blob for image in images for blob in image.blobs))
        answers = zip(blobs, pool.map(has_blob, blobs), strict=True)
        # Asked again, for a blob is away for a moment while another client mounts it: see Registry._put.
        return next((blob for blob, there in answers if not there and not has_blob(blob)), None)
