from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from aml_emulator.api.admin import PREEMPTED
from tests.unit.emulator.parts import Service


@pytest.fixture
def emulator() -> Iterator[Service]:
    made = Service()
    yield made
    made.close()


def ask(emulator: Service, path: str, method: str = "POST") -> tuple[int, Any]:
    return emulator.admin(method, f"jobs/{path}")


def test_only_nodes_of_low_priority_are_taken_back(emulator: Service) -> None:
    emulator.submit("run1")
    status, answer = ask(emulator, "run1/preempt")
    assert (status, "Azure takes back those of low priority only" in answer["error"]) == (400, True)
    assert emulator.runner.failed == {}
    assert ask(emulator, "run1/preempt?force=1") == (200, {"job": "run1"})
    assert emulator.runner.failed == {}, "it is queued again"
    status, answer = ask(emulator, "run1/preempt?force=1&fail=1")
    assert (status, answer["message"]) == (200, PREEMPTED)
    assert emulator.runner.failed["run1"].code == "UserError"


def test_a_job_fails_as_it_is_told(emulator: Service) -> None:
    emulator.submit("run1")
    assert ask(emulator, "run1/fail?code=ServiceError&message=Storage%20is%20away.")[0] == 200
    error = emulator.runner.failed["run1"]
    assert (error.code, error.message) == ("ServiceError", "Storage is away.")
