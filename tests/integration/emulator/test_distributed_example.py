"""examples/distributed by the real SDK: MPI on two nodes, built of its Dockerfile. tests/large has PyTorch."""

from __future__ import annotations

import os
from pathlib import Path

from tests.integration.emulator.service import Emulator


def test_mpi_on_two_nodes(tmp_path: Path) -> None:
    # One job after the other: both begin with the same image, which is built once.
    emulator = Emulator(tmp_path, environment={"AML_EMULATOR_MAX_JOBS": "2"})
    emulator.start()
    try:
        seen = emulator.client("run", script="distributed_steps.py", seconds=500, kind="mpi")
    finally:
        emulator.admin("POST", "reset?force=1")
        emulator.stop()
    files = seen["well"]["files"]
    assert seen["well"]["status"] == "Completed", files
    for rank in range(4):
        place = f"rank {rank} of 4 on node-{rank // 2}, rank {rank % 2} there"
        assert files[f"std_log_process_{rank}.txt"].splitlines()[0] == place
    assert files["std_log_process_0.txt"].splitlines()[1] == "pi is 3.1415926536"
    assert files["pi.txt"] == "3.1415926536\n"
    failing = seen["failing"]
    assert failing["status"] == "Failed"
    assert "rank 3 fails, as FAIL_ON_RANK says" in failing["files"]["std_log_process_3.txt"]
    assert "mpi_log.txt" in failing["files"], os.linesep.join(failing["files"])
