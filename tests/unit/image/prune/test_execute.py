"""Listing and deletion against registries in memory: locks, races, refusals, kills."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import requests
import stamina

from aml_train.core.errors import ImageError, ServiceError
from aml_train.image.leases import lease_tag, mark_tag, write_lease
from aml_train.image.prune.execute import PruneExecutor, PruneResult
from aml_train.image.prune.inventory import Inventory, PrunePolicy, Use
from aml_train.image.prune.listing import read_entries
from aml_train.image.prune.plan import PrunePlan, plan_prune
from aml_train.image.registry.client import Registry
from tests.unit.image.prune.fake_acr import HOST, FakeAcr
from tests.unit.image.prune.registries import DAY, NOW

PLACE = "octo/digits"


@pytest.fixture(autouse=True)
def _no_waiting() -> Iterator[None]:
    with stamina.set_testing(True, attempts=2):
        yield


def _registry(fake: FakeAcr) -> Registry:
    return Registry("https://plain.test" if fake.plain else f"https://{HOST}", transport=fake)


def _plan(fake: FakeAcr, *uses: Use, keep_days: float = 30) -> PrunePlan:
    registry = _registry(fake)
    entries = (*read_entries(registry, PLACE), *read_entries(registry, f"{PLACE}-candidate"))
    found = Inventory(host=HOST, entries=entries, untagged_listed=registry.can_lock, uses=uses, now=fake.now)
    return plan_prune(found, PrunePolicy(keep_days=keep_days))


def _execute(
    fake: FakeAcr,
    plan: PrunePlan,
    *,
    uses: Callable[[], tuple[Use, ...]] = tuple,
    clock: Callable[[], float] = lambda: 0.0,
) -> PruneResult:
    executor = PruneExecutor(registry=_registry(fake), read_uses=uses, now=lambda: fake.now, monotonic=clock)
    return executor.execute(plan)


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
    cache = fake.put(PLACE, "cache-layers", seed="cache")
    papers = {fake.put(PLACE, f"test-{one[7:47]}-k", seed=f"paper {one}") for one in (used, live)}
    signature = fake.put(PLACE, seed="signature", subject=used)
    others = {fake.put(PLACE, f"test-{one[7:47]}-k", seed=f"paper {one}") for one in (old, index)}
    gone = fake.put(PLACE, seed="its signature", subject=old)
    candidate = fake.put(f"{PLACE}-candidate", "candidate-1", seed="candidate")
    return {used, live, new, cache, signature, *papers}, {old, child, lost, index, gone, candidate, *others}


@pytest.mark.parametrize("locked", [False, True])
def test_a_whole_registry(locked: bool) -> None:
    fake = FakeAcr(NOW)
    stay, go = _world(fake)
    first = next(digest for _, digest in fake.stored)
    if locked:
        fake.locked = {(PLACE, tag) for tag in fake.tags(PLACE) if tag.startswith("dig-")}
    plan = _plan(fake, Use(digest=first, by="the model digits:7"))
    result = _execute(fake, plan, uses=lambda: (Use(digest=first, by="the model digits:7"),))
    assert result.count("deleted") == len(go), [one for one in result.outcomes if one.state != "deleted"]
    assert fake.digests(PLACE) | fake.digests(f"{PLACE}-candidate") == stay
    assert {tag for place, tag in fake.locked if tag in fake.tags(place)} == {
        tag for tag in fake.tags(PLACE) if tag.startswith("dig-") and locked
    }


def test_without_the_right_to_unlock_locked_releases_stay() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    paper = fake.put(PLACE, f"test-{digest[7:47]}-k")
    fake.locked = {(PLACE, f"dig-{digest[7:]}")}
    fake.may_write_metadata = False
    result = _execute(fake, _plan(fake))
    assert fake.digests(PLACE) == {digest, paper}
    assert [one.why for one in result.outcomes] == [
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
    assert plan.keep[0].reason.startswith("locked: ")


def test_a_lease_just_before_the_deletion_saves_the_image() -> None:
    fake = FakeAcr(NOW)
    index = _release(fake, children=(fake.put(PLACE, seed="child"),))
    fake.locked = {(PLACE, f"dig-{index[7:]}")}
    plan = _plan(fake)
    registry = _registry(fake)
    manifest = registry.get_manifest(PLACE, index)
    assert manifest is not None
    write_lease(registry, PLACE, manifest, now=NOW + 60)
    result = _execute(fake, plan)
    assert result.count("left") == 2
    assert len(fake.digests(PLACE)) == 2
    assert (PLACE, f"dig-{index[7:]}") in fake.locked
    assert result.outcomes[0].why == f"it has got the tag {lease_tag(index, NOW)} meanwhile"


@pytest.mark.parametrize("moment", range(1, 12))
def test_a_run_that_finds_the_image_at_any_moment_keeps_it_or_sees_the_mark(moment: int) -> None:
    """Write a lease before the request of that number, as another process would."""
    fake = FakeAcr(NOW)
    digest = _release(fake)
    plan = _plan(fake)
    fake.log.clear()
    seen: list[bool] = []

    def lease(number: int, _method: str, _path: str) -> int | None:
        if number == moment and (PLACE, digest) in fake.stored:
            fake.tag(PLACE, lease_tag(digest, NOW), digest)
            seen.append(mark_tag(digest, NOW) in fake.tags(PLACE))
        return None

    fake.hook = lease
    _execute(fake, plan)
    if seen == [False]:
        assert fake.digests(PLACE) == {digest}  # the run continues at once
    # A run that has seen the mark waits, and looks then.


def test_a_tag_that_was_written_meanwhile_saves_the_image() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    plan = _plan(fake)
    fake.tag(PLACE, "v1", digest)
    assert _execute(fake, plan).outcomes[0].why == "it has got the tag v1 meanwhile"


def test_a_model_that_was_registered_meanwhile_saves_its_image() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    result = _execute(fake, _plan(fake), uses=lambda: (Use(digest=digest, by="the model m:1"),))
    assert [one.why for one in result.outcomes] == ["now used by the model m:1"]
    assert fake.digests(PLACE) == {digest}


def test_uses_are_read_again_during_a_long_clean_up() -> None:
    fake = FakeAcr(NOW)
    digests = {_release(fake, seed=str(number)) for number in range(140)}
    late = max(digests)
    reads: list[int] = []
    batches: list[float] = [0.0]

    def clock() -> float:
        """Let a minute and a half pass before each batch, and nothing during it."""
        if threading.current_thread() is threading.main_thread():
            batches.append(batches[-1] + 45.0)
        return batches[-1]

    def uses() -> tuple[Use, ...]:
        reads.append(1)
        return (Use(digest=late, by="the model m:1"),) if len(reads) > 1 else ()

    _execute(fake, _plan(fake), uses=uses, clock=clock)
    assert len(reads) > 1
    assert fake.digests(PLACE) == {late}


def test_two_clean_ups_at_once() -> None:
    fake = FakeAcr(NOW)
    stay, go = _world(fake)
    first = next(digest for _, digest in fake.stored)
    uses = (Use(digest=first, by="m"),)
    one, two = _plan(fake, *uses), _plan(fake, *uses)
    deleted = _execute(fake, one, uses=lambda: uses).count("deleted")
    late = _execute(fake, two, uses=lambda: uses)
    assert (deleted, late.count("gone"), late.count("left")) == (len(go), len(go), 0)
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
            _execute(fake, plan, uses=lambda: uses)  # noqa: B023 - called at once
        except _KilledError:
            fake.hook = lambda _number, _method, _path: None
            assert stay <= fake.digests(PLACE)
            fake.now += 3 * 3600
            _execute(fake, _plan(fake, *uses), uses=lambda: uses)  # noqa: B023
            assert fake.digests(PLACE) == stay
            kill_at += 1
            continue
        break
    assert kill_at > 20


def test_what_a_killed_clean_up_left_on_an_image_that_is_used_by_now_goes() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    fake.tag(PLACE, mark_tag(digest, NOW - DAY), digest)  # marked and unlocked, then killed
    uses = (Use(digest=digest, by="the model m:1"),)
    result = _execute(fake, _plan(fake, *uses), uses=lambda: uses)
    assert (result.untagged, result.outcomes) == (1, ())
    assert not [tag for tag in fake.tags(PLACE) if tag.startswith("prune-")]
    assert (PLACE, f"dig-{digest[7:]}") in fake.locked


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
    assert [one.why for one in _execute(fake, plan).outcomes] == [why]
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
    assert [one.why for one in _execute(fake, plan).outcomes] == ["the registry did not answer: ReadTimeout"]
    assert sum(line.startswith("DELETE") for line in fake.log) == 1


def test_a_slow_registry_is_left_alone() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)
    times = iter([0.0, 0.0])
    result = _execute(fake, _plan(fake), clock=lambda: next(times, 31.0))
    assert [one.why for one in result.outcomes] == ["the registry was too slow for a safe deletion"]
    assert fake.digests(PLACE) == {digest}


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


def test_uses_that_cannot_be_read_stop_the_clean_up() -> None:
    fake = FakeAcr(NOW)
    digest = _release(fake)

    def refuse() -> tuple[Use, ...]:
        raise ServiceError("the workspace does not answer")

    with pytest.raises(ServiceError, match="the workspace does not answer"):
        _execute(fake, _plan(fake), uses=refuse)
    assert fake.digests(PLACE) == {digest}


def test_a_plain_registry_is_followed_from_its_tags() -> None:
    fake = FakeAcr(NOW, plain=True)
    used = _release(fake, seed="used")
    old, new = _release(fake, seed="old"), _release(fake, seed="new", days=3)
    child = fake.put(PLACE, seed="child")
    index = _release(fake, seed="index", children=(child,))
    signature = fake.put(PLACE, seed="signature", subject=used)
    listed = fake.put(PLACE, f"sha256-{used[7:]}", children=(signature,))
    unseen = fake.put(PLACE, seed="no tag leads here")
    uses = (Use(digest=used, by="m"),)
    plan = _plan(fake, *uses)
    assert {one.entry.digest for one in plan.delete} == {old, index, child}
    result = _execute(fake, plan, uses=lambda: uses)
    assert result.count("deleted") == 3
    assert fake.digests(PLACE) == {used, new, signature, listed, unseen}


def test_a_lease_saves_an_image_of_a_plain_registry() -> None:
    fake = FakeAcr(NOW, plain=True)
    digest = _release(fake)
    plan = _plan(fake)
    fake.tag(PLACE, lease_tag(digest, NOW + 600), digest)
    assert _execute(fake, plan).count("left") == 1
    assert fake.digests(PLACE) == {digest}
