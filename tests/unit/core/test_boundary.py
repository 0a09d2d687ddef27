"""Paths that a configuration names may not lead out of the repository by a link, nor to the kernel's files."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.core import boundary
from aml_train.core.errors import InvalidError

JOB = "command: python train.py\ncode: {code}\nenvironment: {environment}\ninputs:\n  x: {{type: {kind}, path: {path}}}\n"


def _project(tmp_path: Path, **values: str) -> Path:
    outside, project = tmp_path / "outside", tmp_path / "repo" / "project"
    for folder in (outside / "data", project / "src", project.parent / "shared", project.parent / ".git"):
        folder.mkdir(parents=True)
    for file in (outside / "passwd", outside / "conda.yml", project / "src" / "train.py", project / "data.csv"):
        file.write_text("name: x\n")
    (outside / "env.yml").write_text("image: python:3.11\n")
    (project / "out").symlink_to(outside)
    (project / "shared").symlink_to("../shared")
    (project / "far.csv").symlink_to(outside / "passwd")
    (project / "env.yml").write_text("image: python:3.11\nconda_file: out/conda.yml\n")
    given = {"code": "src", "environment": "azureml:e:1", "kind": "uri_file", "path": "data.csv", **values}
    (project / "job.yml").write_text(JOB.format(**given))
    return project


@pytest.mark.parametrize(
    ("values", "fault"),
    [
        ({"code": "out"}, r"job\.yml:2: `code` names `out`: a link leads out of .*/repo; name the place itself"),
        ({"path": "far.csv"}, r"job\.yml:5: `inputs\.x\.path` names `far\.csv`: a link leads out of"),
        ({"path": "/proc/self/environ"}, r"job\.yml:5: .*`/proc/self/environ`: it is a file of the kernel"),
        ({"environment": "file:out/env.yml"}, r"job\.yml:3: `environment` names .*: a link leads out of"),
        ({"environment": "{image: x, conda_file: out/conda.yml}"}, r"job\.yml:3: .* a link leads out of"),
    ],
)
def test_what_is_refused(tmp_path: Path, values: dict[str, str], fault: str) -> None:
    project = _project(tmp_path, **values)
    with pytest.raises(InvalidError, match=fault):
        load_config(None, directory=project)


def test_the_runners_own_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(boundary, "_RUNNER", tmp_path)
    (tmp_path / "event.json").write_text("{}")
    project = _project(tmp_path / "workspace", path="../../../event.json")
    with pytest.raises(InvalidError, match=r"job\.yml:5: .*event\.json`: it is a file of the GitHub runner"):
        load_config(None, directory=project)
    inside = _project(tmp_path / "other", path="data.csv")
    assert load_config(None, directory=inside).job.code is not None


@pytest.mark.parametrize(
    "values",
    [
        {"code": "shared"},
        {"path": "../../outside/passwd"},
    ],
)
def test_what_is_written_may_lead_anywhere(tmp_path: Path, values: dict[str, str]) -> None:
    project = _project(tmp_path, **values)
    (project / "out").unlink()
    assert load_config(None, directory=project).job.code is not None


def test_a_project_that_is_reached_by_a_link(tmp_path: Path) -> None:
    project = _project(tmp_path)
    (tmp_path / "here").symlink_to(project)
    assert load_config(None, directory=tmp_path / "here").job.code == tmp_path / "here" / "src"
