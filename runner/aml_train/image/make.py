"""Make an image: build it, verify it, and release it.

One digest throughout: the image that the tests ran in is, byte for byte, the one that is released. A builder pushes to a
*candidate* repository; after the tests the same manifest bytes are put under the release tags.
"""

from __future__ import annotations

from aml_train.core.release_tags import commit_tags
from aml_train.core.threads import cleanup_on_interrupt
from aml_train.image.build.build import CACHE_TAG
from aml_train.image.builder import Builder, Candidate, Verified
from aml_train.image.context import ImageContext
from aml_train.image.provenance import attach_provenance
from aml_train.image.push import release
from aml_train.image.readiness.check import store_facts
from aml_train.image.records import store_record
from aml_train.image.registry.client import Registry
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, TestRecord
from aml_train.image.verify import make_record


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
        if head is None or not (tag.startswith("git-") or head.digest == manifest.digest):
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


def make_image(
    ctx: ImageContext, builder: Builder, started: float, *, force: bool
) -> tuple[Manifest, TestRecord | None, bool]:
    """Have the image built, pushed as a candidate and verified, and release it.

    Returns:
        the image, the record of its tests, and whether this run released it: if another run has been quicker, its image is returned, which is
        not verified yet.
    """
    candidate = Candidate(ctx)

    def remove() -> None:
        builder.discard(ctx, candidate)
        candidate.untag()

    try:
        built = builder.build(ctx, candidate, started, force=force)
        manifest = built.manifest
        record = make_record(ctx, manifest.digest, built.results)
        other = None if force else _released_meanwhile(ctx, manifest)
        if other is None:
            # The image that was built in the place of another one has its own address.
            spec = ctx.spec.rebuilt(manifest.digest) if force else ctx.spec
            _store(ctx, spec, built, record)
            if spec.provenance:
                attach_provenance(ctx, manifest, started, builder=builder.identity(ctx))
            _release(ctx, spec, manifest)
    except Exception:
        remove()
        raise
    except BaseException:
        cleanup_on_interrupt(remove, last=True)
        raise
    remove()
    return (manifest, record, True) if other is None else (other, None, False)


def _released_meanwhile(ctx: ImageContext, ours: Manifest) -> Manifest | None:
    """Return the image that another run has released at this address since this one began."""
    found = ctx.registry.get_manifest(ctx.repository, ctx.spec.address_tag)
    if found is None or found.digest == ours.digest:
        return None
    ctx.note(f"Another run has released this image meanwhile: {found.digest[:19]} is used.")
    return found


def _store(ctx: ImageContext, spec: ImageSpec, built: Verified, record: TestRecord | None) -> None:
    """Put the image of *spec*, and all that belongs to it, under the tag of its digest."""
    manifest = built.manifest
    tags = (digest_tag(manifest.digest), spec.build_tag(manifest.digest))
    release(ctx.registry, manifest, source=ctx.candidates, repository=ctx.repository, tags=tags)
    lock(ctx, manifest)
    if record is not None:
        store_record(ctx.registry, ctx.repository, record)
    store_facts(ctx.registry, ctx.repository, manifest.digest, built.facts)


def _release(ctx: ImageContext, spec: ImageSpec, manifest: Manifest) -> None:
    """Put the image under its tags; that of the content's address, by which readers find all, is last."""
    put_release_tags(ctx, manifest)
    # The next build's cache is no part of the release.
    for tag in dict.fromkeys((spec.address_tag, ctx.spec.address_tag, CACHE_TAG)):
        ctx.registry.put_tag(ctx.repository, tag, manifest)
    if ctx.location.engine_runs_jobs:
        # All layers are there: this only names the image by its digest, so that the job finds it in the engine.
        ctx.keep_for_jobs(manifest)
