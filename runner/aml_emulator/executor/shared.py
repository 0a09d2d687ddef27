"""Objects that all queues of an emulator use: slots and connections.

Each workspace has a queue, and all of them one machine, one engine and one proxy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

import docker

from aml_emulator.executor.engine_words import ENGINE_SECONDS, PING_SECONDS

Chosen = TypeVar("Chosen")


class Slots:
    """The places for running jobs; used by many threads.

    Args:
        count: how many there are.
    """

    def __init__(self, count: int) -> None:
        self._lock = threading.Lock()
        self._free = count
        self._waiting: dict[object, Callable[[], None]] = {}

    def take_for(self, choose: Callable[[], Chosen | None]) -> Chosen | None:
        """Return what *choose* returns, which takes a place; None if no place is free.

        No other queue looks for a place meanwhile, so that none goes unseen.
        """
        with self._lock:
            chosen = choose() if self._free > 0 else None
            if chosen is not None:
                self._free -= 1
            return chosen

    def take(self) -> None:
        """Take a place for a job that runs already, whether there is one or not."""
        with self._lock:
            self._free -= 1

    def release(self) -> None:
        """Give a place back, and wake every queue."""
        with self._lock:
            self._free += 1
            listeners = tuple(self._waiting.values())
        for listener in listeners:
            listener()

    def watch(self, owner: object, wake: Callable[[], None]) -> None:
        """Call *wake* whenever a place is given back."""
        with self._lock:
            self._waiting[owner] = wake

    def forget(self, owner: object) -> None:
        """Call the owner's listener no longer."""
        with self._lock:
            self._waiting.pop(owner, None)


class Clients:
    """The connections to the engine, made when they are first needed."""

    @cached_property
    def engine(self) -> docker.DockerClient:
        """The client of ordinary requests."""

        return docker.DockerClient.from_env(timeout=ENGINE_SECONDS, max_pool_size=64)

    @cached_property
    def pinger(self) -> docker.DockerClient:
        """The client of requests that do not wait for long: pings and samples."""

        return docker.DockerClient.from_env(timeout=PING_SECONDS, max_pool_size=64)

    def close(self) -> None:
        """Close the idle connections."""
        for name in ("engine", "pinger"):
            if name in vars(self):
                vars(self)[name].close()


@dataclass(frozen=True, kw_only=True)
class Shared:
    """The objects that the queues of one emulator share.

    Attributes:
        slots: the places for running jobs.
    """

    slots: Slots
    clients: Clients = field(default_factory=Clients)
