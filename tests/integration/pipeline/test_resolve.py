"""What is asked of the world: git, and the files that a job sends."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from aml_train.config.load import load_config
from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef
from aml_train.image.inputs import BaseImage
from aml_train.pipeline.resolve import Surroundings, local_digests, read_commit, read_project, resolve
from tests.support.base_lookup import Bases


def git(directory: Path, *args: str) -> str:
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.com"]
    done = subprocess.run(["git", *identity, "-C", str(directory), *args], check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    git(tmp_path, "init", "-q", "-b", "main")
    (tmp_path / "project").mkdir()
    (tmp_path / "project" / "job.yml").write_text("command: x\nenvironment: azureml:e:1\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_the_commit_is_read_with_branch_and_state(repository: Path) -> None:
    commit = read_commit(repository / "project")
    assert commit is not None
    assert (commit.sha, commit.branch, commit.dirty) == (git(repository, "rev-parse", "HEAD"), "main", False)
    (repository / "project" / "new.py").write_text("")
    dirty = read_commit(repository / "project")
    assert str(dirty) == f"{commit.sha}-dirty"


def test_the_repository_and_the_projects_place_in_it_are_read(repository: Path) -> None:
    commit = read_commit(repository / "project")
    assert commit is not None
    assert (commit.repository, commit.folder) == (f"root commit {commit.sha}", "project/")
    git(repository, "remote", "add", "origin", "https://x:secret@GitHub.com/Owner/name.git")
    commit = read_commit(repository)
    assert commit is not None
    assert (commit.repository, commit.folder) == ("github.com/Owner/name", "")


def test_changes_outside_the_project_do_not_make_it_dirty(repository: Path) -> None:
    (repository / "elsewhere.txt").write_text("")
    commit = read_commit(repository / "project")
    assert commit is not None
    assert not commit.dirty


def test_a_detached_head_has_no_branch(repository: Path) -> None:
    git(repository, "checkout", "-q", "--detach")
    commit = read_commit(repository)
    assert commit is not None
    assert commit.branch is None


def test_without_a_repository_or_a_commit_there_is_none(tmp_path: Path) -> None:
    assert read_commit(tmp_path) is None
    git(tmp_path, "init", "-q")
    assert read_commit(tmp_path) is None


def test_every_local_file_that_a_job_sends_counts(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("pass")
    (tmp_path / "data.csv").write_text("1")
    (tmp_path / "conda.yml").write_text("dependencies: []")
    (tmp_path / "env.yml").write_text("image: python:3.11\nconda_file: conda.yml\n")
    (tmp_path / "job.yml").write_text(
        "command: python train.py ${{inputs.data}}\ncode: src\nenvironment: file:env.yml\n"
        "inputs:\n  data: {type: uri_file, path: data.csv}\n  remote: {type: uri_file, path: azureml:d:1}\n"
    )
    before = local_digests(load_config(None, directory=tmp_path).job, tmp_path)
    assert sorted(before) == ["environment", "environment.conda_file", "inputs.data"]
    (tmp_path / "conda.yml").write_text("dependencies: [numpy]")
    (tmp_path / "data.csv").write_text("2")
    after = local_digests(load_config(None, directory=tmp_path).job, tmp_path)
    assert {key for key in after if after[key] != before[key]} == {"environment.conda_file", "inputs.data"}


def test_the_code_counts_without_what_is_ignored(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("pass")
    (tmp_path / "src" / ".amlignore").write_text("*.log\n")
    (tmp_path / "job.yml").write_text("command: python train.py\ncode: src\nenvironment: azureml:e:1\n")

    def code() -> str | None:
        return resolve(load_config(None, directory=tmp_path), Surroundings(platform="linux/amd64")).code_digest

    first = code()
    (tmp_path / "src" / "run.log").write_text("x")
    assert code() == first
    (tmp_path / "src" / "train.py").write_text("print()")
    assert code() != first


def test_a_base_that_is_nowhere_ends_resolving(tmp_path: Path) -> None:
    (tmp_path / "job.yml").write_text("command: x\n")
    (tmp_path / "aml-train.yml").write_text("job: job.yml\nimage: {base: nowhere/none}\n")

    def missing(reference: ImageRef, platform: str) -> BaseImage:
        raise ImageError(f"{reference.familiar} is not there for {platform}")

    with pytest.raises(ImageError, match="nowhere/none:latest is not there for linux/amd64"):
        resolve(load_config(None, directory=tmp_path), Surroundings(platform="linux/amd64", lookup=Bases(missing)))


def test_the_project_is_called_like_its_repository(repository: Path) -> None:
    """With a remote, without one, and on a hosted runner: one name for the image and the job."""
    project = repository / "project"
    assert str(read_project(project, {})) == "project"
    hosted = {"GITHUB_WORKSPACE": str(repository), "GITHUB_REPOSITORY": "octo/digits"}
    assert str(read_project(project, hosted)) == "octo/digits/project"
    git(repository, "remote", "add", "origin", "https://x:secret@github.com/octo/digits.git")
    for environ in ({}, hosted, {"GITHUB_WORKSPACE": "/elsewhere", "GITHUB_REPOSITORY": "octo/other"}):
        assert str(read_project(project, environ)) == "octo/digits/project"
        assert str(read_project(repository, environ)) == "octo/digits"


def test_a_submodule_is_called_like_its_own_repository(
    repository: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outer = tmp_path_factory.mktemp("outer")
    git(outer, "init", "-q", "-b", "main")
    git(outer, "remote", "add", "origin", "git@github.com:octo/outer.git")
    git(outer, "-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(repository), "inner")
    git(outer / "inner", "remote", "set-url", "origin", "git@github.com:octo/inner.git")
    hosted = {"GITHUB_WORKSPACE": str(outer), "GITHUB_REPOSITORY": "octo/outer"}
    assert str(read_project(outer / "inner" / "project", hosted)) == "octo/inner/project"


def test_a_checkout_without_git_is_called_like_the_workflows_repository(tmp_path: Path) -> None:
    """actions/checkout gets an archive where there is no git."""
    (tmp_path / "models" / "small").mkdir(parents=True)
    hosted = {"GITHUB_WORKSPACE": str(tmp_path), "GITHUB_REPOSITORY": "octo/digits"}
    assert str(read_project(tmp_path / "models" / "small", hosted)) == "octo/digits/models/small"
