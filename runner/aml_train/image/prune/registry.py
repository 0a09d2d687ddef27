"""A clean-up's requests to a registry: read all that it has, and delete what the plan says.

The inventory is read by Azure's own lists. A list that is refused, cut short or hides something is an error: a
clean-up that does not know everything deletes nothing. Nothing is remembered between two clean-ups: what was deleted is gone, the
rest is planned again.

Azure Container Registry lists manifests with their times and locks at ``/acr/v1``, as in the data-plane description of api-version
2021-07-01 (https://github.com/Azure/azure-rest-api-specs, specification/containerregistry/data-plane). The OCI distribution
specification 1.1 has the deletion of a manifest by its digest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final, Literal

import requests

from aml_train.core.answers import Answer
from aml_train.core.errors import ImageError
from aml_train.core.http_client import answer_of
from aml_train.core.references import is_digest
from aml_train.image.prune.plan import Deletion, Entry, PrunePlan, in_order
from aml_train.image.registry.auth import BusyError
from aml_train.image.registry.client import CONNECTIONS, Registry, scopes_of
from aml_train.image.registry.manifest import DOCKER_MANIFEST

_PAGE: Final = "1000"
_MOST_PAGES: Final = 100_000


def delete_manifest(registry: Registry, repository: str, digest: str) -> int:
    """Delete a manifest with all of its tags, and return the status.

    It is one request, never repeated.

    Raises:
        ImageError: no answer, so that it may have been deleted; or the sign-in is refused.
    """
    url = f"{registry.url}/v2/{repository}/manifests/{digest}"
    try:
        answer = registry.once("DELETE", url, scopes=scopes_of(repository, "delete"), timeout=(5.0, 20.0))
    except BusyError as error:
        answer = error.response
    except requests.RequestException as error:
        raise ImageError(f"the registry did not answer: {type(error).__name__}") from error
    return answer.status_code


def _locks(item: Answer) -> tuple[bool, bool]:
    """Return whether a repository, tag or manifest cannot be changed, and whether it cannot be deleted."""
    attributes = item.mapping("changeableAttributes")
    return attributes.get("writeEnabled") is False, attributes.get("deleteEnabled") is False


def _items(registry: Registry, repository: str, kind: str) -> Iterator[Answer]:
    url, what = f"{registry.url}/acr/v1/{repository}/_{kind}?n={_PAGE}", f"list the {kind} of {repository}"
    for page in registry.pages(url, what, scopes=scopes_of(repository, "metadata_read"), most=_MOST_PAGES):
        yield from page.each(kind)


def _describe(registry: Registry, repository: str) -> Answer | None:
    """Return what Azure's registry says of a repository, or None if there is none."""
    url, scopes = f"{registry.url}/acr/v1/{repository}", scopes_of(repository, "metadata_read")
    what = f"describe the repository {repository}"
    response = registry.repeated(lambda: registry.once("GET", url, scopes=scopes))
    if response.status_code == 404:
        return None
    registry.expect(response, 200, what)
    fail = registry.unusable(what)
    return answer_of(response, fail, fail)


_HIDDEN: Final = (
    "Have everything listed again (az acr manifest update-metadata … --list-enabled true), or run the clean-up when no one "
    "deletes from the repository."
)


def read_entries(registry: Registry, repository: str) -> tuple[Entry, ...]:
    """Return the manifests of *repository* in an Azure Container Registry; none if it does not exist.

    Raises:
        ImageError: the registry refuses, does not answer, or does not list everything.
    """
    before = _describe(registry, repository)
    if before is None:
        return ()
    # Manifests first: a manifest that is pushed now has no entry, and a tag that is written now has one.
    listed = list(_items(registry, repository, "manifests"))
    tags: dict[str, list[Answer]] = {}
    for item in _items(registry, repository, "tags"):
        tags.setdefault(item.text("digest"), []).append(item)
    after = _describe(registry, repository)
    _check_complete(registry, repository, before, after, manifests=len(listed), tags=sum(map(len, tags.values())))
    repository_lock = "the repository" if any(_locks(before)) else ""

    def read(item: Answer) -> Entry | None:
        entry = _entry(repository, item, tags, repository_lock)
        if item.optional_text("mediaType") == DOCKER_MANIFEST:  # it has no subject and lists nothing
            return entry
        manifest = registry.get_manifest(repository, entry.digest)
        if manifest is None:
            return None
        children = tuple(dict.fromkeys(one.text("digest") for one in manifest.answer.each("manifests")))
        return replace(entry, children=children, subject=manifest.answer.optional_text("subject.digest"))

    with _threads() as pool:
        return tuple(filter(None, pool.map(read, listed)))


def _threads() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(CONNECTIONS, thread_name_prefix="prune")


def _check_complete(
    registry: Registry, repository: str, before: Answer, after: Answer | None, *, manifests: int, tags: int
) -> None:
    """Raise ImageError if fewer were listed than the repository has."""
    for noun, key, count in (("manifests", "manifestCount", manifests), ("tags", "tagCount", tags)):
        counts = [one.whole(key) for one in (before, after) if one is not None]
        known = min((one for one in counts if one is not None), default=0)
        if count < known:
            raise ImageError(
                f"{registry.host} lists {count} of the {known} {noun} of {repository}: what the others need is not known",
                hint=_HIDDEN,
            )


def _entry(repository: str, item: Answer, tagged: Mapping[str, Sequence[Answer]], repository_lock: str) -> Entry:
    """Return a manifest of the list with its tags."""
    digest = item.text("digest")
    if not is_digest(digest):
        raise ImageError(
            f"the list of manifests of {repository} names {digest[:80]!r}, which is no digest of SHA-256"
        )
    tags = {tag.text("name"): tag for tag in tagged.get(digest, ())}
    times = [item.time("createdTime") or item.time("lastUpdateTime")]
    times += [tag.time("lastUpdateTime") for tag in tags.values()]
    locked = {name: _locks(tag) for name, tag in tags.items() if any(_locks(tag))}
    own = tuple(name for name, (_, delete) in locked.items() if name.startswith("dig-") and not delete)
    others = [f"the tag {name}" for name in locked if name not in own]
    return Entry(
        repository=repository,
        digest=digest,
        size=item.whole("imageSize"),
        updated=max((one.timestamp() for one in times if one is not None), default=None),
        tags=tuple(tags),
        own_locks=own,
        other_lock="its manifest" if any(_locks(item)) else repository_lock or next(iter(others), ""),
    )


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


def execute_prune(
    plan: PrunePlan, registry: Registry, report: Callable[[PruneOutcome], None] = lambda _outcome: None
) -> list[PruneOutcome]:
    """Delete what *plan* says, and return what came of it; a manifest stays if the one that it belongs to does.

    Args:
        plan: what goes.
        registry: where.
        report: receives each outcome.

    Raises:
        ImageError: the registry does not answer.
    """
    outcomes: list[PruneOutcome] = []
    stays: set[tuple[str, str]] = set()
    with _threads() as pool:
        for batch in in_order(plan.delete):
            for outcome in pool.map(partial(_outcome, registry, stays), batch):
                if outcome.state == "left":
                    stays.add((outcome.deletion.entry.repository, outcome.deletion.entry.digest))
                outcomes.append(outcome)
                report(outcome)
    return outcomes


def _outcome(registry: Registry, stays: set[tuple[str, str]], deletion: Deletion) -> PruneOutcome:
    """Delete a manifest; aml-train's own lock is removed for that, and set again if the manifest stays."""
    entry = deletion.entry
    if any((entry.repository, parent) in stays for parent in deletion.after):
        return PruneOutcome(deletion=deletion, state="left", why="the manifest that it belongs to stays")
    for tag in entry.own_locks:
        if not registry.lock_tag(entry.repository, tag, locked=False):
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
