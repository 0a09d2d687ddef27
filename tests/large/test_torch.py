"""PyTorch on two nodes, by examples/distributed and the real SDK. ``nox -s distributed_torch`` makes the image, which is large."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integration.emulator.service import Emulator


def test_gloo_on_two_nodes(tmp_path: Path) -> None:
    emulator = Emulator(tmp_path, environment={"AML_EMULATOR_MAX_JOBS": "2"})
    emulator.start()
    try:
        image = os.environ["AML_TRAIN_TORCH_IMAGE"]
        seen = emulator.client("run", script="distributed_steps.py", seconds=500, kind="torch", image=image)
    finally:
        emulator.admin("POST", "reset?force=1")
        emulator.stop()
    files = seen["well"]["files"]
    assert seen["well"]["status"] == "Completed", files
    for rank in range(4):
        first, last = files[f"std_log_process_{rank}.txt"].splitlines()
        assert first == f"rank {rank} of 4 on node-{rank // 2}, rank {rank % 2} there"
        assert last == "slope 3.000 offset -1.000"
    assert "model.pt" in files
    failing = seen["failing"]
    assert failing["status"] == "Failed"
    assert "rank 3 fails, as FAIL_ON_RANK says" in failing["files"]["std_log_process_3.txt"]
