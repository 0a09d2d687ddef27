"""Jobs of an earlier process are resumed when the engine answers, and again if it is lost meanwhile."""

from __future__ import annotations

import threading
from types import SimpleNamespace
from typing import Any

import pytest
from docker.errors import APIError
from requests.exceptions import ConnectionError as LostError

from aml_emulator.workspaces import ENGINE_SECONDS, resume


class Waits(threading.Event):
    """An event that is not set, and notes how long it was waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: list[float | None] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.seconds.append(timeout)
        return self.is_set()


def jobs_with(ready: list[bool], resumed: list[Exception | None]) -> Any:
    """Return jobs whose engine answers as listed; each attempt to resume them fails as listed."""

    def attempt() -> None:
        error = resumed.pop(0)
        if error is not None:
            raise error

    return SimpleNamespace(runner=SimpleNamespace(engine_ready=lambda: ready.pop(0)), resume=attempt)


@pytest.mark.parametrize("fault", [LostError("lost"), APIError("the engine is stopping")])
def test_an_engine_that_is_lost_meanwhile_is_waited_for(fault: Exception) -> None:
    ready: list[bool] = [False, True, False, True]
    resumed: list[Exception | None] = [fault, None]
    waits = Waits()
    resume(jobs_with(ready, resumed), waits)
    assert (ready, resumed) == ([], [])
    assert waits.seconds == [ENGINE_SECONDS] * 3


def test_a_fault_of_another_kind_is_logged_and_not_tried_again() -> None:
    resumed: list[Exception | None] = [KeyError("x"), None]
    waits = Waits()
    resume(jobs_with([True], resumed), waits)
    assert (resumed, waits.seconds) == ([None], [])
