"""The image stage: find the image in the registry and verify it, or have it built.

The code of a build is in :mod:`aml_train.image.make`, which is imported for a build alone.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

import requests
from docker.errors import DockerException

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import Event, ImageChecked, ImageReady, Listener, StageStarted, TestsFinished
from aml_train.core.references import ImageRef
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.context import ImageContext
from aml_train.image.make import address_of, digest_tag, lock, make_image, put_release_tags
from aml_train.image.push import release
from aml_train.image.records import known_record
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, Tested, TestRecord, TestSpec
from aml_train.image.verify import read_record, verify_found

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.image.builder import Builder


def ensure_image(
    spec: ImageSpec,
    tests: TestSpec | None,
    *,
    engine: DockerClient | None,
    cli: Callable[[], BuildCli],
    location: RegistryLocation,
    listener: Listener,
    builder: Callable[[], Builder] | None = None,
    job_engine: DockerClient | None = None,
    force: bool = False,
    commit: str | None = None,
    release_tags: Sequence[str] = (),
) -> Tested:
    """Return the image of *spec*, released in the registry, with *tests* passed in it.

    A proposal uses the image that the protected branch has released, if there is one; the protected branch uses its own alone.

    If the registry has the image and its record, nothing is built, pulled or run. If it lacks the record, the tests run. If it
    lacks the image, it is built, pushed as a candidate while it is verified, and released.

    Args:
        tests: the tests, or None if none are configured.
        engine: the engine that builds and tests; None where a service does.
        cli: finds the command to build with; called only if an image is built.
        listener: receives the events; called from two threads, one at a time only if it sees to that
            (:class:`aml_train.core.events.Broadcast` does).
        builder: gives what builds and tests, by default *engine*; called only if an image is built or tests run.
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
            cli=cli,
            location=location,
            registry=registry,
            listener=_naming(listener, spec.name) if spec.name else listener,
            commit=commit,
            release_tags=tuple(dict.fromkeys([*spec.release.tags, *release_tags])),
            job_engine=job_engine,
        )
        try:
            return _find_or_build(ctx, builder or EngineBuilder, force=force)
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
        ctx = ImageContext(
            spec=spec,
            tests=tests,
            engine=None,
            cli=_no_cli,
            location=location,
            registry=registry,
            listener=listener,
            release_tags=spec.release.tags,
        )
        _put_tags(ctx, found)
        return _tested(spec, location, found, "found", record)


def _no_cli() -> BuildCli:
    raise ValueError("nothing is built")


def locate_image(registry: Registry, spec: ImageSpec) -> tuple[ImageSpec, Manifest] | None:
    """Return where the registry has the image of *spec*; None if it lacks it."""
    for one in filter(None, (spec.released, spec)):
        if (found := registry.get_manifest(one.repository, one.address_tag)) is not None:
            return replace(one, address=address_of(registry, one, found.digest)), found
    return None


def _find_or_build(ctx: ImageContext, builder: Callable[[], Builder], *, force: bool) -> Tested:
    started = time.monotonic()
    title = f"image {ctx.repository} on {ctx.spec.base.reference.familiar}"
    ctx.listener(StageStarted(stage="image", title=title))
    for spec in filter(None, (ctx.spec.released, ctx.spec)):
        found = None if force else ctx.registry.get_manifest(spec.repository, spec.address_tag)
        if found is None:
            continue
        where = replace(ctx, spec=spec)
        record = read_record(where, found.digest)
        ctx.finish("image", f"found {found.digest[:19]}", started, skipped=True)
        return _reuse(where, builder, found, record)
    return _build(ctx, builder, started, force=force)


def _build(ctx: ImageContext, builder: Callable[[], Builder], started: float, *, force: bool) -> Tested:
    """Have the image built and released, unless another run is quicker."""

    manifest, record, released = make_image(ctx, builder(), started, force=force)
    if released:
        return _ready(ctx, manifest, "built", record)
    return _reuse(ctx, builder, manifest, read_record(ctx, manifest.digest))


def _reuse(ctx: ImageContext, builder: Callable[[], Builder], found: Manifest, record: TestRecord | None) -> Tested:
    """Verify the image that the registry has, and give it the tags of this run."""
    record = verify_found(ctx, found, builder, record)
    _put_tags(ctx, found)
    return _ready(ctx, found, "found", record)


def _put_tags(ctx: ImageContext, found: Manifest) -> None:
    """Give an image that the registry has the tags of this run."""
    if ctx.registry.head_manifest(ctx.own, digest_tag(found.digest)) is None:
        # A released image that a proposal uses gets its names in the proposals' repository.
        release(ctx.registry, found, source=ctx.repository, repository=ctx.own, tags=[digest_tag(found.digest)])
        lock(ctx, found)
    put_release_tags(ctx, found)


def _ready(
    ctx: ImageContext, manifest: Manifest, how: Literal["built", "found"], record: TestRecord | None
) -> Tested:
    spec = replace(ctx.spec, address=address_of(ctx.registry, ctx.spec, manifest.digest))
    image = _tested(spec, ctx.location, manifest, how, record)
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
