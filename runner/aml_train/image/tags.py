"""The tags of a released image: that of its digest, and those that users ask for."""

from __future__ import annotations

from aml_train.core.release_tags import commit_tags
from aml_train.image.context import ImageContext
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec


def digest_tag(digest: str) -> str:
    """Return the tag that keeps a used digest for ever, whatever happens to others."""
    return f"dig-{digest.removeprefix('sha256:')}"


def address_of(registry: Registry, spec: ImageSpec, digest: str) -> str:
    """Return the address of *digest*, which the registry has under the tag of *spec*'s address.

    It is another one if *digest* was built in the place of an earlier build.
    """
    rebuilt = spec.rebuilt(digest)
    head = registry.head_manifest(rebuilt.repository, rebuilt.address_tag)
    return rebuilt.address if head is not None and head.digest == digest else spec.address


def put_release_tags(ctx: ImageContext, manifest: Manifest) -> None:
    """Put the tags of ``image.tags``; that of a commit never moves, and another image of it gets one with its digest."""
    for tag in ctx.release_tags:
        head = ctx.registry.head_manifest(ctx.own, tag)
        if (
            head is None
            or head.digest == ctx.damaged
            or not (tag.startswith("git-") or head.digest == manifest.digest)
        ):
            ctx.registry.put_tag(ctx.own, tag, manifest)
        elif head.digest != manifest.digest:
            _, other = commit_tags(tag.removeprefix("git-"), manifest.digest)
            ctx.registry.put_tag(ctx.own, other, manifest)
            ctx.note(
                f"{ctx.own}:{tag} stays {head.digest[:19]}, as the tag of a commit does not move: this image is {other}."
            )


def lock(ctx: ImageContext, manifest: Manifest) -> None:
    """Make the digest's tag immutable if the registry can; a refusal is only reported."""
    tag = digest_tag(manifest.digest)
    if not ctx.spec.release.lock or not ctx.registry.can_lock or ctx.registry.lock_tag(ctx.own, tag):
        return
    ctx.note(
        f"The tag {ctx.own}:{tag[:16]}… is not locked: {ctx.registry.host} does not let this identity change "
        "attributes. A role with registries/metadata/write can; `image.lock: false` leaves it."
    )
