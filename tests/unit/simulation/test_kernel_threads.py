from __future__ import annotations

import concurrent.futures
import contextvars
import datetime
import os
import queue
import random
import secrets
import socket
import threading
import time
import uuid
from collections.abc import Callable
from time import monotonic as imported_monotonic
from typing import Any

import pytest

from aml_train.core.clock import SYSTEM_CLOCK, elapsed
from aml_train.core.threads import (
    CancelToken,
    WorkCancelledError,
    in_background,
    map_parallel,
    run_parallel,
)
from simulation.kernel import Decisions, Kernel, SimulationError, Violation, installed
from simulation.kernel.entities import Limits
from tests.support.simulated_world import simulate

_AT_IMPORT = threading.Lock()
_LOCAL = threading.local()
_VARIABLE: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="none")


def _threads(*targets: Callable[[], object]) -> None:
    threads = [threading.Thread(target=target) for target in targets]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def _event() -> object:
    event = threading.Event()
    early = event.wait(5)
    threading.Timer(3, event.set).start()
    began = time.monotonic()
    return early, event.wait(), round(time.monotonic() - began, 3)


def _condition() -> object:
    condition, ready, seen = threading.Condition(), list[int](), list[int]()

    def take() -> None:
        with condition:
            condition.wait_for(lambda: ready)
            seen.append(ready.pop())

    def give() -> None:
        time.sleep(1)
        with condition:
            ready.extend((1, 2))
            condition.notify_all()

    _threads(take, take, give)
    return sorted(seen)


def _semaphore() -> object:
    semaphore, inside, most = threading.BoundedSemaphore(2), [0], [0]

    def work() -> None:
        with semaphore:
            inside[0] += 1
            most[0] = max(most[0], inside[0])
            time.sleep(1)
            inside[0] -= 1

    _threads(work, work, work, work, work)
    with pytest.raises(ValueError, match="released too many times"):
        semaphore.release()
    return most[0], int(time.monotonic()) - 1000


def _barrier() -> object:
    barrier, passed = threading.Barrier(3), list[float]()

    def come(after: float) -> None:
        time.sleep(after)
        barrier.wait()
        passed.append(round(time.monotonic() - 1000, 2))

    _threads(lambda: come(1), lambda: come(2), lambda: come(4))
    return passed


def _queue() -> object:
    items: queue.Queue[int] = queue.Queue(maxsize=1)
    with pytest.raises(queue.Empty):
        items.get(timeout=2)
    got: list[int] = []

    def read() -> None:
        for _ in range(3):
            time.sleep(1)
            got.append(items.get())

    reader = threading.Thread(target=read)
    reader.start()
    for item in range(3):
        items.put(item)
    reader.join()
    return got


def _simple_queue() -> object:
    items: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Timer(2, items.put, ["late"]).start()
    with pytest.raises(queue.Empty):
        items.get(timeout=1)
    return items.get()


def _futures() -> object:
    def slow(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        futures = [pool.submit(slow, seconds) for seconds in (3, 1, 2)]
        first = concurrent.futures.wait(futures, return_when=concurrent.futures.FIRST_COMPLETED).done
        order = [future.result() for future in concurrent.futures.as_completed(futures)]
        with pytest.raises(concurrent.futures.TimeoutError):
            pool.submit(slow, 9).result(timeout=1)
    return len(first), sorted(order), list(pool.map(slow, ())) if not pool._shutdown else []


def _locals() -> object:
    seen: list[object] = []

    def work(value: int) -> None:
        _LOCAL.value = value
        _VARIABLE.set(str(value))
        time.sleep(1)
        seen.append((_LOCAL.value, _VARIABLE.get()))

    _VARIABLE.set("main")
    _threads(lambda: work(1), lambda: work(2))
    return sorted(seen, key=str), getattr(_LOCAL, "value", "none"), _VARIABLE.get()


def _lock_of_an_import() -> object:
    order: list[str] = []

    def work(name: str) -> None:
        with _AT_IMPORT:
            order.append(name)
            time.sleep(1)
            order.append(name)

    _threads(lambda: work("a"), lambda: work("b"))
    return order in (["a", "a", "b", "b"], ["b", "b", "a", "a"])


def _locks() -> object:
    lock, again = threading.Lock(), threading.RLock()
    lock.acquire()
    again.acquire()
    again.acquire()
    results: list[bool] = []
    _threads(lambda: results.append(lock.acquire(timeout=2)), lambda: results.append(again.acquire(blocking=False)))
    with pytest.raises(RuntimeError, match="release unlocked lock"):
        threading.Lock().release()
    with pytest.raises(RuntimeError, match="un-acquired"):
        threading.RLock().release()
    with pytest.raises(ValueError, match="non-blocking"):
        lock.acquire(False, 1)
    return results, lock.locked()


def _product() -> object:
    token = CancelToken()

    def aside(token: CancelToken) -> str:
        over = threading.Event()
        with token.on_cancel(over.set):
            over.wait(2)
        return "aside"

    both = run_parallel(lambda _token: "main", aside, name="aside", ended="ended", token=token)

    def slow() -> str:
        time.sleep(3)
        return "slept"

    def cancelled(token: CancelToken) -> None:
        token.cancel()
        token.raise_if_cancelled()

    future = in_background(slow, "background")
    with pytest.raises(WorkCancelledError):
        run_parallel(cancelled, aside, name="aside", ended="ended")
    return both, future.result(), map_parallel(lambda item: item + 1, range(9), "map")


def _thread_names() -> object:
    names = [threading.current_thread().name, threading.main_thread().name]
    thread = threading.Thread(target=lambda: names.append(threading.current_thread().name), name="mine")
    thread.start()
    thread.join()
    return (
        names,
        len(threading.enumerate()),
        thread.is_alive(),
        threading.get_ident() == threading.main_thread().ident,
    )


@pytest.mark.parametrize(
    ("main", "expected"),
    [
        (_event, (False, True, 3.0)),
        (_condition, [1, 2]),
        (_semaphore, (2, 3)),
        (_barrier, [4.0, 4.0, 4.0]),
        (_queue, [0, 1, 2]),
        (_simple_queue, "late"),
        (_futures, (1, [1, 2, 3], [])),
        (_locals, ([(1, "1"), (2, "2")], "none", "main")),
        (_lock_of_an_import, True),
        (_locks, ([False, False], True)),
        (_product, (("main", "aside"), "slept", list(range(1, 10)))),
        (_thread_names, ((["MainThread", "MainThread", "mine"]), 1, False, True)),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_primitives(main: Callable[[], object], expected: object) -> None:
    results, _kernel = simulate(main)
    assert results == [expected]


def test_days_pass_at_once_and_every_clock_shows_them() -> None:
    def main() -> list[Any]:
        def clocks() -> list[float]:
            return [
                *(time.monotonic(), imported_monotonic(), SYSTEM_CLOCK.now(), elapsed(), time.perf_counter()),
                *(
                    time.time(),
                    time.time_ns() / 1e9,
                    time.monotonic_ns() / 1e9,
                    datetime.datetime.now(datetime.UTC).timestamp(),
                ),
            ]

        before = clocks()
        SYSTEM_CLOCK.sleep(86_400.0)
        return [round(late - early, 3) for early, late in zip(before, clocks(), strict=True)]

    began = time.monotonic()
    results, _kernel = simulate(main)
    assert results == [[86_400.0] * 9]
    assert time.monotonic() - began < 3600


def test_randomness_follows_from_the_seed() -> None:
    def main() -> list[object]:
        random.shuffle(numbers := list(range(9)))
        return [
            *(os.urandom(8), random.random(), random.Random().random(), random.SystemRandom().random(), numbers),
            *(secrets.token_hex(), uuid.uuid4(), uuid.uuid1()),
        ]

    first, second = simulate(main)[0], simulate(main)[0]
    assert first == second
    assert len({str(value) for value in first[0]}) == 8


def test_a_deadlock_is_reported_with_the_stack_of_each_thread() -> None:
    def main() -> None:
        first, second = threading.Lock(), threading.Lock()

        def one_way() -> None:
            with first:
                time.sleep(1)
                second.acquire()

        def other_way() -> None:
            with second:
                time.sleep(1)
                first.acquire()

        _threads(one_way, other_way)

    with pytest.raises(Violation, match="no-deadlock") as caught:
        simulate(main)
    for part in (
        "in one_way",
        "second.acquire()",
        "in other_way",
        "first.acquire()",
        "program/MainThread waits for a lock",
    ):
        assert part in caught.value.message


@pytest.mark.parametrize("loop", [lambda: time.sleep(1.0), lambda: time.sleep(0)], ids=["time", "switches"])
def test_a_run_without_an_end_is_reported(loop: Callable[[], None]) -> None:
    def main() -> None:
        while True:
            loop()

    kernel = Kernel(Decisions(0, {}), limits=Limits(switches=500, seconds=100.0))
    with installed(kernel):
        kernel.process("program", main)
        with pytest.raises(Violation, match="every-run-ends: no end after"):
            kernel.run()


def test_a_real_connection_is_refused() -> None:
    def main() -> None:
        with socket.socket() as connection, pytest.raises(SimulationError, match="without requests or urllib3"):
            connection.connect(("127.0.0.1", 1))

    simulate(main)
