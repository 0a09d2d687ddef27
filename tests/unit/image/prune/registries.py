"""Generated registries, and a slow but simple judgement of what is reachable in them."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

from hypothesis import strategies as st

from aml_train.image.prune.plan import Entry, Inventory, PrunePolicy, Use

NOW = 1_790_000_000.0
DAY = 86_400.0
POLICY = PrunePolicy(older_than=30 * DAY)
RELEASES = "octo/digits"
CANDIDATES = f"{RELEASES}-candidate"


def digest_of(number: int) -> str:
    """Return the digest of the manifest of that number."""
    return "sha256:" + hashlib.sha256(str(number).encode()).hexdigest()


def entry(number: int, *, days: float | None = 100, repository: str = RELEASES, **more: object) -> Entry:
    """Return an entry, pushed so many days ago."""
    updated = None if days is None else NOW - days * DAY
    return Entry(repository=repository, digest=digest_of(number), updated=updated, size=10, **more)  # type: ignore[arg-type]


def inventory(*entries: Entry, uses: tuple[Use, ...] = ()) -> Inventory:
    """Return an inventory taken now."""
    return Inventory(host="r.azurecr.io", entries=entries, uses=uses, now=NOW)


def release_tags(number: int, *more: str) -> tuple[str, ...]:
    """Return the tags of a release."""
    name = digest_of(number)[7:]
    return (f"addr-{name[:40]}", f"dig-{name}", f"git-{name[:40]}", *more)


@st.composite
def inventories(draw: st.DrawFn) -> Inventory:
    """Make registries of images, indexes, attached documents, candidates, tags and uses."""
    count = draw(st.integers(1, 14))
    entries = []
    for number in range(count):
        kind = draw(
            st.sampled_from(
                ["release", "release", "untagged", "index", "attached", "subject", "fallback", "candidate", "moving"]
            )
        )
        days = draw(st.sampled_from([0.5, 1.5, 5.0, 29.0, 31.0, 400.0]))
        lower = st.integers(-1, number - 1).map(digest_of)
        tags: tuple[str, ...] = ()
        children: tuple[str, ...] = ()
        subject = None
        place = RELEASES
        if kind in ("release", "index"):
            tags = release_tags(number)
        if kind == "index":
            children = tuple(draw(st.lists(lower, max_size=3)))
        if kind == "attached":
            tags = (f"test-{draw(lower)[7:47]}-{number:040x}",)
        if kind == "subject":
            subject = draw(lower)
        if kind == "fallback":
            tags = (f"sha256-{draw(lower)[7:]}",)
            children = tuple(draw(st.lists(lower, max_size=2)))
        if kind == "candidate":
            place, tags = CANDIDATES, (f"candidate-x-{number}",)
        if kind == "moving":
            tags = (
                draw(st.sampled_from(["branch-main", "v1", "cache", "branch-pull-7"])) + ("" if number % 2 else "x"),
            )
        entries.append(
            entry(
                number,
                days=days,
                repository=place,
                tags=tags,
                children=children,
                subject=subject,
                other_lock=draw(st.sampled_from(["", "", "", "", "", "its manifest"])),
            )
        )
    names = st.integers(0, count).map(digest_of)
    uses = draw(
        st.lists(
            st.builds(Use, digest=names, by=st.just("a model"), repository=st.sampled_from([None, RELEASES])),
            max_size=3,
        )
    )
    return inventory(*entries, uses=tuple(uses))


def reachable(found: Inventory) -> set[tuple[str, str]]:
    """Return all that must stay: written down from docs/registry.md, without care for speed."""
    kept = {(one.repository, one.digest) for one in found.entries if _stays(one, found)}
    while True:
        more = {
            below for one in found.entries if (one.repository, one.digest) in kept for below in _below(one, found)
        }
        if more <= kept:
            return kept
        kept |= more


def _stays(one: Entry, found: Inventory) -> bool:
    if one.other_lock or any(use.digest == one.digest and one.repository == RELEASES for use in found.uses):
        return True
    if any(
        tag in ("cache", "cachex", "v1", "v1x", "branch-main", "branch-mainx", "branch-pull-7x") for tag in one.tags
    ):
        return True
    return one.updated is not None and found.now - one.updated < 30 * DAY


def _below(one: Entry, found: Inventory) -> Iterator[tuple[str, str]]:
    for other in found.entries:
        if other.repository != one.repository or other.digest == one.digest:
            continue
        about = [tag.split("-")[1] for tag in other.tags if tag.startswith(("test-", "facts-", "sha256-"))]
        named = any(one.digest[7:].startswith(text[:40]) for text in about)
        if other.digest in one.children or other.subject == one.digest or named:
            yield other.repository, other.digest
