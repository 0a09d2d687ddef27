"""The action's process in front of a stand-in of GitHub, over HTTP."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.report import values as report
from tests.support.github_stand_in import REPOSITORY, TOKEN, GitHub, served, zipped
from tests.unit.action.pull_world import failing, passing

ROOT = Path(__file__).parents[3]


@pytest.fixture
def github() -> Iterator[GitHub]:
    made = GitHub()
    made.pull()
    with served(made):
        yield made


def act(github: GitHub, folder: Path, event: str, payload: Mapping[str, Any], **inputs: str) -> str:
    """Run the action's process; return its log."""
    (folder / "event.json").write_text(json.dumps(payload))
    done = subprocess.run(
        [sys.executable, "-u", "-B", "-m", "aml_train_action"],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": os.pathsep.join(str(ROOT / name) for name in ("runner", "action")),
            "GITHUB_WORKSPACE": str(folder),
            "GITHUB_OUTPUT": str(folder / "out"),
            "GITHUB_EVENT_NAME": event,
            "GITHUB_EVENT_PATH": str(folder / "event.json"),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_RUN_ID": "100",
            "GITHUB_API_URL": github.address,
            "NO_PROXY": "127.0.0.1",
            "INPUT_GITHUB-TOKEN": TOKEN,
            **{f"INPUT_{name.upper()}": value for name, value in inputs.items()},
        },
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    assert TOKEN not in "\n".join(line for line in done.stdout.splitlines() if "add-mask" not in line)
    return done.stdout


def test_a_comment_is_made_and_updated(github: GitHub, tmp_path: Path) -> None:
    for number, made in ((100, passing()), (101, failing())):
        run = github.run(number, conclusion="success" if number == 100 else "failure")
        github.artifact(zipped(report.encode(made)), number)
        log = act(github, tmp_path, "workflow_run", {"action": "completed", "workflow_run": run}, command="report", workflow="train.yml")  # fmt: skip
        assert ("is created" if number == 100 else "is updated") in log
    (body,) = github.bodies()
    assert "### ❌" in body
    assert github.tokens_elsewhere == []
