"""Runs of ACR Tasks, and a reset during one."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import pytest

from aml_emulator.domain.registry_tasks import RegistryTasks
from aml_emulator.executor.spec import Folder
from aml_emulator.executor.task_runner import TaskSink
from aml_emulator.executor.task_spec import TaskSpec
from tests.unit.emulator.memory_service import StoredBlobs
from tests.unit.emulator.parts import Service

REQUEST: dict[str, Any] = {
    "type": "EncodedTaskRunRequest",
    "platform": {"os": "Linux"},
    "encodedTaskContent": base64.b64encode(b"steps: [{push: ['digits:1']}]").decode(),
}


class HeldExecutor:
    """Runs that begin, and end only if they are cancelled."""

    def __init__(self) -> None:
        self.sinks: dict[str, TaskSink] = {}

    def submit(self, spec: TaskSpec, source: Folder | None, sink: TaskSink) -> None:
        self.sinks[spec.id] = sink
        sink.started()
        sink.log("Step 1\n")

    def cancel(self, run: str) -> bool:
        sink = self.sinks.pop(run, None)
        if sink is not None:
            sink.ended("Canceled", [], "")
        return sink is not None

    def active(self) -> tuple[str, ...]:
        return tuple(self.sinks)


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service(blobs=StoredBlobs())
    yield service
    service.close()


def test_a_reset_ends_the_runs_first(service: Service) -> None:
    tasks = RegistryTasks(service.services, HeldExecutor())

    def reset(query: str = "") -> tuple[int, Any]:
        return service.admin("POST", f"reset{query}", tasks=tasks)

    number = tasks.schedule(REQUEST).name
    status, answer = reset()
    assert (status, number in answer["error"]) == (409, True)
    assert tasks.run(number).properties["status"] == "Running"
    assert reset("?force=1") == (200, {"status": "reset"})
    assert tasks.runs() == []
    assert tasks.schedule(REQUEST).properties["status"] == "Running"
