"""The end of a run is reported until it is stored."""

from __future__ import annotations

import errno
import sqlite3
import threading
from collections.abc import Callable

import pytest
from azure.core.exceptions import ServiceRequestError

from aml_emulator.executor.reporting import PAUSE_SECONDS, report_until_stored


class Left(threading.Event):
    """An event that notes how long it was waited for, and is set after some waits."""

    def __init__(self, *, after: int = 99) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self._after = after

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout)
        if len(self.waits) >= self._after:
            self.set()
        return self.is_set()


class Ends:
    """Stores ends; the first attempts fail."""

    def __init__(self, *faults: Exception) -> None:
        self._faults = list(faults)
        self.stored: list[str] = []

    def storing(self, end: str) -> Callable[[], None]:
        def store() -> None:
            if self._faults:
                raise self._faults.pop(0)
            self.stored.append(end)

        return store

    def fault(self, why: str) -> None:
        self.storing(f"failed: {why}")()


@pytest.mark.parametrize(
    "fault",
    [
        sqlite3.OperationalError("database or disk is full"),
        OSError(errno.ENOSPC, "No space left on device"),
        ServiceRequestError("Azurite does not answer"),
    ],
)
def test_an_end_that_cannot_be_stored_is_stored_later(fault: Exception) -> None:
    ends, left = Ends(fault, fault), Left()
    assert report_until_stored(ends.storing("completed"), fault=ends.fault, left=left, what="run r")
    assert ends.stored == ["completed"]
    assert left.waits == [PAUSE_SECONDS] * 2


def test_a_fault_of_another_kind_ends_the_run_as_failed() -> None:
    ends, left = Ends(KeyError("outputs"), sqlite3.OperationalError("database or disk is full")), Left()
    assert report_until_stored(ends.storing("completed"), fault=ends.fault, left=left, what="run r")
    assert ends.stored == ["failed: KeyError: 'outputs'"]
    assert len(left.waits) == 2


def test_a_run_that_is_left_behind_is_for_the_next_process_to_end() -> None:
    full = sqlite3.OperationalError("database or disk is full")
    ends, left = Ends(*[full] * 9), Left(after=3)
    assert not report_until_stored(ends.storing("completed"), fault=ends.fault, left=left, what="run r")
    assert ends.stored == []
    assert len(left.waits) == 3
    assert not report_until_stored(ends.storing("completed"), fault=ends.fault, left=left, what="run r")
    assert len(left.waits) == 3, "no attempt"
