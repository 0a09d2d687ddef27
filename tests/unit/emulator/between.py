"""A request that comes while another one is answered: after its first read, and before what it writes."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event, RLock
from typing import Any

import pytest

from tests.unit.emulator.parts import IDENTITY, Answer, Service

Asked = tuple[str, str, Any]
"""A request: its method, path and body."""


class WatchedLock:
    """A lock that sets an event when a thread has to wait for it."""

    def __init__(self, waiting: Event) -> None:
        self._lock = RLock()
        self._waiting = waiting

    def __enter__(self) -> None:
        if not self._lock.acquire(blocking=False):
            self._waiting.set()
            self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()


def ask_between(
    service: Service, monkeypatch: pytest.MonkeyPatch, read: tuple[type, str], first: Asked, second: Asked
) -> tuple[Answer, Answer]:
    """Return the answers to two requests.

    The first goes on when the second is answered or waits for the first one's transaction.

    Args:
        read: the method of a store that the first request reads with.
    """
    owner, name = read
    moved = Event()
    asked: list[Future[Answer]] = []

    def then_ask(store: Any, *names: str) -> Any:
        found = really_read(store, *names)
        if not asked:
            asked.append(clients.submit(ask, second))
            asked[0].add_done_callback(lambda _: moved.set())
            assert moved.wait(60)
        return found

    def ask(request: Asked) -> Answer:
        method, path, body = request
        return service.call(method, path, body, host=IDENTITY.api_host)

    really_read = getattr(owner, name)
    with ThreadPoolExecutor(1) as clients, monkeypatch.context() as patch:
        patch.setattr(service.store._db, "_lock", WatchedLock(moved))
        patch.setattr(owner, name, then_ask)
        return ask(first), asked[0].result(60)
