"""The Protocol of builders: the image stage does not know which one it uses.

Every builder gives the same: a candidate in the registry whose manifest digest was verified. Address, record, release and
the first run that wins are the stage's own (:mod:`aml_train.image.ensure`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

import requests

from aml_train.core.errors import ImageError
from aml_train.core.events import TestsFinished
from aml_train.image.build.build import BUILD_TIMEOUT
from aml_train.image.context import ImageContext
from aml_train.image.leftovers import candidate_tag
from aml_train.image.readiness.facts import Facts
from aml_train.image.registry.manifest import Manifest

# Roles: https://learn.microsoft.com/azure/container-registry/container-registry-rbac-built-in-roles-overview; the command:
# https://learn.microsoft.com/azure/container-registry/container-registry-auto-purge.
_CANDIDATE_STAYS: Final = (
    "The candidate {repository}:{tag} stays in the registry, as those of other runs do, because this identity may not remove tags: "
    "AcrPush does not allow it. Assign the role AcrDelete as well (in a registry with ABAC repository permissions: Container "
    "Registry Repository Contributor), or remove candidates on a schedule: acr purge --filter '{repository}:.*' --ago 1d "
    "--untagged. See docs/registry.md."
)


class Candidate:
    """The tag of an image that is not yet released.

    Attributes:
        name: registry and repository, as the engine names them.
        tag: unique for this run; carries its owner and its lease.
        pushed: whether the registry may have the tag.
    """

    def __init__(self, ctx: ImageContext, tag: str | None = None) -> None:
        self.name = f"{ctx.location.push_name}/{ctx.candidates}"
        # Build, tests and push of any sane length; the lease counts only if the owner's life cannot be looked up.
        self.tag = candidate_tag(ctx.engine, BUILD_TIMEOUT + 24 * 3600) if tag is None else tag
        self.pushed = False
        self._ctx = ctx

    def manifest(self, digest: str | None = None) -> Manifest:
        """Return the manifest that the registry has under the tag.

        Args:
            digest: what the builder reported; a tag that is unique has no other one.

        Raises:
            ImageError: the registry lacks it, or has another one than was reported.
        """
        ctx = self._ctx
        found = ctx.registry.get_manifest(ctx.candidates, self.tag)
        if found is None:
            raise ImageError(
                f"the registry {ctx.registry.host} does not have {ctx.candidates}:{self.tag}, which was just pushed",
                hint="Check that the builder pushes to the target's registry: `registry` and `push-registry` of the target.",
            )
        if digest is not None and found.digest != digest:
            raise ImageError(
                f"{ctx.registry.host} has {found.digest} as {ctx.candidates}:{self.tag}, the builder pushed {digest}",
                hint="Run again. If it happens again, something between the builder and the registry changes images.",
            )
        return found

    def untag(self) -> None:
        """Remove the tag from the registry; one notice names a missing role."""

        ctx = self._ctx
        if not self.pushed:
            return
        try:
            if ctx.registry.untag(ctx.candidates, self.tag):
                return
        except (requests.RequestException, ImageError) as error:
            ctx.warn(f"The candidate {self.name}:{self.tag} stays in the registry: {error}")
            return
        if ctx.registry.can_lock:  # in another registry no role would help, and docs/registry.md says what does
            ctx.note(_CANDIDATE_STAYS.format(repository=ctx.candidates, tag=self.tag))


@dataclass(frozen=True, kw_only=True)
class Verified:
    """A candidate that is in the registry, and was checked and tested.

    Attributes:
        manifest: the manifest that the registry has; checks and tests ran in this image.
        results: the tests' results; None if none are configured.
        facts: what the readiness checks found.
    """

    manifest: Manifest
    results: TestsFinished | None
    facts: Facts


class Builder(Protocol):
    """Builds images, and verifies images of the registry."""

    def build(self, ctx: ImageContext, candidate: Candidate, started: float, *, force: bool) -> Verified:
        """Build the image, push it under the candidate's name, check and test it.

        Args:
            ctx: the image and where it goes.
            candidate: its name before the release, unique for this run.
            started: when the stage began, by ``time.monotonic``.
            force: build every step again, without the builder's cache.

        Raises:
            ImageError: it cannot be built, pushed or checked.
            TestsFailedError: the tests fail, or cannot be run here.
            TimedOutError: the build takes too long.
        """

    def verify(
        self, ctx: ImageContext, found: Manifest, *, check: bool, test: bool
    ) -> tuple[TestsFinished | None, Facts | None]:
        """Check and test a released image; None for what is not wanted.

        Raises:
            ImageError: it is not ready, or cannot be checked.
            TestsFailedError: the tests fail, or cannot be run here.
        """

    def identity(self, ctx: ImageContext) -> str:
        """Return the name of the builder for provenance: a word, and version or place."""

    def discard(self, ctx: ImageContext, candidate: Candidate) -> None:
        """Remove what the builder itself keeps under the candidate's name."""
