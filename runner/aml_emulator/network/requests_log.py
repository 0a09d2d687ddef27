"""The latest requests, in memory, and a record of whole answers on request."""

from __future__ import annotations

import json
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

KEPT_REQUESTS = 1000
RECORD_BYTES = 64 * 1024 * 1024
"""So large a record grows before it is moved aside, once: two of them at most."""

REDACTED = "(redacted)"
SECRET_NAMES = frozenset(
    {"access_token", "refresh_token", "client_secret", "key", "password", "sasToken", "secret", "token"}
)


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


class Recorder:
    """Writes answers to a file, one JSON object a line, with secrets removed.

    Args:
        path: the file, mode 0600; it is moved to ``<path>.1`` when it is full.
    """

    def __init__(self, path: Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        self._handler = RotatingFileHandler(path, maxBytes=RECORD_BYTES, backupCount=1, encoding="utf-8")
        self._handler.setFormatter(logging.Formatter("%(message)s"))

    def add(
        self,
        *,
        method: str,
        host: str,
        path: str,
        query: Mapping[str, str],
        status: int,
        headers: Mapping[str, str],
        body: Any,
        client: str = "",
    ) -> None:
        """Write one answer.

        Args:
            query: of which the names and the api-version are kept.
            headers: of the answer.
            body: what was answered, as JSON can hold it; None for nothing.
            client: the request's User-Agent.
        """
        entry = {
            "client": client[:120],
            "method": method,
            "host": host,
            "path": path,
            "query": {name: value if name == "api-version" else REDACTED for name, value in query.items()},
            "status": status,
            "headers": {name.lower(): value for name, value in headers.items()},
            "body": redact(body),
        }
        line = json.dumps(entry, separators=(",", ":"))
        self._handler.emit(logging.LogRecord("record", logging.INFO, "", 0, line, None, None))

    def close(self) -> None:
        """Close the file."""
        self._handler.close()


def redact(value: Any, name: str = "") -> Any:
    """Return a JSON value without secrets, which names and signatures identify."""
    if isinstance(value, dict):
        secret = "passwords" if name == "passwords" else ""
        return {
            key: redact(item, "password" if secret and key == "value" else str(key)) for key, item in value.items()
        }
    if isinstance(value, list):
        return [redact(item, name) for item in value]
    if isinstance(value, str):
        if name in SECRET_NAMES:
            return REDACTED
        if "sig=" in value:
            return value.partition("?")[0]
    return value
