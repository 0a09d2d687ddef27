"""A clean-up during a run, and two at once, in any order of their requests."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any, cast

import requests
from hypothesis import example, given, settings
from hypothesis import strategies as st
from requests.adapters import BaseAdapter

from aml_train.image.context import ImageContext
from aml_train.image.leases import hold_image
from aml_train.image.prune.execute import PruneExecutor, PruneResult
from aml_train.image.prune.inventory import Inventory, PrunePolicy
from aml_train.image.prune.listing import read_entries
from aml_train.image.prune.plan import PrunePlan, plan_prune
from aml_train.image.registry.client import Registry
from tests.unit.image.prune.fake_acr import HOST, FakeAcr
from tests.unit.image.prune.registries import DAY, NOW

PLACE = "octo/digits"
#: Which side sends the next request: True for the first one.
ORDERS = st.lists(st.booleans(), max_size=40)


class Turns:
    """Lets two threads send their requests in a given order; one that has ended no longer takes part."""

    def __init__(self, order: list[bool]) -> None:
        self._order = list(order)
        self._ended: set[bool] = set()
        self._changed = threading.Condition()

    def wait(self, side: bool) -> None:
        """Wait until it is *side*'s turn."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._next() in (side, None), timeout=60)
            if self._order:
                self._order.pop(0)
            self._changed.notify_all()

    def _next(self) -> bool | None:
        while self._order and self._order[0] in self._ended:
            self._order.pop(0)
        rest = (side for side in (True, False) if side not in self._ended)
        return self._order[0] if self._order else next(rest, None)

    def end(self, side: bool) -> None:
        with self._changed:
            self._ended.add(side)
            self._changed.notify_all()

    def wait_for_end(self, side: bool) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: side in self._ended, timeout=60)


class OneSide(BaseAdapter):
    """The way of one side to the registry."""

    def __init__(self, fake: FakeAcr, turns: Turns, side: bool) -> None:
        super().__init__()
        self._fake, self._turns, self._side = fake, turns, side

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        self._turns.wait(self._side)
        return self._fake.send(request, *args, **options)

    def close(self) -> None:
        """Do nothing: there are no connections."""


def registry(fake: FakeAcr, turns: Turns, side: bool) -> Registry:
    host = "plain.test" if fake.plain else HOST
    return Registry(f"https://{host}", transport=OneSide(fake, turns, side))


def plan(fake: FakeAcr) -> PrunePlan:
    client = Registry("https://plain.test" if fake.plain else f"https://{HOST}", transport=fake)
    entries = read_entries(client, PLACE)
    return plan_prune(
        Inventory(host=HOST, entries=entries, untagged_listed=client.can_lock, uses=(), now=fake.now),
        PrunePolicy(keep_days=30),
    )


def release(fake: FakeAcr, *, index: bool) -> str:
    children = (fake.put(PLACE, seed="one"), fake.put(PLACE, seed="two")) if index else ()
    digest = fake.put(PLACE, seed="release", children=children)
    tags = (f"addr-{digest[7:47]}", f"dig-{digest[7:]}", f"git-{digest[7:47]}")
    fake.stored[PLACE, digest].tags.update(dict.fromkeys(tags, fake.now - 100 * DAY))
    fake.put(PLACE, f"test-{digest[7:47]}-k", seed="record")
    return digest


def at_once(turns: Turns, works: Mapping[bool, Callable[[], Any]]) -> dict[bool, Any]:
    """Do both works in parallel; return their results."""
    results: dict[bool, Any] = {}

    def do(side: bool) -> None:
        try:
            results[side] = works[side]()
        finally:
            turns.end(side)

    threads = [threading.Thread(target=do, args=(side,), daemon=True) for side in works]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    assert results.keys() == works.keys()
    return results


def execute(fake: FakeAcr, turns: Turns, side: bool, planned: PrunePlan) -> PruneResult:
    client = registry(fake, turns, side)
    executor = PruneExecutor(registry=client, read_uses=tuple, now=lambda: fake.now, monotonic=lambda: 0.0)
    return executor.execute(planned)


@settings(max_examples=60, deadline=None)
@given(order=ORDERS, index=st.booleans(), plain=st.booleans())
@example(order=[True, *[False] * 3, *[True] * 40], index=False, plain=False)
@example(order=[*[False] * 3, *[True] * 6], index=False, plain=False)
def test_an_image_that_a_run_holds_survives_a_clean_up_in_any_order(
    order: list[bool], index: bool, plain: bool
) -> None:
    """The run is the first side. It waits longer than a marked deletion may take."""
    fake = FakeAcr(NOW, plain=plain)
    digest = release(fake, index=index)
    planned, turns = plan(fake), Turns(order)
    client = registry(fake, turns, True)
    notes: list[str] = []
    context = cast(ImageContext, SimpleNamespace(registry=client, repository=PLACE, note=notes.append))

    def hold() -> tuple[bool, set[str]]:
        found = client.get_manifest(PLACE, f"addr-{digest[7:47]}")
        if found is None:
            return False, set()

        def sleep(_seconds: float) -> None:
            turns.end(True)
            turns.wait_for_end(False)

        return hold_image(context, found, now=lambda: fake.now, sleep=sleep), {digest, *found.children}

    results = at_once(turns, {True: hold, False: lambda: execute(fake, turns, False, planned)})
    held, needed = results[True]
    if held:
        assert needed <= fake.digests(PLACE)
    elif not notes:
        assert digest not in fake.digests(PLACE) or not needed <= fake.digests(PLACE)


@settings(max_examples=30, deadline=None)
@given(order=ORDERS, index=st.booleans())
def test_two_clean_ups_at_once_in_any_order(order: list[bool], index: bool) -> None:
    fake = FakeAcr(NOW)
    stays = fake.put(PLACE, "v1", seed="stays")
    release(fake, index=index)
    planned, turns = plan(fake), Turns(order)
    works = {side: functools.partial(execute, fake, turns, side, planned) for side in (True, False)}
    results = at_once(turns, works)
    assert fake.digests(PLACE) == {stays}
    ended = [(one.deletion.entry.digest, one.state) for result in results.values() for one in result.outcomes]
    assert {state for _, state in ended} <= {"deleted", "gone"}
    # A mark that is put just after the other's deletion brings the manifest back, and it is deleted again.
    assert {digest for digest, state in ended if state == "deleted"} == {one.entry.digest for one in planned.delete}
