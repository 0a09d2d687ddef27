"""The whole proof of a run of main: git, the registry's tag of its commit, the job's definition, its metrics and its model's files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.e2e.conftest import Local, edit


def commit(project: Path) -> None:
    for arguments in (("init", "-q", "-b", "main"), ("add", "."), ("commit", "-q", "-m", "x")):
        identity = ("-c", "user.name=t", "-c", "user.email=t@example.com")
        subprocess.run(["git", *identity, "-C", str(project), *arguments], check=True, capture_output=True)


@pytest.mark.full
def test_a_tested_image_its_job_and_its_model_are_proved_to_be_mains(local: Local, digits: Path) -> None:
    commit(digits)
    first = local.run(digits)
    assert first.code == 0, first.output
    model = first.only("model-registered")
    promoted = local.command(
        "promote", f"{model['model']}:{model['version']}", "--to", "production", "--yes", "-C", str(digits)
    )
    assert "is in production" in promoted

    edit(digits / "aml-train.yml", '["min < 0.2"]', '["min < 0.2", "<= baseline + 1"]\nbaseline: {branch: main}')
    edit(digits / "job.yml", "epochs: 20", "epochs: 21")
    commit(digits)
    second = local.run(digits)
    assert second.code == 0, second.output
    (compared,) = second.of("baseline-compared")
    assert compared["comparison"]["right"]["title"] == f"the job {first.only('job-submitted')['job']} (branch main)"
