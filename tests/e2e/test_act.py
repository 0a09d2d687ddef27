"""The example's workflow under act, offline, with `uses: org/aml-train@v1` mapped to this checkout."""

from __future__ import annotations

from pathlib import Path

from scripts.act_demo import run_act
from tests.e2e.conftest import EMULATOR, Local, edit


def test_the_examples_workflow_passes_and_a_later_step_uses_the_outputs(local: Local, digits: Path) -> None:
    done = run_act(digits, {name: local.environment[name] for name in EMULATOR}, capture=True)
    assert done.returncode == 0, done.stdout
    assert "Job succeeded" in done.stdout
    (said,) = [line for line in done.stdout.splitlines() if "was trained in sha256:" in line]
    assert "digits version " in said


def test_a_missed_gate_fails_the_workflow(local: Local, digits: Path) -> None:
    edit(digits / "aml-train.yml", '">= 0.95"', '">= 1.5"')
    done = run_act(digits, {name: local.environment[name] for name in EMULATOR}, capture=True)
    assert done.returncode != 0
    assert "exit with `FAILURE`: 6" in done.stdout or "exitcode '6'" in done.stdout, done.stdout
    assert "missed by" in done.stdout
    assert "was trained in" not in done.stdout
