"""Runs on a machine that reaches AzureML and not the workspace's Blob storage."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.pipeline.test_states import project, start, verdict
from tests.support.emulator_process import Emulator

COMMAND = "echo one; echo two; mkdir -p outputs; echo '{\"acc\": 0.97}' >outputs/report.json; echo three"
GATE = {"gate": {"acc": {"file": "outputs/report.json", "rules": ">= 0.9"}}}


@pytest.fixture
def emulator_without_storage(emulator: Emulator) -> Iterator[Emulator]:
    assert emulator.admin("POST", "faults?kind=outage&host=*.blob.core.windows.net").status_code == 200
    yield emulator
    assert emulator.admin("DELETE", "faults").status_code == 200


def test_logs_and_the_gates_file_come_by_way_of_azureml(emulator_without_storage: Emulator, tmp_path: Path) -> None:
    folder = project(tmp_path, emulator_without_storage, "away", COMMAND, GATE)
    ended = start(emulator_without_storage, folder, "run").ended()
    assert verdict(ended) == (0, "passed", "completed"), ended.errors
    assert [line for text in ended.log() for line in text.split("\n")] == ["one", "two", "three"]
    warnings = [one["text"] for one in ended.events if one["event"] == "notice" and "cannot be read" in one["text"]]
    assert len(warnings) == 1
    assert "blob.core.windows.net does not answer" in warnings[0]
    assert "AzureML's artifact service passes them on instead" in warnings[0]


@pytest.mark.full
def test_a_job_whose_logs_are_nowhere_completes_all_the_same(
    emulator_without_storage: Emulator, tmp_path: Path
) -> None:
    refused = emulator_without_storage.admin("POST", "faults?kind=status&status=403&path=*/artifact/v2.0/*")
    assert refused.status_code == 200
    folder = project(tmp_path, emulator_without_storage, "nowhere", COMMAND, {})
    ended = start(emulator_without_storage, folder, "run").ended()
    assert verdict(ended) == (0, "passed", "completed"), ended.errors
    assert ended.log() == []
    assert (
        json.dumps([one for one in ended.events if one["event"] == "notice"]).count("cannot be read from storage")
        == 1
    )
