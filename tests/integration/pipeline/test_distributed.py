"""Several processes on one node share one setup."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.integration.pipeline.conftest import AmlTrain


@pytest.mark.full
def test_setup_runs_once_for_the_processes_of_a_node(aml_train: AmlTrain, tmp_path: Path) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "aml-train.yml").write_text("setup: [echo once >> made]\n")
    processes = "job.distribution={type: pytorch, process_count_per_instance: 3}"
    ended = aml_train.submit(
        project, "sh", "-c", 'echo "$LOCAL_RANK: $(cat made)"', options=("--set", processes)
    ).ended()
    assert (ended.code, ended.errors) == (0, "")
    ranks = [line for line in ended.log() if line.endswith(": once")]
    assert sorted(ranks) == ["0: once", "1: once", "2: once"]
    assert sum("setup 1 of 1" in line for line in ended.log()) == 1
