"""Objects that all queues of an emulator use: slots and connections.

Each workspace has a queue, and all of them one machine, one engine and one proxy.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Final, TypeVar

import docker
from docker.errors import APIError, DockerException
from requests.exceptions import RequestException

INSTANCE_LABEL = "org.aml-train.emulator.instance"
RUN_LABEL = "org.aml-train.emulator.run"
NODE_LABEL = "org.aml-train.emulator.node"

ENGINE_SECONDS = 600
"""Time-out of one call to the engine: extracting a large input into a container is slow."""

PING_SECONDS = 30

EngineFault = (DockerException, RequestException)
"""docker-py's errors if the engine refuses or does not answer."""


def labels(instance: str, run_id: str) -> dict[str, str]:
    """Return the labels of everything that belongs to a run."""
    return {INSTANCE_LABEL: instance, RUN_LABEL: run_id}


def fault_text(error: Exception) -> str:
    """Return the engine's message without docker-py's addresses around it."""
    return str(error.explanation) if isinstance(error, APIError) and error.explanation else str(error)


JOB_PROCESSES: Final = 4096
"""Processes and threads of a node, if nothing else is said: many times those of loaders and of libraries for linear algebra."""


def with_limits(
    options: Mapping[str, Any], *, node: int | None, machine: int, memory: int | None, processes: int
) -> dict[str, Any]:
    """Return a container's *options* with limits; a job may choose lower ones.

    Args:
        options: keywords of docker-py's ``create_host_config``.
        node: the memory of the node's VM size, in bytes; None if no size was chosen.
        machine: the machine's memory; an eighth of it is not the jobs'.
        memory: the most that a node may have, None for what the machine has.
        processes: the most that a node may have.
    """
    most = memory or machine * 7 // 8
    given: int = min(options.get("mem_limit") or node or most, most)
    return {
        **options,
        "mem_limit": given,
        # No swap: it would let a job slow down the whole machine.
        "memswap_limit": given,
        "pids_limit": min(options.get("pids_limit", processes), processes),
    }


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


class Shared:
    """What the queues of one emulator share: the places for running jobs, and the connections to the engine.

    Args:
        max_jobs: how many places there are.
    """

    def __init__(self, max_jobs: int) -> None:
        self.slots = Slots(max_jobs)

    @cached_property
    def engine(self) -> docker.DockerClient:
        """The client of ordinary requests, made when it is first needed."""
        return docker.DockerClient.from_env(timeout=ENGINE_SECONDS, max_pool_size=64)

    @cached_property
    def pinger(self) -> docker.DockerClient:
        """The client of pings, which do not wait for long."""
        return docker.DockerClient.from_env(timeout=PING_SECONDS, max_pool_size=64)
