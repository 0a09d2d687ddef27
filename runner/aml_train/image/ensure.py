"""The image stage: find or build the image, verify it, and release it.

One digest throughout: the image that the tests ran in is, byte for byte, the one that is released. The engine pushes to a
*candidate* repository; after the tests the same manifest bytes are put under the release tags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import ImageReady, Listener, StageStarted
from aml_train.core.references import ImageRef
from aml_train.core.retry import retry
from aml_train.core.threads import CancelToken, cleanup_on_interrupt, drain, run_parallel
from aml_train.image.build.build import BUILD_TIMEOUT, build_image
from aml_train.image.build.cache import CACHE_TAG, LAYERS_TAG, Cache, engine_cache_kind
from aml_train.image.context import ImageContext
from aml_train.image.disk import check_disk
from aml_train.image.leftovers import candidate_tag
from aml_train.image.papers import Papers, check_found, keep_papers, prepare_papers
from aml_train.image.push import lost_part, push_image, read_back, release
from aml_train.image.readiness.check import probe_image, store_facts
from aml_train.image.readiness.facts import Facts
from aml_train.image.records import store_record
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, Tested, TestRecord, TestSpec
from aml_train.image.verify import make_record, verify_found, verify_image

if TYPE_CHECKING:
    from docker import DockerClient

# Build, tests and push of any sane length; it counts only if the owner's life cannot be looked up.
_CANDIDATE_LEASE: Final = BUILD_TIMEOUT + 24 * 3600


# Roles: https://learn.microsoft.com/azure/container-registry/container-registry-rbac-built-in-roles-overview; the command:
# https://learn.microsoft.com/azure/container-registry/container-registry-auto-purge.
_CANDIDATE_STAYS: Final = (
    "The candidate {repository}:{tag} stays in the registry, as those of other runs do, because this identity may not remove tags: "
    "AcrPush does not allow it. Assign the role AcrDelete as well (in a registry with ABAC repository permissions: Container "
    "Registry Repository Contributor), or remove candidates on a schedule: acr purge --filter '{repository}:.*' --ago 1d "
    "--untagged. See docs/registry.md."
)


def ensure_image(
    spec: ImageSpec,
    tests: TestSpec | None,
    *,
    engine: DockerClient,
    cli: Callable[[], BuildCli],
    location: RegistryLocation,
    listener: Listener,
    force: bool = False,
    commit: str | None = None,
    release_tags: Sequence[str] = (),
) -> Tested:
    """Return the image of *spec*, released in the registry, with *tests* passed in it.

    If the registry has the image and its record, nothing is built, pulled or run. If it lacks the record, the tests run. If it
    lacks the image or a part of it, the image is built, pushed as a candidate while it is verified, and released.

    Args:
        tests: the tests, or None if none are configured.
        cli: finds the command to build with; called only if an image is built.
        listener: receives the events; called from two threads, one at a time only if it sees to that
            (:class:`aml_train.core.events.Broadcast` does).
        force: build without the engine's build cache, and test again.

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
        )
        try:
            return _find_or_build(ctx, force=force)
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
    name = f"{spec.repository}-candidate:{candidate_tag(engine, _CANDIDATE_LEASE)}"
    check_disk(spec.base, spec.platform, engine=engine, environ=environ, listener=listener)
    image_id = build_image(spec, cli=cli, engine=engine, tag=name, listener=listener)
    try:
        return probe_image(engine, image_id)
    finally:
        engine.images.remove(name, noprune=True)


def _find_or_build(ctx: ImageContext, *, force: bool) -> Tested:
    started = time.monotonic()
    title = f"image {ctx.repository} on {ctx.spec.base.reference.familiar}"
    ctx.listener(StageStarted(stage="image", title=title))
    found = None if force else ctx.registry.get_manifest(ctx.repository, ctx.spec.address_tag)
    if found is None:
        return _build_and_release(ctx, started, force=force)
    if not _is_complete(ctx, found):
        return _build_and_release(replace(ctx, damaged=found.digest), started, force=force)
    ctx.finish("image", f"found {found.digest[:19]}", started, skipped=True)
    return _reuse(ctx, found)


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


def _reuse(ctx: ImageContext, found: Manifest) -> Tested:
    """Verify the image that the registry has, and give it the tags of this run."""
    record = verify_found(ctx, found)
    check_found(ctx, found)
    for tag in (_digest_tag(found.digest), *ctx.release_tags):
        head = ctx.registry.head_manifest(ctx.repository, tag)
        if head is None or head.digest != found.digest:
            ctx.registry.put_tag(ctx.repository, tag, found)
            if tag == _digest_tag(found.digest):
                _lock(ctx, found)
    return _ready(ctx, found, "found", record)


def _build_and_release(ctx: ImageContext, started: float, *, force: bool) -> Tested:
    """Build the image, push it as a candidate while it is verified, and release it."""
    candidate = _Candidate(ctx, candidate_tag(ctx.engine, _CANDIDATE_LEASE))
    try:
        manifest, record, facts = _build_and_verify(ctx, candidate, started, force=force)
        other = None if force else _released_meanwhile(ctx, manifest)
        if other is None:
            papers = prepare_papers(ctx, manifest, started)
            _release(ctx, manifest, record, facts, papers)
    except Exception:
        candidate.remove()
        raise
    except BaseException:
        cleanup_on_interrupt(candidate.remove, last=True)
        raise
    candidate.remove()
    return _ready(ctx, manifest, "built", record) if other is None else _reuse(ctx, other)


def _released_meanwhile(ctx: ImageContext, ours: Manifest) -> Manifest | None:
    """Return the same image, if another run has released it since this one began.

    The first one stays: two runs of one commit train in one digest, and so submit one job.
    """
    found = ctx.registry.get_manifest(ctx.repository, ctx.spec.address_tag)
    if found is None or found.digest in (ours.digest, ctx.damaged):
        return None
    ctx.note(f"Another run has released this image meanwhile: {found.digest[:19]} is used.")
    return found


def _build_and_verify(
    ctx: ImageContext, candidate: _Candidate, started: float, *, force: bool
) -> tuple[Manifest, TestRecord | None, Facts]:
    """Build the candidate; push it and verify it in parallel."""
    cli = ctx.cli()
    check_disk(ctx.spec.base, ctx.spec.platform, engine=ctx.engine, environ=cli.environ, listener=ctx.listener)
    image_id = build_image(
        ctx.spec,
        cli=cli,
        engine=ctx.engine,
        tag=f"{candidate.name}:{candidate.tag}",
        listener=ctx.listener,
        no_cache=force,
        cache=_cache(ctx, cli),
    )
    ctx.finish("image", f"built {image_id[:19]}", started)
    (results, facts), manifest = run_parallel(
        lambda token: verify_image(ctx, image_id, token),
        lambda token: candidate.push(image_id, token),
        name="push",
        ended="The tests were ended.",
    )
    return manifest, make_record(ctx, manifest.digest, results, facts), facts


def _release(ctx: ImageContext, manifest: Manifest, record: TestRecord | None, facts: Facts, papers: Papers) -> None:
    """Put the image under its tags; the address, by which readers find all, is last."""
    tags = (_digest_tag(manifest.digest), *ctx.release_tags)
    release(ctx.registry, manifest, source=ctx.candidates, repository=ctx.repository, tags=tags)
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
        ctx.pull(manifest)


def _lock(ctx: ImageContext, manifest: Manifest) -> None:
    """Make the digest's tag immutable if the registry can; a refusal is only reported."""
    tag = _digest_tag(manifest.digest)
    if not ctx.spec.release.lock or not ctx.registry.can_lock or ctx.registry.lock_tag(ctx.repository, tag):
        return
    ctx.note(
        f"The tag {ctx.repository}:{tag[:16]}… is not locked: {ctx.registry.host} does not let this identity change "
        "attributes. A role with registries/metadata/write can; `image.lock: false` leaves it."
    )


def _cache(ctx: ImageContext, cli: BuildCli) -> Cache:
    """Return where the build finds earlier ones: last release, or a build's layers."""
    kind = engine_cache_kind(ctx.engine, buildx=cli.buildx)
    tag = CACHE_TAG if kind == "inline" else LAYERS_TAG
    return Cache(
        kind=kind,
        repository=f"{ctx.location.push_name}/{ctx.repository}",
        # A lost layer may be one of the cache's, which BuildKit would fail to fetch.
        found=ctx.damaged is None and ctx.registry.head_manifest(ctx.repository, tag) is not None,
        logins=ctx.location.logins(ctx.spec.base.reference.registry),
    )


class _Candidate:
    """The tag of an image that is not yet released, on the engine and in the registry."""

    def __init__(self, ctx: ImageContext, tag: str) -> None:
        self.name = f"{ctx.location.push_name}/{ctx.candidates}"
        self.tag = tag
        self._ctx = ctx
        self._pushed = False

    def push(self, image_id: str, token: CancelToken) -> Manifest:
        """Push it, and check the manifest that arrived."""
        ctx = self._ctx
        with ctx.stage("push", f"push to {ctx.location.push_name}") as summary:
            check = partial(ctx.registry.check_push, ctx.candidates)
            check()  # the engine would take a minute to report a refusal

            def push() -> str:
                auth = ctx.location.credentials()
                return push_image(ctx.engine, self.name, self.tag, auth=auth, listener=ctx.listener, token=token)

            digest = retry(push, check=check, renew=ctx.location.renew, listener=ctx.listener, token=token)
            manifest = read_back(ctx.registry, ctx.candidates, digest, image_id)
            token.raise_if_cancelled()
            summary.append(f"pushed {digest[:19]}")
        self._pushed = True
        return manifest

    def remove(self) -> None:
        """Remove its tag from engine and registry; a failure is only reported."""
        from docker.errors import APIError

        try:
            self._ctx.engine.images.remove(f"{self.name}:{self.tag}", noprune=True)
        except APIError as error:
            # 404: the build failed before there was an image. 409: a test container of another run uses the same image.
            if error.status_code not in (404, 409):
                self._ctx.warn(
                    f"The candidate {self.name}:{self.tag} stays on the engine until the next run: {error.explanation}"
                )
        if self._pushed:
            self._untag()

    def _untag(self) -> None:
        """Remove its tag from the registry; one notice names a missing role."""
        import requests

        ctx = self._ctx
        try:
            if ctx.registry.untag(ctx.candidates, self.tag):
                return
        except (requests.RequestException, ImageError) as error:
            ctx.warn(f"The candidate {self.name}:{self.tag} stays in the registry: {error}")
            return
        if ctx.registry.can_lock:  # in another registry no role would help, and docs/registry.md says what does
            ctx.note(_CANDIDATE_STAYS.format(repository=ctx.candidates, tag=self.tag))


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
