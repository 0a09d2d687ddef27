"""Execute a clean-up's plan: each manifest is checked again before its deletion.

Nothing is remembered between two clean-ups: what was deleted is gone, the rest is planned again.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Literal

from aml_train.core.errors import ImageError
from aml_train.image.completeness import CONNECTIONS
from aml_train.image.leases import lease_tags, mark_end, mark_tag
from aml_train.image.prune.inventory import Use
from aml_train.image.prune.plan import Deletion, Graph, PrunePlan, TagRemoval
from aml_train.image.registry.administration import (
    delete_manifest,
    describe_manifest,
    describe_tag,
)
from aml_train.image.registry.client import Registry

State = Literal["deleted", "gone", "left"]
"""``gone``: someone else has deleted it. ``left``: it stays, and the reason says why."""

_REFRESH_SECONDS: Final = 120.0
#: A deletion begins within this time after its mark: with a sign-in and every time-out on the way, it ends before
#: aml_train.image.leases.MARK_SECONDS.
_BEGIN_SECONDS: Final = 30.0
_REFUSALS: Final = {
    401: "this identity may not delete",
    403: "this identity may not delete",
    405: "the registry does not delete: it is locked, or deletion is turned off",
    429: "the registry limits the rate of requests",
}


@dataclass(frozen=True, kw_only=True)
class PruneOutcome:
    """The result of a planned deletion."""

    deletion: Deletion
    state: State
    why: str = ""

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {**self.deletion.facts(), "state": self.state, **({"why": self.why} if self.why else {})}


@dataclass(frozen=True, kw_only=True)
class PruneResult:
    """The result of a clean-up.

    Attributes:
        outcomes: one for each planned deletion.
        untagged: how many ended leases and old marks were removed.
    """

    outcomes: tuple[PruneOutcome, ...]
    untagged: int

    def count(self, state: State) -> int:
        """Return how many deletions ended like that."""
        return sum(one.state == state for one in self.outcomes)

    @property
    def bytes(self) -> int:
        """The sum of the sizes of what was deleted."""
        return sum(one.deletion.entry.size or 0 for one in self.outcomes if one.state == "deleted")


class _LeftError(Exception):
    """A manifest stays; the message says why."""


@dataclass(kw_only=True)
class PruneExecutor:
    """Carries out plans.

    Attributes:
        registry: where.
        read_uses: reads who uses which image; called at the beginning and at least every two minutes.
        lock: whether the digest tags of images that stay are locked, as ``image.lock`` says.
        report: receives each outcome.
        now, monotonic: time in seconds; passed in so that tests need not wait.
    """

    registry: Registry
    read_uses: Callable[[], tuple[Use, ...]]
    lock: bool = True
    report: Callable[[PruneOutcome], None] = lambda _outcome: None
    now: Callable[[], float] = time.time
    monotonic: Callable[[], float] = time.monotonic
    _kept: dict[tuple[str, str], str] = field(default_factory=dict)

    def execute(self, plan: PrunePlan) -> PruneResult:
        """Delete what *plan* says and nothing needs by now.

        Raises:
            ImageError: the registry does not answer, or refuses to be read.
            ServiceError: the uses cannot be read any more; nothing is deleted after that.
        """
        graph = Graph(plan.inventory.entries)
        outcomes: list[PruneOutcome] = []
        stays: set[tuple[str, str]] = set()
        read_at: float | None = None
        with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="prune") as pool:
            for batch in _batches(plan.delete):
                if read_at is None or self.monotonic() - read_at > _REFRESH_SECONDS:
                    read_at = self.monotonic()
                    self._kept = graph.reach(graph.used(self.read_uses()))
                for outcome in pool.map(lambda one: self._outcome(one, stays), batch):
                    if outcome.state == "left":
                        entry = outcome.deletion.entry
                        stays.add((entry.repository, entry.digest))
                    outcomes.append(outcome)
                    self.report(outcome)
        untagged = sum(self._untag(one) for one in plan.untag)
        return PruneResult(outcomes=tuple(outcomes), untagged=untagged)

    def _outcome(self, deletion: Deletion, stays: set[tuple[str, str]]) -> PruneOutcome:
        entry = deletion.entry
        if reason := self._kept.get((entry.repository, entry.digest)):
            return PruneOutcome(deletion=deletion, state="left", why=f"now {reason}")
        if any((entry.repository, parent) in stays for parent in deletion.after):
            return PruneOutcome(deletion=deletion, state="left", why="the manifest that it belongs to stays")
        try:
            return PruneOutcome(deletion=deletion, state=self._delete(deletion))
        except _LeftError as error:
            return PruneOutcome(deletion=deletion, state="left", why=str(error))

    def _delete(self, deletion: Deletion) -> State:
        entry = deletion.entry
        began = self.monotonic()
        if deletion.findable and not self._mark(deletion):
            return "gone"
        if not self._check_unchanged(deletion):
            return "gone"
        unlocked = self._unlock(deletion)
        try:
            return self._send(deletion, self.monotonic() - began)
        except _LeftError:
            for tag in unlocked:
                self.registry.lock_tag(entry.repository, tag)
            raise

    def _mark(self, deletion: Deletion) -> bool:
        """Announce the deletion to runs; return whether the manifest is still there."""
        entry = deletion.entry
        manifest = self.registry.get_manifest(entry.repository, entry.digest)
        if manifest is None:
            return False
        try:
            self.registry.put_tag(entry.repository, mark_tag(entry.digest, self.now()), manifest)
        except ImageError as error:
            raise _LeftError(f"it cannot be marked for deletion: {error.message}") from error
        return True

    def _check_unchanged(self, deletion: Deletion) -> bool:
        """Return whether the manifest is there; raise _LeftError if it is not as planned."""
        entry = deletion.entry
        if self.registry.can_lock:
            found = describe_manifest(self.registry, entry.repository, entry.digest)
            if found is None:
                return False
            tags = found.list_of_texts("tags")
        else:
            if self.registry.head_manifest(entry.repository, entry.digest) is None:
                return False
            tags = [*entry.tags, *self._plain_leases(entry.repository, entry.digest)]
        new = [tag for tag in tags if tag not in entry.tags and mark_end(tag) is None]
        if new:
            raise _LeftError(f"it has got the tag {new[0]} meanwhile")
        return True

    def _plain_leases(self, repository: str, digest: str) -> Iterator[str]:
        """Yield the leases that were written since the plan, by the names they can have."""
        for tag in lease_tags(digest, self.now()):
            head = self.registry.head_manifest(repository, tag)
            if head is not None and head.digest == digest:
                yield tag

    def _unlock(self, deletion: Deletion) -> list[str]:
        """Remove aml-train's own locks; raise _LeftError without the right to."""
        entry = deletion.entry
        unlocked: list[str] = []
        for tag in entry.own_locks:
            if not self.registry.unlock_tag(entry.repository, tag):
                raise _LeftError(f"the tag {tag[:16]}… is locked, and this identity lacks registries/metadata/write")
            unlocked.append(tag)
        return unlocked

    def _send(self, deletion: Deletion, waited: float) -> State:
        """Delete the manifest, *waited* seconds after its mark."""
        entry = deletion.entry
        if deletion.findable and waited > _BEGIN_SECONDS:
            raise _LeftError("the registry was too slow for a safe deletion")
        try:
            status = delete_manifest(self.registry, entry.repository, entry.digest)
        except ImageError as error:
            raise _LeftError(error.message) from error
        if status in (200, 202):
            return "deleted"
        if status == 404:
            return "gone"
        raise _LeftError(f"HTTP {status}: {_REFUSALS.get(status, 'the registry refused')}")

    def _untag(self, removal: TagRemoval) -> bool:
        """Remove an unmoved tag; lock again an image that a killed clean-up unlocked."""
        head = self.registry.head_manifest(removal.repository, removal.tag)
        if head is None or head.digest != removal.digest:
            return False
        removed = self.registry.untag(removal.repository, removal.tag)
        if removed and mark_end(removal.tag) is not None and self.lock and self.registry.can_lock:
            tag = f"dig-{removal.digest.removeprefix('sha256:')}"
            if describe_tag(self.registry, removal.repository, tag) is not None:
                self.registry.lock_tag(removal.repository, tag)
        return removed


def _batches(deletions: tuple[Deletion, ...], most: int = 4 * CONNECTIONS) -> Iterator[list[Deletion]]:
    """Yield deletions that are independent of each other, some at a time."""
    for _, group in groupby(deletions, key=lambda one: one.depth):
        same = list(group)
        for start in range(0, len(same), most):
            yield same[start : start + most]
