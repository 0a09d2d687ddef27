"""Somebody else publishes the action: from a clone to a passed `uses: you/aml-train@v1` in another repository."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.e2e.conftest import Local
from tests.e2e.test_release_whole import git, make_repository

pytestmark = pytest.mark.full


def test_the_action_is_used_under_the_name_of_another_repository(local: Local, tmp_path: Path) -> None:
    ours, remote, published = make_repository(tmp_path), tmp_path / "remote.git", tmp_path / "published"
    git(tmp_path, "init", "-q", "--bare", "-b", "main", str(remote))
    identity = {f"GIT_{role}_{key}": "you" for role in ("AUTHOR", "COMMITTER") for key in ("NAME", "EMAIL")}
    adopt = [sys.executable, "-m", "scripts.release", "adopt", "--repository", "you/aml-train"]
    said = subprocess.run(
        adopt, cwd=ours, env={**os.environ, **identity}, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "git push origin HEAD v1\n" in said.stdout
    git(ours, "remote", "add", "origin", str(remote))
    git(ours, "push", "-q", "origin", "HEAD", "v1")

    git(tmp_path, "clone", "-q", "--branch", "v1", str(remote), str(published))
    project = tmp_path / "digits"
    shutil.copytree(published / "examples/digits", project)
    workflow = (project / ".github/workflows/train.yml").read_text()
    assert "uses: you/aml-train@v1\n" in workflow
    used = [sys.executable, "-m", "scripts.act_demo", str(project)]
    done = subprocess.run(
        used, cwd=published, env={**os.environ, **local.which}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert "Job succeeded" in done.stdout
