"""A small world that uses every kind of thing that the simulation's kernel replaces."""

from __future__ import annotations

import concurrent.futures
import datetime
import functools
import os
import queue
import random
import secrets
import threading
import time
import uuid
from collections.abc import Callable
from typing import Any

import requests

from simulation.kernel import Decisions, Kernel, Limits, Moment, Network, Plan, Profile, Request, Response, installed
from simulation.scenario import Settings


def simulate(
    main: Callable[[], Any],
    *,
    serve: Callable[[Request], Response] | None = None,
    plan: Plan | None = None,
    **options: Any,
) -> tuple[list[Any], Kernel]:
    """Run one program, without faults but those of *plan*; return what it returned, and the kernel."""
    results: list[Any] = []
    kernel = Kernel(Decisions(0, plan or {}))
    with installed(kernel):
        network = Network(kernel)
        if serve is not None:
            network.serve("service.test", serve, process=kernel.process("service"))
        kernel.process("program", lambda: results.append(main()), **options)
        kernel.run(linger=1000.0)
    return results, kernel


def later(seconds: float, *actions: Callable[[], object]) -> Callable[[], None]:
    """Return a program that sleeps, and then does these things."""

    def program() -> None:
        time.sleep(seconds)
        for action in actions:
            action()

    return program


class World:
    """Two workers and a client with threads, queues, futures and requests; a service with a lock."""

    def __init__(self) -> None:
        self.settings = Settings(limits=Limits(switches=50_000), linger=60.0)
        self._lock = threading.Lock()
        self.seen: list[str] = []

    def _serve(self, request: Request) -> Response:
        with self._lock:
            time.sleep(random.random() / 10)
            self.seen.append(request.url)
        return Response(headers={"Date": str(datetime.datetime.now(datetime.UTC))}, body=os.urandom(8) * 4)

    def build(self, kernel: Kernel, network: Network, rng: random.Random) -> None:
        network.serve("*.test", self._serve, process=kernel.process("service", skew=rng.uniform(-5, 5)))
        for name in ("one", "two", "three"):
            kernel.process(
                name, functools.partial(self._program, name), killable=True, restart=True, skew=rng.uniform(-9, 9)
            )

    def _program(self, name: str) -> None:
        work: queue.Queue[int] = queue.Queue(maxsize=2)
        done: queue.SimpleQueue[str] = queue.SimpleQueue()
        together, limit = threading.Barrier(2), threading.Semaphore(1)

        def serve() -> None:
            together.wait()
            while (item := work.get()) >= 0:
                with limit:
                    time.sleep(random.expovariate(10))
                done.put(f"{item} {secrets.token_hex(2)}")

        threads = [threading.Thread(target=serve, daemon=True) for _ in range(2)]
        for thread in threads:
            thread.start()
        for number in (1, 2, 3, -1, -1):
            work.put(number)
        for thread in threads:
            thread.join()
        found = {done.get() for _ in range(3)}
        session = requests.Session()
        session.trust_env = False
        with concurrent.futures.ThreadPoolExecutor(3) as pool:
            futures = [pool.submit(self._ask, session, f"{name}/{uuid.uuid4()}") for _ in range(4)]
            concurrent.futures.wait(futures[:2], return_when=concurrent.futures.FIRST_COMPLETED)
            for future in concurrent.futures.as_completed(futures):
                found.add(future.result())
        for text in found:  # in the order of their hashes
            time.sleep(len(text) / 100)

    def _ask(self, session: requests.Session, path: str) -> str:
        try:
            response = session.get(f"https://host.test/{path}", timeout=(3, 7))
            return f"{response.status_code} {response.content.hex()} {time.time()}"
        except requests.RequestException as error:
            return type(error).__name__

    def check(self, moment: Moment) -> None:
        assert len(self.seen) == len(set(self.seen)) or moment.kernel.profile.fault, (
            "a request arrived twice without a fault"
        )


class Eventful(World):
    """The same with every kind of fault."""

    def __init__(self) -> None:
        super().__init__()
        self.settings = Settings(limits=Limits(switches=50_000), linger=60.0, profile=self._profile)

    def _profile(self, rng: random.Random) -> Profile:
        return Profile(
            fault=rng.choice((0.1, 0.4)), delay=0.3, longest=20.0, switch=rng.random(), preempt=0.1, kill=0.01
        )
