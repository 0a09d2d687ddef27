"""A job of four processes of which one hangs, on the local AzureML: its silence is found, and the rank named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.integration.conftest import BASE
from tests.integration.pipeline.conftest import AmlTrain, Running

#: Rank 2 is the first to write nothing more; the others wait for it, some steps later.
HANG = """
step=0
while [ $step -lt 8 ] || { [ $RANK -ne 2 ] && [ $step -lt 24 ]; }; do
  echo "rank $RANK step $step"
  step=$((step + 1))
  sleep 0.5
done
sleep 9000
"""


@pytest.mark.full
def test_a_hanging_rank_is_found_by_its_silence(aml_train: AmlTrain, tmp_path: Path) -> None:
    emulator, folder = aml_train.emulator, tmp_path / "hanging"
    folder.mkdir()
    job = {
        "command": HANG,
        "environment": {"image": BASE},
        "experiment_name": "hanging",
        "distribution": {"type": "pytorch", "process_count_per_instance": 4},
    }
    settings = {
        "job": job,
        "gate": {"loss": "finite"},
        "watch": {"stop": {"mode": "cancel", "silence": "12s"}},
        "target": "azure",
        "targets": {"azure": emulator.target()},
    }
    (folder / "aml-train.yml").write_text(json.dumps(settings))
    events = folder / "run.jsonl"
    ended = Running(emulator, folder, ("run", "--events", str(events)), events).ended()
    assert ended.code == 6, ended.errors
    last = ended.events[-1]
    assert last["status"] == "gate-failed"
    assert "no line in any log and no metric for" in last["message"]
    assert "rank 2 has been silent the longest" in last["message"]
    assert "std_log_process_2.txt" in last["message"]
    assert "rank 1 step 23" in ended.log("std_log_process_1.txt")
    assert "rank 2 step 8" not in ended.log("std_log_process_2.txt")
