"""The image stage: have the image in the registry, with its tests passed in it, doing no more than is needed.

One digest throughout: what the tests ran in is, byte for byte, what is released. The engine pushes to a *candidate* repository;
after the tests the same manifest bytes are put under the release tags.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Final, Literal

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import ImageReady, Listener, Notice, StageStarted
from aml_train.core.references import ImageRef
from aml_train.core.retry import retry
from aml_train.core.threads import CancelToken, cleanup_on_interrupt, drain, run_parallel
from aml_train.image.build.build import BUILD_TIMEOUT, build_image
from aml_train.image.build.cache import CACHE_TAG, LAYERS_TAG, Cache, engine_cache_kind
from aml_train.image.completeness import lost_part
from aml_train.image.disk import check_disk
from aml_train.image.leftovers import candidate_tag
from aml_train.image.push import push_image, read_back, release
from aml_train.image.readiness.check import store_facts
from aml_train.image.readiness.facts import Facts
from aml_train.image.records import store_record
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, Tested, TestRecord, TestSpec
from aml_train.image.trial import Trial
from aml_train.image.work import Work

if TYPE_CHECKING:
    from docker import DockerClient

# Build, tests and push of any sane length; it counts only where an owner's life cannot be asked for.
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

    Image and record there: nothing is built, pulled or run. An image of which the registry has lost a part is built again. Image there without a record of these tests: they run. Otherwise
    it is built, pushed as a candidate while it is checked and the tests run in it, and released.

    Args:
        spec: the image.
        tests: the tests, or None where none are configured.
        engine: the engine that builds and runs the tests.
        cli: finds the command to build with; asked only where something is built.
        location: the registry.
        listener: told what happens; called from two threads, one at a time only if it sees to that
            (:class:`aml_train.core.events.Broadcast` does).
        force: build anew, without the engine's build cache, and test again.
        commit: recorded with the tests.
        release_tags: more tags for the released image.

    Raises:
        ImageError: if it cannot be built, pushed, found or verified, or a readiness check fails; nothing is released then.
        TestsFailedError: if the tests fail; nothing is released then.
        TimedOutError: if the build takes too long.
    """
    import requests
    from docker.errors import DockerException

    with location.client() as registry, drain():
        tags = tuple(dict.fromkeys([*spec.release.tags, *release_tags]))
        work = Work(
            spec=spec,
            tests=tests,
            engine=engine,
            cli=cli,
            location=location,
            listener=listener,
            commit=commit,
            release_tags=tags,
            registry=registry,
        )
        try:
            return _Stage(work).run(force=force)
        except (DockerException, requests.RequestException) as error:
            # Of the engine: the registry's client tells its own. What was expected to fail is caught where it does.
            raise ImageError(
                f"the Docker engine failed or went away: {error}",
                hint="Nothing was released. See the engine's log (journalctl -u docker) and run again: what was built is cached.",
            ) from error


def find_image(spec: ImageSpec, *, location: RegistryLocation) -> Tested | None:
    """Return the image of *spec* as it is in the registry, or None. Nothing is built, run or pulled.

    Its tests are not asked about: who only wants to know which job ran in it need not know.

    Raises:
        ImageError: if the registry refuses or does not answer.
    """
    with location.client() as registry:
        found = registry.get_manifest(spec.repository, spec.address_tag)
    if found is None:
        return None
    return Tested(
        reference=ImageRef.parse(f"{location.job_name}/{spec.repository}@{found.digest}"),
        digest=found.digest,
        address=spec.address,
        how="found",
        record=None,
        compressed_bytes=found.layer_bytes,
    )


@dataclass(frozen=True)
class _Stage:
    """One run of the stage, step by step.

    Attributes:
        work: its parameters.
        damaged: digest of the image at this address of which the registry has lost a part; None for no such image.
    """

    work: Work
    damaged: str | None = None

    @property
    def _trial(self) -> Trial:
        return Trial(self.work)

    @property
    def candidate(self) -> str:
        """The repository that the engine pushes to before the tests have passed."""
        return f"{self.work.spec.repository}-candidate"

    def run(self, *, force: bool) -> Tested:
        started = time.monotonic()
        self.work.listener(
            StageStarted(
                stage="image", title=f"image {self.work.spec.repository} on {self.work.spec.base.reference.familiar}"
            )
        )
        found = (
            None if force else self.work.registry.get_manifest(self.work.spec.repository, self.work.spec.address_tag)
        )
        if found is None:
            return self._make(started, force)
        if not self._whole(found):
            return replace(self, damaged=found.digest)._make(started, force)
        self.work.finish("image", f"found {found.digest[:19]}", started, skipped=True)
        return self._reuse(found)

    def _whole(self, found: Manifest) -> bool:
        """Return whether all parts of *found* are in the registry; a lost one is reported."""
        repository = self.work.spec.repository
        try:
            lost = lost_part(self.work.registry, repository, found)
        except ImageError as error:
            self.work.warn(f"Whether all of {repository}@{found.digest[:19]} is there is not known: {error.message}")
            return True
        if lost is not None:
            self.work.warn(
                f"The registry has lost {lost[:19]}, a part of the released image {repository}@{found.digest[:19]}: the image "
                "is built again."
            )
        return lost is None

    def _reuse(self, found: Manifest) -> Tested:
        """Take the image that the registry has, checked and tested; it gets this run's tags as well."""
        record = self._trial.of_found(found)
        for tag in (_digest_tag(found.digest), *self.work.release_tags):
            head = self.work.registry.head_manifest(self.work.spec.repository, tag)
            if head is None or head.digest != found.digest:
                self.work.registry.put_tag(self.work.spec.repository, tag, found)
                if tag == _digest_tag(found.digest):
                    self._lock(found)
        return self._ready(found, "found", record)

    def _make(self, started: float, force: bool) -> Tested:
        """Build, push and test at once, release."""
        name = f"{self.work.location.push_name}/{self.candidate}"
        tag = candidate_tag(self.work.engine, _CANDIDATE_LEASE)
        pushed: list[Manifest] = []
        try:
            manifest, record, facts = self._build_and_test(name, tag, started, force, pushed)
            other = None if force else self._released_meanwhile(manifest)
            if other is None:
                self._release(manifest, record, facts)
        except Exception:
            self._forget(name, tag, pushed=bool(pushed))
            raise
        except BaseException:
            cleanup_on_interrupt(partial(self._forget, name, tag, pushed=bool(pushed)), last=True)
            raise
        self._forget(name, tag, pushed=True)
        return self._ready(manifest, "built", record) if other is None else self._reuse(other)

    def _released_meanwhile(self, ours: Manifest) -> Manifest | None:
        """Return the image of the same content that another run has released since this one began.

        The first one stays: two runs of one commit train in one digest, and so submit one job.
        """
        found = self.work.registry.get_manifest(self.work.spec.repository, self.work.spec.address_tag)
        if found is None or found.digest in (ours.digest, self.damaged):
            return None
        self.work.listener(
            Notice(text=f"Another run has released this image meanwhile: {found.digest[:19]} is used.")
        )
        return found

    def _build_and_test(
        self, name: str, tag: str, started: float, force: bool, pushed: list[Manifest]
    ) -> tuple[Manifest, TestRecord | None, Facts]:
        """Build ``name:tag``, push and test it at once. *pushed* gets the manifest as soon as it is pushed."""
        cli = self.work.cli()
        check_disk(
            self.work.spec.base,
            self.work.spec.platform,
            engine=self.work.engine,
            environ=cli.environ,
            listener=self.work.listener,
        )
        image_id = build_image(
            self.work.spec,
            cli=cli,
            engine=self.work.engine,
            tag=f"{name}:{tag}",
            listener=self.work.listener,
            no_cache=force,
            cache=self._cache(cli),
        )
        self.work.finish("image", f"built {image_id[:19]}", started)

        def push(token: CancelToken) -> Manifest:
            manifest = self._push(name, tag, image_id, token)
            pushed.append(manifest)
            return manifest

        (results, facts), manifest = run_parallel(
            lambda token: self._trial.inside(image_id, token), push, name="push", ended="The tests were ended."
        )
        return manifest, self._trial.record(manifest.digest, results, facts), facts

    def _release(self, manifest: Manifest, record: TestRecord | None, facts: Facts) -> None:
        """Put the image under its tags, with what is known of it. The address comes last: who finds it finds everything."""
        tags = (_digest_tag(manifest.digest), *self.work.release_tags)
        release(self.work.registry, manifest, source=self.candidate, repository=self.work.spec.repository, tags=tags)
        self._lock(manifest)
        if record is not None:
            store_record(self.work.registry, self.work.spec.repository, record)
        store_facts(self.work.registry, self.work.spec.repository, manifest.digest, facts)
        # The next build's cache is no part of the release.
        for tag in (self.work.spec.address_tag, CACHE_TAG):
            self.work.registry.put_tag(self.work.spec.repository, tag, manifest)
        if self.work.location.engine_runs_jobs:
            # Everything is there: this only names it by its digest, so that the job finds it in the engine.
            self.work.pull(manifest)

    def _lock(self, manifest: Manifest) -> None:
        """Make the tag of the digest immutable, where the registry can do that; that it may not is told, and no more."""
        tag = _digest_tag(manifest.digest)
        if (
            self.work.spec.release.lock
            and self.work.registry.can_lock
            and not self.work.registry.lock_tag(self.work.spec.repository, tag)
        ):
            self.work.listener(
                Notice(
                    text=f"The tag {self.work.spec.repository}:{tag[:16]}… is not locked: {self.work.registry.host} does not let this "
                    "identity change attributes. A role with registries/metadata/write can; `image.lock: false` leaves it."
                )
            )

    def _cache(self, cli: BuildCli) -> Cache:
        """Where the build finds earlier ones: the image that was released last, or the layers that a build left beside it."""
        kind = engine_cache_kind(self.work.engine, buildx=cli.buildx)
        tag = CACHE_TAG if kind == "inline" else LAYERS_TAG
        return Cache(
            kind=kind,
            repository=f"{self.work.location.push_name}/{self.work.spec.repository}",
            # A lost layer may be one of the cache's, which BuildKit would fail to fetch.
            found=self.damaged is None
            and self.work.registry.head_manifest(self.work.spec.repository, tag) is not None,
            logins=self.work.location.logins(self.work.spec.base.reference.registry),
        )

    def _push(self, name: str, tag: str, image_id: str, token: CancelToken) -> Manifest:
        """Push the candidate and check what arrived."""
        with self.work.stage("push", f"push to {self.work.location.push_name}") as done:
            check = partial(self.work.registry.check_push, self.candidate)
            check()  # the engine would take a minute to say that it may not

            def push() -> str:
                auth = self.work.location.credentials()
                return push_image(self.work.engine, name, tag, auth=auth, listener=self.work.listener, token=token)

            digest = retry(
                push, check=check, renew=self.work.location.renew, listener=self.work.listener, token=token
            )
            manifest = read_back(self.work.registry, self.candidate, digest, image_id)
            token.raise_if_cancelled()
            done(f"pushed {digest[:19]}")
        return manifest

    def _forget(self, name: str, tag: str, *, pushed: bool) -> None:
        """Take the candidate's tag away, in the engine and, where the registry can, there. A failure is told, and no more."""
        from docker.errors import APIError

        try:
            self.work.engine.images.remove(f"{name}:{tag}", noprune=True)
        except APIError as error:
            # 404: the build failed before there was an image. 409: a test container of another run uses the same image.
            if error.status_code not in (404, 409):
                self.work.warn(
                    f"The candidate {name}:{tag} stays on the engine until the next run: {error.explanation}"
                )
        if pushed:
            self._untag(name, tag)

    def _untag(self, name: str, tag: str) -> None:
        """Take the candidate's tag away in the registry. Where a role is lacking for it, one notice names the role."""
        import requests

        try:
            if self.work.registry.untag(self.candidate, tag):
                return
        except (requests.RequestException, ImageError) as error:
            self.work.warn(f"The candidate {name}:{tag} stays in the registry: {error}")
            return
        if (
            self.work.registry.can_lock
        ):  # no role of another registry would end it, and docs/registry.md says what does
            self.work.listener(Notice(text=_CANDIDATE_STAYS.format(repository=self.candidate, tag=tag)))

    def _ready(self, manifest: Manifest, how: Literal["built", "found"], record: TestRecord | None) -> Tested:
        reference = ImageRef.parse(f"{self.work.location.job_name}/{self.work.spec.repository}@{manifest.digest}")
        size = manifest.layer_bytes
        self.work.listener(
            ImageReady(
                reference=str(reference),
                digest=manifest.digest,
                address=self.work.spec.address,
                how=how,
                compressed_bytes=size,
            )
        )
        return Tested(
            reference=reference,
            digest=manifest.digest,
            address=self.work.spec.address,
            how=how,
            record=record,
            compressed_bytes=size,
        )


def _digest_tag(digest: str) -> str:
    """Return the tag that keeps a used digest for ever, whatever happens to the others."""
    return f"dig-{digest.removeprefix('sha256:')}"
