"""Plan a clean-up: which manifests of an inventory nothing reaches. Pure.

An inventory is taken once and never changes: the contents of a registry, and who uses them. Times are seconds since 1970. The time of
planning grows with the number of manifests, tags and references.
"""

from __future__ import annotations

import fnmatch
import re
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from aml_train.core.release_tags import DEFAULT_TAGS
from aml_train.image.build.build import CACHE_TAG
from aml_train.image.leftovers import CANDIDATE_SUFFIX

Role = Literal["release", "attached", "candidate", "cache", "kept"]
"""The meaning of a tag for its manifest; ``kept`` is a tag that keeps it as long as the tag exists."""

_ATTACHED: Final = re.compile(r"(?:test|facts)-(?P<short>[0-9a-f]{40})-.+|sha256-(?P<whole>[0-9a-f]{64})(?:\..+)?")
#: The fields that only one release has: a tag with one of them is never moved to a later image.
_FIELDS: Final = {
    "commit": "(?:[0-9a-f]{40}|[0-9a-f]{64})",
    "short-commit": "[0-9a-f]{7}",
    "address": "[0-9a-f]{40}",
}
#: The tag of a commit's image that was built again (:mod:`aml_train.image.ensure`).
_BUILT_AGAIN: Final = re.compile("git-[0-9a-f]{7,64}-[0-9a-f]{12}")
_BRANCH: Final = "[A-Za-z0-9_.-]+"


@dataclass(frozen=True, kw_only=True, slots=True)
class Entry:
    """One manifest of a repository.

    Attributes:
        size: bytes of configuration and layers, which other manifests may share; None if unknown.
        updated: when it was pushed, or one of its tags was written; None if unknown.
        tags: names of the tags that point to it.
        children: digests of the manifests that it lists.
        subject: digest of the manifest that it is about (OCI 1.1).
        own_locks: locked tags whose lock aml-train sets itself.
        other_lock: what of it someone else has locked; empty for nothing.
    """

    repository: str
    digest: str
    size: int | None = None
    updated: float | None = None
    tags: tuple[str, ...] = ()
    children: tuple[str, ...] = ()
    subject: str | None = None
    own_locks: tuple[str, ...] = ()
    other_lock: str = ""


@dataclass(frozen=True, kw_only=True, slots=True)
class Use:
    """That something outside the registry uses an image.

    Attributes:
        digest: of the image; None if only a tag is named.
        repository: in which; None for any that is no candidates' repository.
        tag: the tag that is named instead of a digest.
        by: who uses it, such as ``the model digits:7``.
    """

    digest: str | None
    by: str
    repository: str | None = None
    tag: str | None = None


@dataclass(frozen=True, kw_only=True)
class Inventory:
    """Everything that a plan is made from.

    Attributes:
        host: the registry, for people.
        entries: the manifests of the project's repository and of its candidates' one.
        uses: who uses which image.
        now: when it was taken.
    """

    host: str
    entries: tuple[Entry, ...]
    uses: tuple[Use, ...]
    now: float


@dataclass(frozen=True, kw_only=True)
class PrunePolicy:
    """The images that are kept although nothing uses them.

    Attributes:
        older_than: seconds since the last push or tag, after which an image goes.
        keep_tags: patterns with ``*`` and ``?`` of tags that keep their image.
        templates: ``image.tags`` of the configuration.
    """

    older_than: float
    keep_tags: tuple[str, ...] = ()
    templates: tuple[str, ...] = DEFAULT_TAGS


class TagReader:
    """Reads the roles of tags by a policy."""

    def __init__(self, policy: PrunePolicy) -> None:
        self._keep = tuple(re.compile(fnmatch.translate(pattern)) for pattern in policy.keep_tags)
        templates = dict.fromkeys((*DEFAULT_TAGS, *policy.templates))
        self._releases = (_BUILT_AGAIN, *(pattern for one in templates for pattern in _patterns(one)))

    def role(self, repository: str, tag: str) -> Role:
        """Return what *tag* says; ``kept`` for every tag that aml-train does not know."""
        if any(pattern.match(tag) for pattern in self._keep):
            return "kept"
        if repository.endswith(CANDIDATE_SUFFIX) and tag.startswith("candidate-"):
            return "candidate"
        if tag == CACHE_TAG:
            return "cache"
        if _ATTACHED.fullmatch(tag):
            return "attached"
        own = tag.startswith(("addr-", "dig-")) or any(pattern.fullmatch(tag) for pattern in self._releases)
        return "release" if own else "kept"


def _patterns(template: str) -> Sequence[re.Pattern[str]]:
    """Return the patterns of a template's tags that belong to one release alone.

    A branch's tag moves with the branch, so it keeps its image; a pull request's belongs to a release.
    """
    unique = any(f"{{{name}}}" in template for name in _FIELDS)
    if not unique and "{branch}" not in template:
        return ()
    branch = _BRANCH if unique else r"pull-\d+"
    parts = re.split(r"(\{[a-z-]+\})", template)
    fields = {f"{{{name}}}": pattern for name, pattern in _FIELDS.items()} | {"{branch}": branch}
    return (re.compile("".join(fields.get(part, re.escape(part)) for part in parts)),)


Key = tuple[str, str]
"""Repository and digest."""

_DAY: Final = 24 * 3600.0


@dataclass(frozen=True, kw_only=True, slots=True)
class Deletion:
    """A manifest that goes.

    Attributes:
        reason: why nothing needs it.
        after: digests of the manifests that must have gone before: those that list it, and the one that it is about.
    """

    entry: Entry
    reason: str
    after: tuple[str, ...] = ()

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        entry = self.entry
        tags = list(entry.tags)
        place = {"repository": entry.repository, "digest": entry.digest, "tags": tags, "size": entry.size}
        return {**place, "reason": self.reason}


@dataclass(frozen=True, kw_only=True)
class PrunePlan:
    """The work of a clean-up.

    Attributes:
        delete: what goes.
        keep: all other manifests, each with what reaches it.
    """

    inventory: Inventory
    delete: tuple[Deletion, ...]
    keep: tuple[tuple[Entry, str], ...]


def volume(deletions: Iterable[Deletion]) -> int:
    """Return the sum of the sizes in bytes; layers that are shared count for each manifest."""
    return sum(one.entry.size or 0 for one in deletions)


class Graph:
    """An inventory's manifests with the edges from an image to its parts and what is attached to them."""

    def __init__(self, entries: Iterable[Entry]) -> None:
        self.entries: dict[Key, Entry] = {(one.repository, one.digest): one for one in entries}
        self.tagged: dict[Key, Key] = {}
        self._attached: dict[Key, list[str]] = {}
        short: dict[Key, str] = {(place, digest[7:47]): digest for place, digest in self.entries}
        for key, entry in self.entries.items():
            if entry.subject is not None:
                self._attached.setdefault((entry.repository, entry.subject), []).append(entry.digest)
            for tag in entry.tags:
                self.tagged[entry.repository, tag] = key
                named = _ATTACHED.fullmatch(tag)
                digits = "" if named is None else named["short"] or named["whole"][:40]
                subject = short.get((entry.repository, digits))
                if subject is not None and subject != entry.digest:
                    self._attached.setdefault((entry.repository, subject), []).append(entry.digest)

    def below(self, key: Key) -> Iterator[Key]:
        """Yield the known manifests that *key* keeps: its children and what is attached to it."""
        place = key[0]
        for digest in (*self.entries[key].children, *self._attached.get(key, ())):
            if (place, digest) in self.entries:
                yield place, digest

    def reach(self, roots: Iterable[tuple[Key, str]]) -> dict[Key, str]:
        """Return all that *roots* reach, with the reason of the first one."""
        found: dict[Key, str] = {}
        queue: deque[tuple[Key, str]] = deque(roots)
        while queue:
            key, reason = queue.popleft()
            if key in found:
                continue
            found[key] = reason
            queue.extend((below, reason) for below in self.below(key) if below not in found)
        return found

    def used(self, uses: Iterable[Use]) -> Iterator[tuple[Key, str]]:
        """Yield the manifests that *uses* name."""
        places = sorted({place for place, _ in self.entries})
        ordinary = [place for place in places if not place.endswith(CANDIDATE_SUFFIX)]
        for use in uses:
            for place in ordinary if use.repository is None else [use.repository]:
                key = (place, use.digest) if use.digest is not None else self.tagged.get((place, use.tag or ""))
                if key in self.entries and key is not None:
                    yield key, f"used by {use.by}"


def plan_prune(inventory: Inventory, policy: PrunePolicy) -> PrunePlan:
    """Return what goes and what stays, each with its reason."""
    graph, reader = Graph(inventory.entries), TagReader(policy)
    roots = [*graph.used(inventory.uses)]
    for key, entry in graph.entries.items():
        reason = _own_reason(entry, reader, policy, inventory.now)
        if reason:
            roots.append((key, reason))
    kept = graph.reach(roots)
    return PrunePlan(
        inventory=inventory,
        delete=tuple(_deletions(graph, kept, reader, inventory.now)),
        keep=tuple((graph.entries[key], reason) for key, reason in sorted(kept.items())),
    )


def _own_reason(entry: Entry, reader: TagReader, policy: PrunePolicy, now: float) -> str:
    """Return why an entry stays by itself, used or not; empty if it may go."""
    if entry.other_lock:
        return f"locked: {entry.other_lock}"
    roles = {tag: reader.role(entry.repository, tag) for tag in entry.tags}
    for tag, role in roles.items():
        if role == "kept":
            return f"the tag {tag}"
        if role == "cache":
            return f"the build cache {tag}"
    if entry.updated is None:
        return "its age is not known" if "release" in roles.values() else ""
    age = now - entry.updated
    return f"pushed or tagged {_ago(age)}" if age < policy.older_than else ""


def _deletions(graph: Graph, kept: Mapping[Key, str], reader: TagReader, now: float) -> Iterator[Deletion]:
    """Yield what goes, with what has to go before: parents before their children, images before what is attached to them."""
    goes = sorted(key for key in graph.entries if key not in kept)
    before: dict[Key, dict[str, None]] = {key: {} for key in goes}
    for key in goes:
        for below in graph.below(key):
            if below in before:
                before[below][key[1]] = None
    for key in goes:
        after, entry = tuple(before[key]), graph.entries[key]
        yield Deletion(entry=entry, reason=_why(entry, after, reader, now), after=after)


def in_order(deletions: Iterable[Deletion]) -> Iterator[list[Deletion]]:
    """Yield deletions that are independent of each other, those that others wait for first."""
    waiting = {(one.entry.repository, one.entry.digest): one for one in deletions}
    while waiting:
        free = [
            one for one in waiting.values() if not any((one.entry.repository, name) in waiting for name in one.after)
        ]
        ready = free or list(waiting.values())  # else these are tags that name each other
        yield ready
        for one in ready:
            del waiting[one.entry.repository, one.entry.digest]


def _why(entry: Entry, after: Sequence[str], reader: TagReader, now: float) -> str:
    """Return why nothing needs an entry."""
    age = "" if entry.updated is None else f", pushed or tagged {_ago(now - entry.updated)}"
    roles = {reader.role(entry.repository, tag) for tag in entry.tags}
    if after:
        return f"part of or attached to {after[0][:19]}, which goes"
    if entry.repository.endswith(CANDIDATE_SUFFIX):
        return f"a candidate of a run that has ended{age}"
    if "release" in roles:
        return f"a release that nothing uses{age}"
    if "attached" in roles or entry.subject is not None:
        return f"attached to an image that is gone{age}"
    return f"no tag and nothing that refers to it{age}"


def _ago(seconds: float) -> str:
    days = int(max(seconds, 0.0) // _DAY)
    return "today" if days == 0 else "a day ago" if days == 1 else f"{days} days ago"
