"""examples/stop on the local AzureML: a training passes, and one that cannot pass any more is cancelled."""

from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Local, edit, line_of


@pytest.mark.full
def test_a_training_that_cannot_pass_any_more_is_cancelled_and_fails_its_gate(local: Local, tmp_path: Path) -> None:
    project = tmp_path / "stop"
    shutil.copytree(
        ROOT / "examples" / "stop", project, ignore=shutil.ignore_patterns("__pycache__", ".pytest_cache")
    )
    edit(project / "job.yml", "experiment_name: stop", f"experiment_name: stop-{secrets.token_hex(3)}")
    well = local.run(project)
    assert well.code == 0, well.output
    assert not well.of("stop-found")

    sets = ("job.inputs.rate=1000000000", "job.inputs.steps=50000", "job.inputs.pause=0.2")
    ended = local.run(project, *(part for one in sets for part in ("--set", one)))
    assert ended.code == 6, ended.output
    finished = ended.only("run-finished")
    where = f"aml-train.yml:{line_of(project / 'aml-train.yml', 'finite]')}"
    assert "was stopped by `watch.stop`, and is Canceled: loss cannot meet finite any more" in finished["message"]
    assert where in finished["message"]
    assert finished["facts"]["stops"][0]["cancelled"] is True
    settled = ended.only("metrics-settled")
    assert "inf" in json.dumps(settled["histories"]["loss"][-1]).lower()
    assert ended.only("logs-ended")["tails"][0]["lines"][-1].startswith("step ")
    job = ended.only("job-submitted")["job"]
    shown = json.loads(local.command("jobs", "show", job, "--json", "-C", str(project)))
    assert shown["tags"]["aml-train.stopped"].startswith("loss finite: ")
    assert shown["tags"]["aml-train.gate"] == "failed"
