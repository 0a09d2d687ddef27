"""Execute a clean-up's plan, in one pass.

Nothing is remembered between two clean-ups: what was deleted is gone, the rest is planned again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from typing import Any, Final, Literal

from aml_train.core.errors import ImageError
from aml_train.image.completeness import CONNECTIONS
from aml_train.image.prune.plan import Deletion, PrunePlan
from aml_train.image.registry.administration import delete_manifest
from aml_train.image.registry.client import Registry

State = Literal["deleted", "gone", "left"]
"""``gone``: someone else has deleted it. ``left``: it stays, and the reason says why."""

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
    """The result of a clean-up: an outcome for each planned deletion."""

    outcomes: tuple[PruneOutcome, ...]

    def count(self, state: State) -> int:
        """Return how many deletions ended like that."""
        return sum(one.state == state for one in self.outcomes)

    @property
    def bytes(self) -> int:
        """The sum of the sizes of what was deleted."""
        return sum(one.deletion.entry.size or 0 for one in self.outcomes if one.state == "deleted")


def execute_prune(
    plan: PrunePlan, registry: Registry, report: Callable[[PruneOutcome], None] = lambda _outcome: None
) -> PruneResult:
    """Delete what *plan* says; a manifest stays if the one that it belongs to does.

    Args:
        plan: what goes.
        registry: where.
        report: receives each outcome.

    Raises:
        ImageError: the registry does not answer.
    """
    outcomes: list[PruneOutcome] = []
    stays: set[tuple[str, str]] = set()
    with ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="prune") as pool:
        for batch in _batches(plan.delete):
            for outcome in pool.map(partial(_outcome, registry, stays), batch):
                if outcome.state == "left":
                    entry = outcome.deletion.entry
                    stays.add((entry.repository, entry.digest))
                outcomes.append(outcome)
                report(outcome)
    return PruneResult(outcomes=tuple(outcomes))


def _outcome(registry: Registry, stays: set[tuple[str, str]], deletion: Deletion) -> PruneOutcome:
    """Delete a manifest; aml-train's own lock is removed for that, and set again if the manifest stays."""
    entry = deletion.entry
    if any((entry.repository, parent) in stays for parent in deletion.after):
        return PruneOutcome(deletion=deletion, state="left", why="the manifest that it belongs to stays")
    for tag in entry.own_locks:
        if not registry.unlock_tag(entry.repository, tag):
            why = f"the tag {tag[:16]}… is locked, and this identity lacks registries/metadata/write"
            return PruneOutcome(deletion=deletion, state="left", why=why)
    try:
        status = delete_manifest(registry, entry.repository, entry.digest)
        why = f"HTTP {status}: {_REFUSALS.get(status, 'the registry refused')}"
    except ImageError as error:
        status, why = 0, error.message
    if status in (200, 202, 404):
        return PruneOutcome(deletion=deletion, state="gone" if status == 404 else "deleted")
    for tag in entry.own_locks:
        registry.lock_tag(entry.repository, tag)
    return PruneOutcome(deletion=deletion, state="left", why=why)


def _batches(deletions: tuple[Deletion, ...], most: int = 4 * CONNECTIONS) -> Iterator[list[Deletion]]:
    """Yield deletions that are independent of each other, some at a time."""
    for _, group in groupby(deletions, key=lambda one: one.depth):
        same = list(group)
        for start in range(0, len(same), most):
            yield same[start : start + most]
