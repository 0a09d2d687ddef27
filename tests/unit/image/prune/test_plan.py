"""What a clean-up plans: tables of single cases, and properties over generated registries."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given

from aml_train.image.prune.plan import Entry, Inventory, PrunePolicy, TagReader, Use, in_order, plan_prune, volume
from tests.unit.image.prune.registries import (
    CANDIDATES,
    POLICY,
    RELEASES,
    digest_of,
    entry,
    inventories,
    inventory,
    reachable,
    release_tags,
)


@given(inventories())
def test_everything_unreachable_goes_and_nothing_else(found: Inventory) -> None:
    plan = plan_prune(found, POLICY)
    everything = {(one.repository, one.digest) for one in found.entries}
    kept = reachable(found)
    assert {(one.entry.repository, one.entry.digest) for one in plan.delete} == everything - kept
    assert {(one.repository, one.digest) for one, _ in plan.keep} == kept
    assert all(one.reason for one in plan.delete)
    assert all(reason for _, reason in plan.keep)


@given(inventories())
def test_no_manifest_goes_before_what_lists_it(found: Inventory) -> None:
    plan = plan_prune(found, POLICY)
    batches = list(in_order(plan.delete))
    assert sorted(map(id, itertools.chain(*batches))) == sorted(map(id, plan.delete))
    place = {(one.entry.repository, one.entry.digest): index for index, batch in enumerate(batches) for one in batch}
    for one in plan.delete:
        key = (one.entry.repository, one.entry.digest)
        for parent in (parent for parent in plan.delete if one.entry.digest in parent.entry.children):
            above = (parent.entry.repository, parent.entry.digest)
            assert above[0] != key[0] or (
                above[1] in one.after and (place[above] < place[key] or key[1] in parent.after)
            )


@given(inventories())
def test_any_beginning_of_a_plan_can_be_resumed(found: Inventory) -> None:
    plan = plan_prune(found, POLICY)
    for done in range(len(plan.delete) + 1):
        gone = {(one.entry.repository, one.entry.digest) for one in plan.delete[:done]}
        rest = [one for one in found.entries if (one.repository, one.digest) not in gone]
        again = plan_prune(inventory(*rest, uses=found.uses), POLICY)
        assert {one.entry for one in again.delete} == {one.entry for one in plan.delete[done:]}


@pytest.mark.parametrize(
    ("one", "reason"),
    [
        (entry(1, tags=release_tags(1)), ""),
        (entry(1, tags=release_tags(1), days=29), "pushed or tagged 29 days ago"),
        (entry(1, tags=release_tags(1), days=None), "its age is not known"),
        (entry(1, tags=release_tags(1, "branch-main")), "the tag branch-main"),
        (entry(1, tags=release_tags(1, "branch-pull-12")), ""),
        (entry(1, tags=release_tags(1, f"git-{'a' * 40}-{'b' * 12}")), ""),
        (entry(1, tags=release_tags(1, "v1.0")), "the tag v1.0"),
        (entry(1, tags=("cache",)), "the build cache cache"),
        (entry(1), ""),
        (entry(1, days=1.9), "pushed or tagged a day ago"),
        (entry(1, days=29), "pushed or tagged 29 days ago"),
        (entry(1, days=None), ""),
        (entry(1, tags=release_tags(1), other_lock="the tag v1"), "locked: the tag v1"),
        (entry(1, tags=release_tags(1), own_locks=("dig-x",)), ""),
        (entry(1, repository=CANDIDATES, tags=("candidate-1",)), ""),
        (entry(1, repository=CANDIDATES, tags=("candidate-1",), days=1), "pushed or tagged a day ago"),
    ],
)  # fmt: skip
def test_one_manifest(one: Entry, reason: str) -> None:
    plan = plan_prune(inventory(one), POLICY)
    assert [why for _, why in plan.keep] == ([reason] if reason else [])


def test_a_use_names_a_digest_a_repository_or_a_tag() -> None:
    entries = (
        entry(1, tags=release_tags(1)),
        entry(2, tags=release_tags(2)),
        entry(3, tags=release_tags(3)),
        entry(1, repository=CANDIDATES, tags=("candidate-1",)),
    )
    uses = (
        Use(digest=digest_of(1), by="the model digits:7"),
        Use(digest=digest_of(2), repository="another", by="a job of another repository"),
        Use(digest=None, repository=RELEASES, tag=release_tags(3)[0], by="the environment e:1"),
    )
    plan = plan_prune(inventory(*entries, uses=uses), POLICY)
    assert {(one.digest, why) for one, why in plan.keep} == {
        (digest_of(1), "used by the model digits:7"),
        (digest_of(3), "used by the environment e:1"),
    }
    assert {(one.entry.repository, one.entry.digest) for one in plan.delete} == {
        (CANDIDATES, digest_of(1)),
        (RELEASES, digest_of(2)),
    }


def test_reasons_of_deletions() -> None:
    entries = (
        entry(1, tags=release_tags(1), children=(digest_of(2),)),
        entry(2),
        entry(3, tags=(f"facts-{digest_of(1)[7:47]}-x",)),
        entry(4, tags=(f"test-{'0' * 40}-x",)),
        entry(5, repository=CANDIDATES, tags=("candidate-5",)),
        entry(6),
    )
    reasons = {one.entry.digest: one.reason for one in plan_prune(inventory(*entries), POLICY).delete}
    owner = digest_of(1)[:19]
    assert reasons == {
        digest_of(1): "a release that nothing uses, pushed or tagged 100 days ago",
        digest_of(2): f"part of or attached to {owner}, which goes",
        digest_of(3): f"part of or attached to {owner}, which goes",
        digest_of(4): "attached to an image that is gone, pushed or tagged 100 days ago",
        digest_of(5): "a candidate of a run that has ended, pushed or tagged 100 days ago",
        digest_of(6): "no tag and nothing that refers to it, pushed or tagged 100 days ago",
    }
    assert volume(plan_prune(inventory(*entries), POLICY).delete) == 60


def test_a_circle_of_tags_goes() -> None:
    circle = (
        entry(1, tags=(f"sha256-{digest_of(2)[7:]}",)),
        entry(2, tags=(f"sha256-{digest_of(1)[7:]}",)),
    )
    plan = plan_prune(inventory(*circle), POLICY)
    assert [len(batch) for batch in in_order(plan.delete)] == [2]


@pytest.mark.parametrize(
    ("template", "tag", "role"),
    [
        ("git-{commit}", "git-" + "a" * 40, "release"),
        ("git-{commit}", "git-main", "kept"),
        ("v1-{short-commit}", "v1-abcdef0", "release"),
        ("v1-{short-commit}", "v1-abcdefg", "kept"),
        ("{branch}-{short-commit}", "feature-x-abcdef0", "release"),
        ("{branch}", "main", "kept"),
        ("{branch}", "pull-7", "release"),
        ("a-{address}", "a-" + "0" * 40, "release"),
        ("stable", "stable", "kept"),
        ("git-{commit}", "sha256-" + "0" * 64, "attached"),
        ("git-{commit}", "sha256-" + "0" * 64 + ".sig", "attached"),
        ("git-{commit}", "sha256-" + "0" * 63, "kept"),
    ],
)
def test_roles_of_tags(template: str, tag: str, role: str) -> None:
    assert TagReader(PrunePolicy(older_than=1.0, templates=(template,))).role(RELEASES, tag) == role
    assert TagReader(PrunePolicy(older_than=1.0, keep_tags=(tag[:-1] + "?",))).role(RELEASES, tag) == "kept"
