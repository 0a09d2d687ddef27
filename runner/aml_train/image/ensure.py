"""The image stage: find the image in the registry and verify it, or have it built, verified and released.

One digest throughout: the image that the tests ran in is, byte for byte, the one that is released. A builder pushes to a
*candidate* repository; after the tests the same manifest bytes are put under the release tags.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import requests
from docker.errors import DockerException

from aml_train.core.errors import ImageError
from aml_train.core.events import Event, ImageChecked, ImageReady, Listener, StageStarted, TestsFinished
from aml_train.core.references import ImageRef
from aml_train.core.release_tags import commit_tags
from aml_train.core.threads import cleanup_on_interrupt
from aml_train.image.build.build import CACHE_TAG
from aml_train.image.builder import Builder, Candidate, Verified
from aml_train.image.context import ImageContext
from aml_train.image.provenance import attach_provenance
from aml_train.image.push import release
from aml_train.image.readiness.check import store_facts
from aml_train.image.records import known_record, store_record
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, Tested, TestRecord, TestSpec
from aml_train.image.verify import make_record, read_record, verify_found

if TYPE_CHECKING:
    from docker import DockerClient


def ensure_image(
    spec: ImageSpec,
    tests: TestSpec | None,
    *,
    builder: Callable[[], Builder],
    engine: DockerClient | None,
    location: RegistryLocation,
    listener: Listener,
    job_engine: DockerClient | None = None,
    force: bool = False,
    commit: str | None = None,
) -> Tested:
    """Return the image of *spec*, released in the registry, with *tests* passed in it.

    A proposal uses the image that the protected branch has released, if there is one; the protected branch uses its own alone.

    If the registry has the image and its record, nothing is built, pulled or run. If it lacks the record, the tests run. If it
    lacks the image, it is built, pushed as a candidate while it is verified, and released.

    Args:
        tests: the tests, or None if none are configured.
        engine: the engine that builds and tests; None where a service does.
        listener: receives the events; called from two threads, one at a time only if it sees to that
            (:class:`aml_train.core.events.Broadcast` does).
        builder: gives what builds and tests; called only if an image is built or tests run.
        job_engine: the engine that jobs run on, if it is another one than *engine*.
        force: build without the builder's cache, and test again.

    Raises:
        ImageError: if it cannot be built, pushed, found or verified, or a readiness check fails; nothing is released then.
        TestsFailedError: if the tests fail; nothing is released then.
        TimedOutError: if the build takes too long.
    """

    with location.client() as registry:
        ctx = ImageContext(
            spec=spec,
            tests=tests,
            engine=engine,
            location=location,
            registry=registry,
            listener=_naming(listener, spec.name) if spec.name else listener,
            commit=commit,
            job_engine=job_engine,
        )
        try:
            return _find_or_build(ctx, builder, force=force)
        except (DockerException, requests.RequestException) as error:
            # Of the engine: the registry's client reports its own. Failures that are expected are caught where they occur.
            raise ImageError(
                f"the Docker engine failed or went away: {error}",
                hint="Nothing was released. See the engine's log (journalctl -u docker) and run again: what was built is cached.",
            ) from error


def _naming(listener: Listener, name: str) -> Listener:
    """Return a listener that says of which of several images an event is."""

    def emit(event: Event) -> None:
        if isinstance(event, ImageReady | ImageChecked | TestsFinished):
            event = replace(event, image_name=name)
        listener(event)

    return emit


def find_image(spec: ImageSpec, *, location: RegistryLocation) -> Tested | None:
    """Return the image of *spec* in the registry, or None; build and pull nothing.

    A proposal finds the image of the protected branch first. Its tests are not looked up: to know which job ran in it, they are not needed.

    Raises:
        ImageError: if the registry refuses or does not answer.
    """
    with location.client() as registry:
        found = locate_image(registry, spec)
    return None if found is None else _tested(found[0], location, found[1], "found", None)


def find_build(
    spec: ImageSpec,
    tests: TestSpec | None,
    known: Tested,
    digest: str,
    *,
    location: RegistryLocation,
    listener: Listener,
) -> Tested | None:
    """Return the image *digest*, if it is another build of the address of *known* in which *tests* have passed.

    Runs that build an address at the same time have several builds of it, and share the job of one of them. That image gets the tags of
    this run, too.

    Raises:
        ImageError: the registry refuses or does not answer.
    """
    spec = replace(spec, repository=known.reference.repository, address=known.address)
    with location.client() as registry:
        found = registry.get_manifest(spec.repository, spec.build_tag(digest))
        if found is None or found.digest != digest:
            return None
        record = None if tests is None else known_record(registry, spec, tests, digest)
        if tests is not None and record is None:
            return None
        ctx = ImageContext(spec=spec, tests=tests, location=location, registry=registry, listener=listener)
        _put_tags(ctx, found)
        return _tested(spec, location, found, "found", record)


def locate_image(registry: Registry, spec: ImageSpec) -> tuple[ImageSpec, Manifest] | None:
    """Return the image of *spec* that the registry has, with its repository and address; None if it lacks it."""
    for one in filter(None, (spec.released, spec)):
        if (found := registry.get_manifest(one.repository, one.address_tag)) is not None:
            # It has another address if it was built in the place of an earlier build.
            rebuilt = one.rebuilt(found.digest)
            head = registry.head_manifest(rebuilt.repository, rebuilt.address_tag)
            return rebuilt if head == found.digest else one, found
    return None


def _find_or_build(ctx: ImageContext, builder: Callable[[], Builder], *, force: bool) -> Tested:
    started = time.monotonic()
    title = f"image {ctx.repository} on {ctx.spec.base.reference.familiar}"
    ctx.listener(StageStarted(stage="image", title=title))
    located = None if force else locate_image(ctx.registry, ctx.spec)
    if located is None:
        return _build(ctx, builder, started, force=force)
    ctx, found = replace(ctx, spec=located[0]), located[1]
    record = read_record(ctx, found.digest)
    ctx.finish("image", f"found {found.digest[:19]}", started, skipped=True)
    return _reuse(ctx, builder, found, record)


def _build(ctx: ImageContext, builder: Callable[[], Builder], started: float, *, force: bool) -> Tested:
    """Have the image built, pushed as a candidate, verified and released.

    If another run has been quicker, its image is verified and used.
    """
    candidate, making = Candidate(ctx), builder()

    def remove() -> None:
        making.discard(ctx, candidate)
        candidate.untag()

    try:
        built = making.build(ctx, candidate, started, force=force)
        manifest = built.manifest
        record = make_record(ctx, manifest.digest, built.results)
        other = None if force else locate_image(ctx.registry, ctx.spec)
        if other is None or other[1].digest == manifest.digest:
            other = None
            # The image that was built in the place of another one has its own address.
            spec = ctx.spec.rebuilt(manifest.digest) if force else ctx.spec
            _store(ctx, spec, built, record)
            if spec.provenance:
                attach_provenance(ctx, manifest, started, builder=making.identity(ctx))
            _release(ctx, spec, manifest)
    except Exception:
        remove()
        raise
    except BaseException:
        cleanup_on_interrupt(remove, last=True)
        raise
    remove()
    if other is None:
        return _ready(replace(ctx, spec=spec), manifest, "built", record)
    ctx, found = replace(ctx, spec=other[0]), other[1]
    ctx.note(f"Another run has released this image meanwhile: {found.digest[:19]} is used.")
    return _reuse(ctx, builder, found, read_record(ctx, found.digest))


def _store(ctx: ImageContext, spec: ImageSpec, built: Verified, record: TestRecord | None) -> None:
    """Put the image of *spec*, and all that belongs to it, under the tag of its digest."""
    manifest = built.manifest
    tags = (_digest_tag(manifest.digest), spec.build_tag(manifest.digest))
    release(ctx.registry, manifest, source=ctx.candidates, repository=ctx.repository, tags=tags)
    _lock(ctx, manifest)
    if record is not None:
        store_record(ctx.registry, ctx.repository, record)
    store_facts(ctx.registry, ctx.repository, manifest.digest, built.facts)


def _release(ctx: ImageContext, spec: ImageSpec, manifest: Manifest) -> None:
    """Put the image under its tags; that of the content's address, by which readers find all, is last."""
    _put_release_tags(ctx, manifest)
    # The next build's cache is no part of the release.
    for tag in dict.fromkeys((spec.address_tag, ctx.spec.address_tag, CACHE_TAG)):
        ctx.registry.put_tag(ctx.repository, tag, manifest)
    if ctx.location.engine_runs_jobs:
        # All layers are there: this only names the image by its digest, so that the job finds it in the engine.
        ctx.pull(manifest, engine=ctx.job_engine or ctx.docker)


def _reuse(ctx: ImageContext, builder: Callable[[], Builder], found: Manifest, record: TestRecord | None) -> Tested:
    """Verify the image that the registry has, and give it the tags of this run."""
    record = verify_found(ctx, found, builder, record)
    _put_tags(ctx, found)
    return _ready(ctx, found, "found", record)


def _put_tags(ctx: ImageContext, found: Manifest) -> None:
    """Give an image that the registry has the tags of this run."""
    if ctx.registry.head_manifest(ctx.own, _digest_tag(found.digest)) is None:
        # A released image that a proposal uses gets its names in the proposals' repository.
        release(ctx.registry, found, source=ctx.repository, repository=ctx.own, tags=[_digest_tag(found.digest)])
        _lock(ctx, found)
    _put_release_tags(ctx, found)


def _put_release_tags(ctx: ImageContext, manifest: Manifest) -> None:
    """Put the tags of ``image.tags``; that of a commit never moves, and another image of it gets one with its digest."""
    for tag in ctx.spec.release.tags:
        head = ctx.registry.head_manifest(ctx.own, tag)
        if head is None or not (tag.startswith("git-") or head == manifest.digest):
            ctx.registry.put_tag(ctx.own, tag, manifest)
        elif head != manifest.digest:
            _, other = commit_tags(tag.removeprefix("git-"), manifest.digest)
            ctx.registry.put_tag(ctx.own, other, manifest)
            ctx.note(
                f"{ctx.own}:{tag} stays {head[:19]}, as the tag of a commit does not move: this image is {other}."
            )


def _lock(ctx: ImageContext, manifest: Manifest) -> None:
    """Make the digest's tag immutable if the registry can; a refusal is only reported."""
    tag = _digest_tag(manifest.digest)
    if not ctx.spec.release.lock or not ctx.registry.can_lock or ctx.registry.lock_tag(ctx.own, tag):
        return
    ctx.note(
        f"The tag {ctx.own}:{tag[:16]}… is not locked: {ctx.registry.host} does not let this identity change "
        "attributes. A role with registries/metadata/write can; `image.lock: false` leaves it."
    )


def _digest_tag(digest: str) -> str:
    """Return the tag that keeps a used digest for ever, whatever happens to others."""
    return f"dig-{digest.removeprefix('sha256:')}"


def _ready(
    ctx: ImageContext, manifest: Manifest, how: Literal["built", "found"], record: TestRecord | None
) -> Tested:
    image = _tested(ctx.spec, ctx.location, manifest, how, record)
    ctx.listener(
        ImageReady(
            reference=str(image.reference),
            digest=image.digest,
            address=image.address,
            how=how,
            compressed_bytes=image.compressed_bytes,
        )
    )
    return image


def _tested(
    spec: ImageSpec,
    location: RegistryLocation,
    manifest: Manifest,
    how: Literal["built", "found"],
    record: TestRecord | None,
) -> Tested:
    return Tested(
        reference=ImageRef.parse(f"{location.job_name}/{spec.repository}@{manifest.digest}"),
        digest=manifest.digest,
        address=spec.address,
        how=how,
        record=record,
        compressed_bytes=manifest.layer_bytes,
    )
