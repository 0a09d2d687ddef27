"""The Protocol of builders: the image stage does not know which one it uses.

Every builder gives the same: a candidate in the registry whose manifest digest was verified. Address, record, release and
the first run that wins are the stage's own (:mod:`aml_train.image.ensure`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from aml_train.core.events import TestsFinished

if TYPE_CHECKING:
    from aml_train.image.candidate import Candidate
    from aml_train.image.context import ImageContext
    from aml_train.image.readiness.facts import Facts
    from aml_train.image.registry.manifest import Manifest


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
