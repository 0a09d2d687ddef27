"""The unmodified azureml-core against a real emulator with everything real."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.emulator.service import Emulator, python_of_v1


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    service = Emulator(tmp_path_factory.mktemp("emulator"), record=True)
    service.start()
    yield service
    service.admin("POST", "reset?force=1")
    service.stop()


def step(emulator: Emulator, name: str) -> dict[str, Any]:
    """Run one step of a user of azureml-core, who has a home of their own."""
    return emulator.client(name, script="v1_steps.py", python=python_of_v1())


def test_a_script_is_submitted_waited_for_and_downloaded(emulator: Emulator) -> None:
    seen = step(emulator, "run")
    assert (seen["status"], seen["target"], seen["script"]) == ("Completed", "local-cluster", "train.py")
    assert seen["tags"] == {"commit": "abc"}
    assert seen["metrics"] == {"accuracy": 0.9}
    assert seen["files"] == ["outputs/model.txt", "user_logs/std_log.txt"]
    assert "hello ['--rate', '0.5', '--text', \"it's $HOME\"] a run" in seen["log"]
    assert "['lib', 'logs', 'outputs', 'train.py']" in seen["log"]
    assert seen["model"] == "weights"
    assert seen["second"] == "Completed"
    # Only the new file was sent; the others come from the snapshot before.
    assert "['lib', 'logs', 'outputs', 'second.txt', 'train.py']" in seen["second log"]["user_logs/std_log.txt"]
    assert seen["listed"]
    assert f"/runs/{seen['id']}" in seen["portal"]
