"""`aml-train init && aml-train run`, without an edit between the two, in projects of several layouts."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, Local

PROJECTS = ROOT / "tests/projects"


@pytest.mark.full
@pytest.mark.parametrize(
    ("name", "printed"),
    [("src_layout", "level 2.0"), ("flat_script", "3 rows"), ("src_package", None)],
)
def test_a_project_runs_as_init_writes_it(local: Local, tmp_path: Path, name: str, printed: str | None) -> None:
    project = Path(shutil.copytree(PROJECTS / name, tmp_path / name))
    local.command("init", "-C", str(project))
    ended = local.run(project)
    assert ended.code == 0, ended.output
    if printed is not None:
        assert printed in [line["text"] for line in ended.of("log-line") if line["source"] == "job"]
