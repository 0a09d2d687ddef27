from __future__ import annotations

import pytest

from aml_train.pipeline.project_name import folder_project


@pytest.fixture(autouse=True)
def _no_git(monkeypatch: pytest.MonkeyPatch) -> None:
    """Name each project after its folder: a unit test starts no git."""
    monkeypatch.setattr("aml_train.cli.init.read_project", lambda folder, _environ: folder_project(folder.resolve()))
