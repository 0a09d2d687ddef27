"""Check that all parts of a released image are in the registry."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from typing import Final, TypeVar

from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

CONNECTIONS: Final = 8
"""Requests at once; the client keeps ten connections (``requests.adapters.DEFAULT_POOLSIZE``)."""

_Item = TypeVar("_Item")
_Answer = TypeVar("_Answer")


def lost_part(registry: Registry, repository: str, manifest: Manifest) -> str | None:
    """Return the digest of a missing part of *manifest*, or None if it is complete.

    Asked for are the manifests that an index lists, and each image's configuration and layers, by HEAD and in parallel. Layers that
    are kept elsewhere (``urls``) are not the registry's.

    Raises:
        ImageError: if the registry refuses or does not answer.
    """
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="completeness") as pool:
        images = [manifest]
        if manifest.is_index:
            images = []
            for digest, child in _each(pool, lambda one: registry.get_manifest(repository, one), manifest.children):
                if child is None:
                    return digest
                images.append(child)
        blobs = dict.fromkeys(blob for image in images for blob in image.blobs)
        answers = _each(pool, lambda blob: registry.has_blob(repository, blob), blobs)
        # Asked again, for a blob is away for a moment while another client mounts it: see Registry._put.
        return next((blob for blob, there in answers if not there and not registry.has_blob(repository, blob)), None)


def _each(
    pool: ThreadPoolExecutor, ask: Callable[[_Item], _Answer], items: Iterable[_Item]
) -> Iterable[tuple[_Item, _Answer]]:
    """Yield items with answers as they come; cancel the rest if the caller stops."""
    asked: dict[Future[_Answer], _Item] = {pool.submit(ask, item): item for item in items}
    try:
        for future in as_completed(asked):
            yield asked[future], future.result()
    finally:
        for future in asked:
            future.cancel()
