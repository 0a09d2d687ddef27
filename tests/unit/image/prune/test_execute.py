"""Listing and deletion against registries in memory: locks, refusals, kills."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import requests
import stamina

from aml_train.core.errors import ImageError
from aml_train.image.prune.plan import Inventory, PrunePlan, PrunePolicy, Use, plan_prune
from aml_train.image.prune.registry import PruneOutcome, execute_prune, read_entries
from aml_train.image.registry.client import Registry
from tests.unit.image.prune.fake_acr import HOST, FakeAcr
from tests.unit.image.prune.registries import DAY, NOW

PLACE = "octo/digits"


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2):
        yield


def _registry(fake: FakeAcr) -> Registry:
    return Registry(f"https://{HOST}", transport=fake)


def _plan(fake: FakeAcr, *uses: Use) -> PrunePlan:
    registry = _registry(fake)
    entries = (*read_entries(registry, PLACE), *read_entries(registry, f"{PLACE}-candidate"))
    found = Inventory(host=HOST, entries=entries, uses=uses, now=fake.now)
    return plan_prune(found, PrunePolicy(older_than=30 * DAY))


def _execute(fake: FakeAcr, plan: PrunePlan) -> list[PruneOutcome]:
    return execute_prune(plan, _registry(fake))


def _release(fake: FakeAcr, *more: str, days: float = 100, seed: str = "", children: tuple[str, ...] = ()) -> str:
    digest = fake.put(PLACE, days=days, seed=seed, children=children)
    tags = (f"addr-{digest[7:47]}", f"dig-{digest[7:]}", f"git-{digest[7:47]}", *more)
    fake.stored[PLACE, digest].tags.update(dict.fromkeys(tags, fake.now - days * DAY))
    return digest


def _world(fake: FakeAcr) -> tuple[set[str], set[str]]:
    """Fill a registry; return the digests that must stay, and those that must go."""
    used, live = _release(fake, seed="used"), _release(fake, "branch-main", seed="live")
    old, new = _release(fake, seed="old"), _release(fake, seed="new", days=3)
    child = fake.put(PLACE, seed="child")
    lost = fake.put(PLACE, seed="lost")
    index = _release(fake, seed="index", children=(child,))
    cache = fake.put(PLACE, "cache", seed="cache")
    attached = {fake.put(PLACE, f"test-{one[7:47]}-k", seed=f"record {one}") for one in (used, live)}
    signature = fake.put(PLACE, seed="signature", subject=used)
    others = {fake.put(PLACE, f"test-{one[7:47]}-k", seed=f"record {one}") for one in (old, index)}
    gone = fake.put(PLACE, seed="its signature", subject=old)
    candidate = fake.put(f"{PLACE}-candidate", "candidate-1", seed="candidate")
    return {used, live, new, cache, signature, *attached}, {old, child, lost, index, gone, candidate, *others}


@pytest.mark.parametrize("locked", [False, True])
def test_a_whole_registry(locked: bool) -> None:
    fake = FakeAcr(NOW)
    stay, go = _world(fake)
    first = next(digest for _, digest in fake.stored)
    if locked:
        fake.locked = {(PLACE, tag) for tag in fake.tags(PLACE) if tag.startswith("dig-")}
    plan = _plan(fake, Use(digest=first, by="the model digits:7"))
    result = _execute(fake, plan)
    assert [one.state for one in result] == ["deleted"] * len(go)
    assert fake.digests(PLACE) | fake.digests(f"{PLACE}-candidate") == stay
    assert {tag for place, tag in fake.locked if tag in fake.tags(place)} == {
        tag for tag in fake.tags(PLACE) if tag.startswith("dig-") and locked
    }


def test_without_the_right_to_unlock_locked_releases_stay() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    record = fake.put(PLACE, f"test-{digest[7:47]}-k")
    fake.locked = {(PLACE, f"dig-{digest[7:]}")}
    fake.may_write_metadata = False
    result = _execute(fake, _plan(fake))
    assert fake.digests(PLACE) == {digest, record}
    assert [one.why for one in result] == [
        f"the tag dig-{digest[7:19]}… is locked, and this identity lacks registries/metadata/write",
        "the manifest that it belongs to stays",
    ]


@pytest.mark.parametrize("name", ["", "digest", "git"])
def test_locks_of_people_keep_an_image(name: str) -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    fake.locked = {(PLACE, {"": "", "digest": digest, "git": f"git-{digest[7:47]}"}[name])}
    plan = _plan(fake)
    assert plan.delete == ()
    assert plan.keep[0][1].startswith("locked: ")


def test_two_clean_ups_at_once() -> None:
    fake = FakeAcr(NOW)
    stay, go = _world(fake)
    first = next(digest for _, digest in fake.stored)
    uses = (Use(digest=first, by="m"),)
    one, two = _plan(fake, *uses), _plan(fake, *uses)
    assert [one.state for one in (*_execute(fake, one), *_execute(fake, two))] == [
        *["deleted"] * len(go),
        *["gone"] * len(go),
    ]
    assert fake.digests(PLACE) == stay


class _KilledError(BaseException):
    """The process ends here."""


def test_killed_before_any_request_it_resumes() -> None:
    """Kill a clean-up before each of its requests; the next one completes it."""
    kill_at = 1
    while True:
        fake = FakeAcr(NOW)
        stay, _ = _world(fake)
        first = next(digest for _, digest in fake.stored)
        fake.locked = {(PLACE, tag) for tag in fake.tags(PLACE) if tag.startswith("dig-")}
        uses = (Use(digest=first, by="m"),)
        plan = _plan(fake, *uses)
        fake.log.clear()

        def kill(number: int, _method: str, _path: str, at: int = kill_at) -> int | None:
            if number >= at:
                raise _KilledError
            return None

        fake.hook = kill
        try:
            _execute(fake, plan)
        except _KilledError:
            fake.hook = lambda _number, _method, _path: None
            assert stay <= fake.digests(PLACE)
            fake.now += 3 * 3600
            _execute(fake, _plan(fake, *uses))
            assert fake.digests(PLACE) == stay
            kill_at += 1
            continue
        break
    assert kill_at > 10


@pytest.mark.parametrize(
    ("status", "why"),
    [
        (403, "HTTP 403: this identity may not delete"),
        (405, "HTTP 405: the registry does not delete: it is locked, or deletion is turned off"),
        (503, "HTTP 503: the registry refused"),
    ],
)
def test_a_refused_deletion_is_reported(status: int, why: str) -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    plan = _plan(fake)
    fake.hook = lambda _number, method, _path: status if method == "DELETE" else None
    assert [one.why for one in _execute(fake, plan)] == [why]
    assert fake.digests(PLACE) == {digest}


def test_a_deletion_without_an_answer_is_not_repeated() -> None:
    fake = FakeAcr(NOW)
    _release(fake)
    plan = _plan(fake)
    fake.log.clear()

    def cut(_number: int, method: str, _path: str) -> int | None:
        if method == "DELETE":
            raise requests.ReadTimeout
        return None

    fake.hook = cut
    assert [one.why for one in _execute(fake, plan)] == ["the registry did not answer: ReadTimeout"]
    assert sum(line.startswith("DELETE") for line in fake.log) == 1


@pytest.mark.parametrize("part", ["/_manifests", "/_tags", f"/acr/v1/{PLACE}", "/v2/"])
@pytest.mark.parametrize("status", [401, 403, 500])
def test_a_list_that_cannot_be_read_is_an_error(part: str, status: int) -> None:
    fake = FakeAcr(NOW)
    _world(fake)
    fake.hook = lambda _number, _method, path: status if part in path else None
    with pytest.raises(ImageError, match=f"refused to .*HTTP {status}"):
        _plan(fake)


def test_a_list_that_is_cut_short_is_an_error() -> None:
    fake = FakeAcr(NOW)
    _world(fake)
    fake.hidden = {max(fake.digests(PLACE))}
    with pytest.raises(ImageError, match=r"lists \d+ of the \d+ (manifests|tags) of octo/digits"):
        _plan(fake)
