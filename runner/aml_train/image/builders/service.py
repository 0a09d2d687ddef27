"""The builder of a service: nothing is built or run on this machine."""

from __future__ import annotations

import contextlib
import secrets
import tarfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import IO, Protocol

from aml_train.core.errors import Fault, ImageError, InvalidError
from aml_train.core.events import Event, LogLine, Progress, TestsFinished
from aml_train.core.references import ImageRef
from aml_train.core.temporary import temporary_folder
from aml_train.core.text import Piece
from aml_train.image.build.build import (
    BUILD_TIMEOUT,
    Build,
    check_named,
    comparison,
    secret_masker,
)
from aml_train.image.build.progress import PlainProgress
from aml_train.image.builder import Candidate, Verified
from aml_train.image.builders.verification import (
    Findings,
    read_findings,
    verification_dockerfile,
    verification_files,
)
from aml_train.image.context import ImageContext
from aml_train.image.readiness.check import NO_RESULT, parse_facts
from aml_train.image.readiness.facts import Facts
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.manifest import Manifest
from aml_train.image.spec import ImageSpec, TestSpec
from aml_train.image.testing.junit import ClosingLines
from aml_train.image.testing.run import conclude
from aml_train.image.verify import judge, start_checks


@dataclass(frozen=True, kw_only=True)
class ServiceBuild(Build):
    """One build that a service does.

    Attributes:
        name: unique, so that the build can be found by it: letters, digits, ``-``, ``.`` and ``_``.
        image: repository and tag that the result is pushed as; None if it is not.
        network: whether the steps have a network.
        shm: bytes of ``/dev/shm``; None for the builder's own.
        memlock: bytes of memory that may be locked, -1 for no bound; None for the builder's own bound.
        timeout: seconds.
        login: registry of the base and its credentials, if it needs any.
    """

    name: str
    image: str | None = None
    network: bool = True
    shm: int | None = None
    memlock: int | None = None
    timeout: float = BUILD_TIMEOUT
    login: tuple[str, RegistryAuth] | None = field(default=None, repr=False)

    def pack(self, target: IO[bytes]) -> None:
        """Write a compressed archive of ``Dockerfile`` and the folder ``context``."""
        with temporary_folder("build") as folder, tarfile.open(fileobj=target, mode="w:gz") as archive:
            self.write(folder)
            for name in ("Dockerfile", "context"):
                archive.add(folder / name, arcname=name, filter=_as_root)


def _as_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


class BuildService(Protocol):
    """A service that builds images for the target's registry."""

    @property
    def title(self) -> str:
        """Its name for people, such as ``ACR Tasks of myregistry.azurecr.io``."""

    @property
    def identity(self) -> str:
        """Its name for the provenance of images: a word, and its place."""

    @property
    def where(self) -> str:
        """The place of the builder in the user's file."""

    def build(self, build: ServiceBuild, on_piece: Callable[[Piece], object]) -> bool:
        """Build and push; return whether the build succeeded.

        An interruption cancels the build in the service.

        Args:
            on_piece: receives the log as it grows.

        Raises:
            ServiceError: the service refuses or does not answer.
            TimedOutError: the build took longer than its time.
            CancelledError: it was cancelled in the service.
        """


class ServiceBuilder:
    """Builds and verifies images in a service.

    Args:
        service: does the builds.
        login: gives the credentials of a base's registry that Docker's configuration has, or None.
        timeout: seconds that a build may take.
    """

    def __init__(
        self,
        service: BuildService,
        *,
        login: Callable[[str], RegistryAuth | None],
        timeout: float | None,
    ) -> None:
        self._service = service
        self._login = login
        self._timeout = timeout or BUILD_TIMEOUT

    def build(self, ctx: ImageContext, candidate: Candidate, started: float, *, force: bool) -> Verified:
        """See :class:`Builder`."""
        self._check(ctx)
        spec = ctx.spec
        ctx.note(f"The image is built by {self._service.title}; nothing is pulled to this machine.")
        ctx.registry.check_push(ctx.candidates)
        # Before the request: from here on the registry may get the tag.
        candidate.pushed = True
        image, login = f"{ctx.candidates}:{candidate.tag}", self._base_login(ctx)

        def run(one: ImageSpec, name: str, image: str | None) -> None:
            timeout = self._timeout
            build = ServiceBuild(spec=one, no_cache=force, name=name, image=image, timeout=timeout, login=login)
            self._run(ctx, build)

        run(spec, candidate.tag, image)
        manifest = candidate.manifest()
        candidate_name = f"{ctx.location.job_name}/{ctx.candidates}@{manifest.digest}"
        if (check := comparison(spec, candidate_name)) is not None:
            run(check, f"protect-{secrets.token_hex(8)}", None)
        ctx.finish("image", f"built and pushed {manifest.digest[:19]}", started)
        results, facts = self._verify(ctx, ctx.candidates, manifest, check=True, test=ctx.tests is not None)
        return Verified(manifest=manifest, results=results, facts=facts or {})

    def verify(
        self, ctx: ImageContext, found: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        """See :class:`Builder`."""
        self._check(ctx)
        return self._verify(ctx, ctx.repository, found, check=check, test=test)

    def identity(self, ctx: ImageContext) -> str:
        """See :class:`Builder`."""
        del ctx
        return self._service.identity

    def discard(self, ctx: ImageContext, candidate: Candidate) -> None:
        """Nothing is kept outside the registry."""

    def _check(self, ctx: ImageContext) -> None:
        """Raise InvalidError for what cannot be done in a service.

        The configuration refuses everything that it shows by itself (``config/sections/images.py``).
        """
        if ctx.tests is not None and ctx.tests.keep:
            what, remedy = "the tests' container cannot be kept", "use `local`, or do not keep it"
            fault = Fault(where=self._service.where, what=what, why="it is not on this machine", remedy=remedy)
            raise InvalidError([fault])

    def _base_login(self, ctx: ImageContext) -> tuple[str, RegistryAuth] | None:
        """Return the credentials of the base's registry, unless it is the target's own."""
        registry = ctx.spec.base.reference.registry
        if registry in (ctx.location.push_name, ctx.location.job_name):
            return None
        found = self._login(registry) or ctx.location.logins(registry).get(registry)
        return None if found is None or not found.password else (registry, found)

    def _run(self, ctx: ImageContext, build: ServiceBuild, closing: ClosingLines | None = None) -> None:
        """Have *build* done; report its log, and raise ImageError if it fails or names other images than were pinned.

        With *closing*, which reads the lines, it is a build of the tests.
        """
        progress = PlainProgress(build.spec.places)
        masker = secret_masker([] if build.login is None else [build.login[1].password])

        def feed(piece: Piece) -> None:
            for event in progress.feed(masker.mask(piece.text), more=piece.more):
                shown = event if closing is None else _of_tests(event)
                if closing is not None and isinstance(shown, LogLine):
                    closing.feed(shown.text)
                if shown is not None:
                    ctx.listener(shown)

        if not self._service.build(build, feed):
            error = progress.error(1)
            error.message = f"{self._service.title}: {error.message}"
            raise error
        check_named(build.spec, progress.named)

    def _verify(
        self, ctx: ImageContext, repository: str, manifest: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        """Check and test an image in the service; read the results from the registry."""
        tests, closing = ctx.tests if test else None, ClosingLines()
        started, facts, results = start_checks(ctx) if check else 0.0, None, None
        with contextlib.ExitStack() as stack:
            summary: list[str] = []
            if tests is not None:
                summary = stack.enter_context(ctx.stage("tests", f"tests in the image: {tests.command}"))
                self._note_limits(ctx, tests)
            findings = self._findings(ctx, f"{repository}@{manifest.digest}", tests, closing, check=check)
            if check:
                if findings.facts is None:
                    raise ImageError("the checks of the image came to no result", hint=NO_RESULT)
                facts = parse_facts(findings.facts)
                judge(ctx, facts, started)
            if tests is not None:
                if findings.end is None:
                    raise ImageError(
                        f"{self._service.title} ended without a result of the tests",
                        hint="The lines above say why. Run again; if it happens again, test with `image.builder: local`.",
                    )
                results = conclude(tests, findings.end, findings.written, closing, ctx.listener)
                summary.append("passed" if results.passed is None else f"{results.passed} passed")
        return results, facts

    def _findings(
        self, ctx: ImageContext, image: str, tests: TestSpec | None, closing: ClosingLines, *, check: bool
    ) -> Findings:
        own = Candidate(ctx)  # a tag that is removed afterwards, as a candidate's
        own.pushed = True
        reference = ImageRef.parse(f"{ctx.location.job_name}/{image}")
        files = {"files.tar": verification_files(tests, check=check)}
        build = ServiceBuild(
            spec=ctx.spec.with_dockerfile(verification_dockerfile(reference, own.tag), files),
            name=own.tag,
            image=f"{ctx.candidates}:{own.tag}",
            no_cache=True,
            network=tests is not None and tests.network,
            shm=tests.limits.shm if tests is not None else None,
            memlock=tests.limits.memlock if tests is not None else None,
            timeout=900.0 + (0.0 if tests is None else tests.timeout),  # the image is pulled, and probed
        )
        try:
            self._run(ctx, build, closing)
            return read_findings(ctx.registry, ctx.candidates, own.tag)
        finally:
            own.untag()

    def _note_limits(self, ctx: ImageContext, tests: TestSpec) -> None:
        """Report the limits that the service does not apply."""
        given = [f"tests.{name}" for name in ("cpus", "memory") if getattr(tests.limits, name) is not None]
        if given:
            ctx.note(f"{', '.join(given)}: {self._service.title} does not apply them.")


def _of_tests(event: Event) -> Event | None:
    """Return a line of the build as one of the tests; None for the build's own steps."""
    if isinstance(event, Progress):
        return None
    return replace(event, source="tests", origin="") if isinstance(event, LogLine) else event
