"""The latest requests, in memory."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

KEPT_REQUESTS = 1000


class RequestLog:
    """The last `KEPT_REQUESTS` requests, oldest first, without queries and bodies.

    These may hold signatures.

    Args:
        clock: seconds since the epoch.
    """

    def __init__(self, *, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: deque[dict[str, Any]] = deque(maxlen=KEPT_REQUESTS)
        self._total = 0

    def add(
        self,
        method: str,
        host: str,
        path: str,
        status: int | None,
        seconds: float,
        *,
        client: str = "",
        error: str = "",
        fault: int | None = None,
    ) -> None:
        """Note one request.

        Args:
            status: None where no answer was sent.
            seconds: how long the answer took.
            client: the ``User-Agent``.
            error: the code of an error that was answered.
            fault: the number of the fault that it got on purpose.
        """
        entry: dict[str, Any] = {
            "time": round(self._clock(), 3),
            "method": method,
            "host": host,
            "path": path.partition("?")[0],
            "status": status,
            "ms": round(seconds * 1000, 1),
            "client": client[:120],
        }
        if error:
            entry["error"] = error
        if fault is not None:
            entry["fault"] = fault
        with self._lock:
            self._total += 1
            self._kept.append({"number": self._total, **entry})

    @property
    def total(self) -> int:
        """How many requests there were since the start."""
        return self._total

    def since(self, number: int = 0, *, limit: int = KEPT_REQUESTS) -> list[dict[str, Any]]:
        """Return the newest *limit* requests after the one of that number, oldest first."""
        with self._lock:
            found = [entry for entry in self._kept if entry["number"] > number]
        return found[-limit:] if limit else []
