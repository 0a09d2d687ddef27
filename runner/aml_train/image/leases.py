"""Leases and marks: how a run and a clean-up of one registry avoid each other.

Both are tags of the image's manifest. A run that is about to use an image writes a lease and then looks for a mark; a clean-up writes
a mark and then looks for a lease. Whatever the order of the requests, at least one of the two sees the other's tag:
docs/clean-up.md has the reasoning.
"""

from __future__ import annotations

import datetime
import re
import time
from collections.abc import Callable
from typing import Final

from aml_train.core.errors import ImageError
from aml_train.core.threads import map_parallel
from aml_train.image.context import ImageContext
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest

LEASE_SECONDS: Final = 24 * 3600.0
"""The least that a lease lasts: from the image stage to the submission of its job."""

MARK_SECONDS: Final = 120.0
"""A clean-up deletes within this time after its mark, or not at all; a run that sees a mark waits as long."""

CLOCK_SECONDS: Final = 15 * 60.0
"""By how much the clocks of a run and of a clean-up may differ."""

_LEASE: Final = re.compile(r"lease-(\d{8})-[0-9a-f]{16}")
_MARK: Final = re.compile(r"prune-(\d{10})-[0-9a-f]{48}")
_DAY: Final = 24 * 3600.0
_HOUR: Final = 3600.0


def lease_tag(digest: str, now: float) -> str:
    """Return the tag that leases *digest* from *now* on; runs of one day share it."""
    day = datetime.datetime.fromtimestamp(now + LEASE_SECONDS, datetime.UTC)
    return f"lease-{day:%Y%m%d}-{digest.removeprefix('sha256:')[:16]}"


def lease_tags(digest: str, now: float) -> tuple[str, ...]:
    """Return every tag by which a run can have leased *digest* until after *now*."""
    shifts = (-LEASE_SECONDS, 0.0, CLOCK_SECONDS)
    return tuple(dict.fromkeys(lease_tag(digest, now + shift) for shift in shifts))


def lease_end(tag: str) -> float | None:
    """Return when a lease ends, the end of its day in UTC; None for another tag."""
    match = _LEASE.fullmatch(tag)
    return None if match is None else _moment(match[1], "%Y%m%d", _DAY)


def mark_tag(digest: str, now: float) -> str:
    """Return the tag by which a clean-up marks *digest* for deletion."""
    hour = datetime.datetime.fromtimestamp(now, datetime.UTC)
    return f"prune-{hour:%Y%m%d%H}-{digest.removeprefix('sha256:')[:48]}"


def mark_tags(digest: str, now: float) -> tuple[str, ...]:
    """Return every tag by which a clean-up can have marked *digest* just now."""
    earliest = -CLOCK_SECONDS - 2 * MARK_SECONDS
    return tuple(dict.fromkeys(mark_tag(digest, now + shift) for shift in (earliest, 0.0, CLOCK_SECONDS)))


def mark_end(tag: str) -> float | None:
    """Return after when no clean-up relies on a mark; None for another tag."""
    match = _MARK.fullmatch(tag)
    return None if match is None else _moment(match[1], "%Y%m%d%H", 2 * _HOUR)


def _moment(text: str, form: str, more: float) -> float | None:
    try:
        begin = datetime.datetime.strptime(text, form).replace(tzinfo=datetime.UTC)
    except ValueError:
        return None
    return begin.timestamp() + more


def write_lease(registry: Registry, repository: str, manifest: Manifest, *, now: float) -> dict[str, str]:
    """Lease *manifest* and what it lists; return tags with digests.

    A manifest that was deleted in between is put again by this, or refused if its parts are gone.

    Raises:
        ImageError: the registry refuses, or one of the manifests is gone.
    """
    held = [manifest]
    for digest in manifest.children:
        child = registry.get_manifest(repository, digest)
        if child is None:
            raise ImageError(f"the index {manifest.digest} lists {digest}, which {registry.host} does not have")
        held.append(child)
    leases = {lease_tag(one.digest, now): one for one in held}
    for tag, one in leases.items():
        if not _names(registry, repository, tag, one.digest):
            registry.put_tag(repository, tag, one)
    return {tag: one.digest for tag, one in leases.items()}


def _names(registry: Registry, repository: str, tag: str, digest: str) -> bool:
    """Return whether *tag* is there, and names *digest*."""
    head = registry.head_manifest(repository, tag)
    return head is not None and head.digest == digest


def hold_image(
    ctx: ImageContext,
    manifest: Manifest,
    *,
    now: Callable[[], float] = time.time,
    sleep: Callable[[float], None] = time.sleep,
) -> bool:
    """Keep a found image from clean-ups; return whether it is still in the registry.

    If the registry does not let this identity write tags, a notice says that the image is not leased.
    """
    registry, repository = ctx.registry, ctx.repository
    try:
        leases = write_lease(registry, repository, manifest, now=now())
    except ImageError as error:
        if registry.head_manifest(repository, manifest.digest) is None:
            return False
        ctx.note(f"The image {manifest.digest[:19]} is not leased, so a clean-up could remove it: {error.message}")
        return True
    marks = [tag for digest in leases.values() for tag in mark_tags(digest, now())]
    if any(map_parallel(lambda tag: registry.head_manifest(repository, tag) is not None, marks, "prune-marks")):
        ctx.note(f"A clean-up of the registry has marked {manifest.digest[:19]}: waiting until it has ended.")
        sleep(MARK_SECONDS)
    # A deletion that ended before the marks were looked up has removed them, and the leases.
    return all(_names(registry, repository, tag, digest) for tag, digest in leases.items())
