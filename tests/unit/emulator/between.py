"""A request that comes while another one is answered: after its first read, and before what it writes."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from itertools import count
from threading import Event, RLock
from typing import Any, TypeVar

import pytest

from tests.unit.emulator.parts import IDENTITY, Answer, Service

Done = TypeVar("Done")

Asked = tuple[str, str, Any]
"""A request: its method, path and body."""


DELETED = ("runs", "containers", "computes", "datastores")
"""Tables of what clients can delete; others depend on them."""


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


def between(
    service: Service,
    monkeypatch: pytest.MonkeyPatch,
    read: tuple[type, str],
    first: Callable[[], Done],
    second: Asked,
) -> tuple[Done, Answer]:
    """Return what *first* returns, and the answer to a request that comes meanwhile.

    The first continues when the request is answered or waits for the first one's transaction.

    Args:
        read: the method of a store that *first* reads with.
    """
    owner, name = read
    moved = Event()
    asked: list[Future[Answer]] = []

    def then_ask(store: Any, *given: Any, **named: Any) -> Any:
        found = really_read(store, *given, **named)
        if not asked:
            asked.append(clients.submit(_ask, service, second))
            asked[0].add_done_callback(lambda _: moved.set())
            assert moved.wait(60)
        return found

    really_read = getattr(owner, name)
    with ThreadPoolExecutor(1) as clients, monkeypatch.context() as patch:
        patch.setattr(service.store._db, "_lock", WatchedLock(moved))
        patch.setattr(owner, name, then_ask)
        return first(), asked[0].result(60)


@contextmanager
def deletion(service: Service, table: str, number: int) -> Iterator[None]:
    """Empty a table before a statement of the block, as another client could; afterwards all is as before.

    Args:
        number: which of the statements outside of transactions; 0 is the first one.
    """
    database, numbers = service.store._db, count()

    def after_deletion(method: Callable[..., Any]) -> Callable[..., Any]:
        def run(*given: Any) -> Any:
            if database._depth == 0 and next(numbers) == number:
                database._connection.execute(f"DELETE FROM {table}")  # noqa: S608 - a name in the test
            return method(*given)

        return run

    with pytest.MonkeyPatch.context() as patch, closing(sqlite3.connect(":memory:")) as copy:
        database._connection.backup(copy)
        for name in ("rows", "put", "execute", "execute_many", "transaction"):
            patch.setattr(database, name, after_deletion(getattr(database, name)))
        yield
        copy.backup(database._connection)


def _ask(service: Service, request: Asked) -> Answer:
    method, path, body = request
    host = "management.azure.com" if path.startswith("/subscriptions/") else IDENTITY.api_host
    return service.call(method, path, body, host=host)
