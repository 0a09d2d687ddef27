"""The tag of a released image's digest."""

from __future__ import annotations

from aml_train.image.context import ImageContext
from aml_train.image.registry.manifest import Manifest


def digest_tag(digest: str) -> str:
    """Return the tag that keeps a used digest for ever, whatever happens to others."""
    return f"dig-{digest.removeprefix('sha256:')}"


def lock(ctx: ImageContext, manifest: Manifest) -> None:
    """Make the digest's tag immutable if the registry can; a refusal is only reported."""
    tag = digest_tag(manifest.digest)
    if not ctx.spec.release.lock or not ctx.registry.can_lock or ctx.registry.lock_tag(ctx.repository, tag):
        return
    ctx.note(
        f"The tag {ctx.repository}:{tag[:16]}… is not locked: {ctx.registry.host} does not let this identity change "
        "attributes. A role with registries/metadata/write can; `image.lock: false` leaves it."
    )
