"""One clock for a whole night: of the client in this process, of the emulator, of Azurite, and of GitHub's endpoint."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.integration.azure.clocked_emulator import write_clock

HOUR = 3600.0


@dataclass
class Night:
    """Time that passes only when the client sleeps.

    Attributes:
        file: where the other processes read the time.
        now: the true time, seconds since the epoch: the services' and GitHub's.
        skew: how far this machine's clock is ahead of it.
        due: what is to happen: (hours after *began*, what), in order.
    """

    file: Path
    now: float = field(default_factory=time.time)
    skew: float = 0.0
    due: list[tuple[float, Callable[[], None]]] = field(default_factory=list)
    began: float = 0.0
    acting: bool = False

    def __post_init__(self) -> None:
        write_clock(self.file, self.now)

    @property
    def hours(self) -> float:
        """Hours since *began*."""
        return (self.now - self.began) / HOUR

    def sleep(self, seconds: float) -> None:
        """Let time pass, and happen what is due."""
        self.now += seconds
        write_clock(self.file, self.now)
        while self.due and self.hours >= self.due[0][0]:
            self.acting = True
            try:
                self.due.pop(0)[1]()
            finally:
                self.acting = False

    def at(self, hour: float, what: Callable[[], None]) -> None:
        """Let *what* happen so many hours after the beginning."""
        self.due.append((hour, what))
        self.due.sort(key=lambda one: one[0])

    def take_over(self, monkeypatch: pytest.MonkeyPatch) -> Callable[[float], None]:
        """Give this process the clock, in this one place: azure-identity, MSAL, azure-core and tenacity read the module ``time``.

        Only the pipeline, in the main thread, makes time pass by sleeping: what is due takes none. Returns the real sleep.
        """
        real = time.sleep

        def sleep(seconds: float) -> None:
            if self.acting or threading.current_thread() is not threading.main_thread():
                real(seconds)
            else:
                self.sleep(seconds)

        monkeypatch.setattr(time, "time", lambda: self.now + self.skew)
        monkeypatch.setattr(time, "monotonic", lambda: self.now)
        monkeypatch.setattr(time, "clock_gettime", lambda _clock: self.now)
        monkeypatch.setattr(time, "sleep", sleep)
        self.began, self.skew = self.now, 0.0
        self.due.clear()
        return real
