"""A project in a folder, and a workspace in memory in place of every target."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from aml_train.pipeline.project_name import folder_project
from aml_train.testing import MemoryJob, MemoryService, memory_workspace

JOB = """\
command: python train.py --epochs ${{inputs.epochs}}
environment: azureml:sklearn:1
inputs: {epochs: 2}
"""
CONFIGURATION = """\
job: job.yml
gate: {val/accuracy: '>= 0.95'}
model: {name: digits, path: outputs/model}
promote: {production: {gate: {val/accuracy: '>= 0.9'}}}
"""


def training(job: MemoryJob) -> Iterator[None]:
    """Log two epochs, and write a model."""
    job.say("epoch 1")
    job.log_metric("val/accuracy", 0.91, 0)
    yield
    job.say("epoch 2")
    job.log_metric("val/accuracy", 0.97, 1)
    job.log_parameter("epochs", "2")
    job.write("outputs/model/weights.txt", b"weights")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project that is the current folder, without git."""
    monkeypatch.setattr("aml_train.pipeline.prepare.read_commit", lambda _directory, **_more: None)
    monkeypatch.setattr(
        "aml_train.pipeline.prepare.read_project", lambda directory, _environ, **_more: folder_project(directory)
    )
    monkeypatch.chdir(tmp_path)
    Path("job.yml").write_text(JOB)
    Path("aml-train.yml").write_text(CONFIGURATION)
    return tmp_path


@pytest.fixture
def memory(project: Path) -> Iterator[MemoryService]:
    """A workspace in memory, whose jobs do :func:`training`."""
    del project
    with memory_workspace(training) as service:
        yield service
