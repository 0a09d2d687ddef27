"""The state that the handlers of requests share."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from aml_emulator.domain.workspace import Workspace
from aml_emulator.identity.federation import Federation
from aml_emulator.identity.identity import Identity
from aml_emulator.identity.roles import Roles
from aml_emulator.network.fault_injection import Faults
from aml_emulator.network.requests_log import RequestLog

logger = logging.getLogger(__name__)


class Unsupported:
    """Counts unsupported operations that clients requested, and logs each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._seen: Counter[str] = Counter()

    def note(self, what: str) -> None:
        """Count one more, and log it."""
        with self._lock:
            self._seen[what] += 1
        logger.error("unsupported: %s", what)

    def seen(self) -> dict[str, int]:
        """Return how often each was requested."""
        with self._lock:
            return dict(self._seen)


@dataclass(frozen=True, kw_only=True)
class Context(Workspace):
    """The workspace, and what only requests need.

    Attributes:
        roles: the roles of the one service principal.
        unsupported: the unsupported operations that were requested.
        faults: what fails on purpose.
        page_address: where a browser finds the page, without a slash at its end.
        siblings: returns the identities of all workspaces; None if there is one.
    """

    federation: Federation = field(default_factory=Federation)
    roles: Roles = field(default_factory=Roles)
    unsupported: Unsupported = field(default_factory=Unsupported)
    requests: RequestLog = field(default_factory=lambda: RequestLog(clock=time.time))
    faults: Faults = field(default_factory=lambda: Faults(clock=time.time))
    page_address: str = "http://127.0.0.1:7380"
    siblings: Callable[[], Sequence[Identity]] | None = None

    def workspaces(self) -> Sequence[Identity]:
        """Return the identities of all workspaces of this emulator."""
        return (self.identity,) if self.siblings is None else self.siblings()
