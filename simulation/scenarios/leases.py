"""Clients that count under a lease: a fault that only a schedule shows.

A store keeps a number and a lease of 30 seconds. Each client takes the lease, reads the number, writes it increased by one,
and releases the lease. A write names its lease, and the store refuses one that has expired. The planted fault leaves that
check out: it is harmless unless a client is slow between its read and its write.
"""

from __future__ import annotations

import functools
import json
import random
import threading
import time
import uuid
from typing import Final

import requests

from simulation.kernel import Kernel, Limits, Moment, Network, Request, Response, Violation
from simulation.scenario import Settings

_URL: Final = "https://store.test"
_LEASE: Final = 30.0
_ATTEMPTS: Final = 40


class _Store:
    """A number, and who may change it."""

    def __init__(self, *, checks: bool) -> None:
        self.value = 0
        self._checks = checks
        self._lease = ""
        self._until = 0.0
        self._lock = threading.Lock()

    def handle(self, request: Request) -> Response:
        with self._lock:
            held = self._lease if time.monotonic() < self._until else ""
            match request.method, request.url.removeprefix(_URL):
                case "POST", "/lease":
                    if held and held != request.headers["x-lease"]:
                        return Response(status=409)
                    self._lease, self._until = request.headers["x-lease"], time.monotonic() + _LEASE
                    return Response(status=201)
                case "DELETE", "/lease":
                    if held == request.headers["x-lease"]:
                        self._lease = ""
                    return Response(status=204)
                case "GET", "/value":
                    return Response(body=json.dumps(self.value).encode())
                case "PUT", "/value":
                    if self._checks and held != request.headers["x-lease"]:
                        return Response(status=412)
                    self.value = json.loads(request.body)
                    return Response(status=204)
                case _:
                    return Response(status=404)


class _Client:
    """Increases the number once."""

    def __init__(self) -> None:
        self._session = requests.Session()
        self._session.trust_env = False

    def increase(self) -> bool:
        """Return whether the store has acknowledged it."""
        for _ in range(_ATTEMPTS):
            lease = {"x-lease": uuid.uuid4().hex}
            if self._send("POST", "/lease", lease) == 201:
                value = self._read()
                if value is not None and self._send("PUT", "/value", lease, json.dumps(value + 1)) == 204:
                    self._send("DELETE", "/lease", lease)
                    return True
            time.sleep(random.uniform(1.0, 3.0))
        return False

    def _read(self) -> int | None:
        try:
            response = self._session.get(f"{_URL}/value", timeout=(5, 20))
            return int(response.json()) if response.status_code == 200 else None
        except (requests.RequestException, ValueError):
            return None

    def _send(self, method: str, path: str, headers: dict[str, str], body: str | None = None) -> int:
        """Return the status; retry, because each request names its lease."""
        for _ in range(3):
            try:
                response = self._session.request(method, _URL + path, headers=headers, data=body, timeout=(5, 20))
            except requests.RequestException:
                time.sleep(0.5)
                continue
            if response.status_code < 500 and response.status_code != 429:
                return response.status_code
            time.sleep(1.0)
        return 0


class Leases:
    """The world of the module's docstring."""

    def __init__(self, *, checks: bool) -> None:
        self.settings = Settings(limits=Limits(switches=100_000, seconds=86_400.0), linger=600.0)
        self.store = _Store(checks=checks)
        self.acknowledged: list[str] = []

    def build(self, kernel: Kernel, network: Network, rng: random.Random) -> None:
        store = kernel.process("store", service=True, skew=rng.uniform(-60.0, 60.0))
        # An old answer to a read is a lost increase by itself: this store promises that reads are current.
        network.serve("store.test", self.store.handle, process=store, immune=("stale",))
        for number in range(rng.randint(2, 4)):
            name = f"client-{number}"
            kernel.process(name, functools.partial(self._client, name), killable=True, restart=rng.random() < 0.5)

    def _client(self, name: str) -> None:
        if _Client().increase():
            self.acknowledged.append(name)

    def check(self, moment: Moment) -> None:
        value, acknowledged = self.store.value, len(self.acknowledged)
        if value < acknowledged:
            text = f"the store has {value}, and acknowledged {acknowledged} increases; after: {moment.what}"
            raise Violation("acknowledged-is-kept", text)


def correct() -> Leases:
    """Return the world in which the store checks leases."""
    return Leases(checks=True)


def planted() -> Leases:
    """Return the world with the planted fault."""
    return Leases(checks=False)
