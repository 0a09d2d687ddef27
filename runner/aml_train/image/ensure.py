"""The image stage: find or build the image, verify it, and release it.

One digest throughout: the image that the tests ran in is, byte for byte, the one that is released. A builder pushes to a
*candidate* repository; after the tests the same manifest bytes are put under the release tags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import ImageReady, Listener, StageStarted
from aml_train.core.references import ImageRef
from aml_train.core.threads import cleanup_on_interrupt, drain
from aml_train.image.build.build import build_image
from aml_train.image.build.cache import CACHE_TAG
from aml_train.image.builder import Builder
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.candidate import CANDIDATE_LEASE, Candidate
from aml_train.image.context import ImageContext
from aml_train.image.disk import check_disk
from aml_train.image.leases import hold_image
from aml_train.image.leftovers import CANDIDATE_SUFFIX, candidate_tag
from aml_train.image.papers import Papers, check_found, keep_papers, prepare_papers
from aml_train.image.push import lost_part, release
from aml_train.image.readiness.check import probe_image, store_facts
from aml_train.image.readiness.facts import Facts
from aml_train.image.records import store_record
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, Tested, TestRecord, TestSpec
from aml_train.image.verify import make_record, verify_found

if TYPE_CHECKING:
    from docker import DockerClient


def ensure_image(
    spec: ImageSpec,
    tests: TestSpec | None,
    *,
    engine: DockerClient | None,
    cli: Callable[[], BuildCli],
    location: RegistryLocation,
    listener: Listener,
    builder: Builder | None = None,
    job_engine: DockerClient | None = None,
    force: bool = False,
    commit: str | None = None,
    release_tags: Sequence[str] = (),
) -> Tested:
    """Return the image of *spec*, released in the registry, with *tests* passed in it.

    If the registry has the image and its record, nothing is built, pulled or run. If it lacks the record, the tests run. If it
    lacks the image or a part of it, the image is built, pushed as a candidate while it is verified, and released.

    Args:
        tests: the tests, or None if none are configured.
        engine: the engine that builds and tests; None where a service does.
        cli: finds the command to build with; called only if an image is built.
        listener: receives the events; called from two threads, one at a time only if it sees to that
            (:class:`aml_train.core.events.Broadcast` does).
        builder: what builds and tests; by default *engine*.
        job_engine: the engine that jobs run on, if it is another one than *engine*.
        force: build without the builder's cache, and test again.

    Raises:
        ImageError: if it cannot be built, pushed, found or verified, or a readiness check fails; nothing is released then.
        TestsFailedError: if the tests fail; nothing is released then.
        TimedOutError: if the build takes too long.
    """
    import requests
    from docker.errors import DockerException

    with location.client() as registry, drain():
        ctx = ImageContext(
            spec=spec,
            tests=tests,
            engine=engine,
            cli=cli,
            location=location,
            registry=registry,
            listener=listener,
            commit=commit,
            release_tags=tuple(dict.fromkeys([*spec.release.tags, *release_tags])),
            job_engine=job_engine,
        )
        try:
            return _find_or_build(ctx, builder or EngineBuilder(), force=force)
        except (DockerException, requests.RequestException) as error:
            # Of the engine: the registry's client reports its own. Failures that are expected are caught where they occur.
            raise ImageError(
                f"the Docker engine failed or went away: {error}",
                hint="Nothing was released. See the engine's log (journalctl -u docker) and run again: what was built is cached.",
            ) from error


def find_image(spec: ImageSpec, *, location: RegistryLocation) -> Tested | None:
    """Return the image of *spec* in the registry, or None; build and pull nothing.

    Its tests are not looked up: to know which job ran in it, they are not needed.

    Raises:
        ImageError: if the registry refuses or does not answer.
    """
    with location.client() as registry:
        found = registry.get_manifest(spec.repository, spec.address_tag)
    if found is None:
        return None
    return _tested(spec, location, found, "found", None)


def build_and_probe(
    spec: ImageSpec, *, engine: DockerClient, cli: BuildCli, environ: Mapping[str, str], listener: Listener
) -> Facts:
    """Build *spec* in the engine only, which caches the build; return the facts.

    Raises:
        ImageError: if it cannot be built, or the probe has no result.
        TimedOutError: if the build takes too long.
    """
    # Tagged as a candidate, so that a sweep removes what a killed command leaves.
    name = f"{spec.repository}{CANDIDATE_SUFFIX}:{candidate_tag(engine, CANDIDATE_LEASE)}"
    check_disk(spec.base, spec.platform, engine=engine, environ=environ, listener=listener)
    image_id = build_image(spec, cli=cli, engine=engine, tag=name, listener=listener)
    try:
        return probe_image(engine, image_id)
    finally:
        engine.images.remove(name, noprune=True)


def _find_or_build(ctx: ImageContext, builder: Builder, *, force: bool) -> Tested:
    started = time.monotonic()
    title = f"image {ctx.repository} on {ctx.spec.base.reference.familiar}"
    ctx.listener(StageStarted(stage="image", title=title))
    found = None if force else ctx.registry.get_manifest(ctx.repository, ctx.spec.address_tag)
    # Leased before anything else is checked: a clean-up of the registry may be at work.
    if found is None or not hold_image(ctx, found):
        return _build_and_release(ctx, builder, started, force=force)
    if not _is_complete(ctx, found):
        return _build_and_release(replace(ctx, damaged=found.digest), builder, started, force=force)
    ctx.finish("image", f"found {found.digest[:19]}", started, skipped=True)
    return _reuse(ctx, builder, found)


def _is_complete(ctx: ImageContext, found: Manifest) -> bool:
    """Return whether all parts of *found* are in the registry; a lost one is reported."""
    name = f"{ctx.repository}@{found.digest[:19]}"
    try:
        lost = lost_part(ctx.registry, ctx.repository, found)
    except ImageError as error:
        ctx.warn(f"Whether all of {name} is there is not known: {error.message}")
        return True
    if lost is not None:
        ctx.warn(f"The registry has lost {lost[:19]}, a part of the released image {name}: the image is built again.")
    return lost is None


def _reuse(ctx: ImageContext, builder: Builder, found: Manifest) -> Tested:
    """Verify the image that the registry has, and give it the tags of this run."""
    record = verify_found(ctx, found, builder)
    check_found(ctx, found)
    for tag in (_digest_tag(found.digest), *ctx.release_tags):
        head = ctx.registry.head_manifest(ctx.repository, tag)
        if head is None or head.digest != found.digest:
            ctx.registry.put_tag(ctx.repository, tag, found)
            if tag == _digest_tag(found.digest):
                _lock(ctx, found)
    return _ready(ctx, found, "found", record)


def _build_and_release(ctx: ImageContext, builder: Builder, started: float, *, force: bool) -> Tested:
    """Have the image built, pushed as a candidate and verified, and release it."""
    candidate = Candidate(ctx)

    def remove() -> None:
        builder.discard(ctx, candidate)
        candidate.untag()

    try:
        built = builder.build(ctx, candidate, started, force=force)
        manifest = built.manifest
        record = make_record(ctx, manifest.digest, built.results, built.facts)
        other = None if force else _released_meanwhile(ctx, manifest)
        if other is None:
            papers = prepare_papers(ctx, manifest, started, builder=builder.identity(ctx))
            _release(ctx, manifest, record, built.facts, papers)
    except Exception:
        remove()
        raise
    except BaseException:
        cleanup_on_interrupt(remove, last=True)
        raise
    remove()
    return _ready(ctx, manifest, "built", record) if other is None else _reuse(ctx, builder, other)


def _released_meanwhile(ctx: ImageContext, ours: Manifest) -> Manifest | None:
    """Return the same image, if another run has released it since this one began.

    The first one stays: two runs of one commit train in one digest, and so submit one job.
    """
    found = ctx.registry.get_manifest(ctx.repository, ctx.spec.address_tag)
    if found is None or found.digest in (ours.digest, ctx.damaged):
        return None
    ctx.note(f"Another run has released this image meanwhile: {found.digest[:19]} is used.")
    return found


def _release(ctx: ImageContext, manifest: Manifest, record: TestRecord | None, facts: Facts, papers: Papers) -> None:
    """Put the image under its tags; the address, by which readers find all, is last."""
    tags = (_digest_tag(manifest.digest), *ctx.release_tags)
    release(ctx.registry, manifest, source=ctx.candidates, repository=ctx.repository, tags=tags)
    if not hold_image(ctx, manifest):  # A clean-up has deleted the same digest, an old release that was built again.
        release(ctx.registry, manifest, source=ctx.candidates, repository=ctx.repository, tags=tags)
        hold_image(ctx, manifest)
    _lock(ctx, manifest)
    if record is not None:
        store_record(ctx.registry, ctx.repository, record)
    store_facts(ctx.registry, ctx.repository, manifest.digest, facts)
    keep_papers(ctx, manifest, papers)
    # The next build's cache is no part of the release.
    for tag in (ctx.spec.address_tag, CACHE_TAG):
        ctx.registry.put_tag(ctx.repository, tag, manifest)
    if ctx.location.engine_runs_jobs:
        # All layers are there: this only names the image by its digest, so that the job finds it in the engine.
        ctx.keep_for_jobs(manifest)


def _lock(ctx: ImageContext, manifest: Manifest) -> None:
    """Make the digest's tag immutable if the registry can; a refusal is only reported."""
    tag = _digest_tag(manifest.digest)
    if not ctx.spec.release.lock or not ctx.registry.can_lock or ctx.registry.lock_tag(ctx.repository, tag):
        return
    ctx.note(
        f"The tag {ctx.repository}:{tag[:16]}… is not locked: {ctx.registry.host} does not let this identity change "
        "attributes. A role with registries/metadata/write can; `image.lock: false` leaves it."
    )


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


def _digest_tag(digest: str) -> str:
    """Return the tag that keeps a used digest for ever, whatever happens to others."""
    return f"dig-{digest.removeprefix('sha256:')}"
