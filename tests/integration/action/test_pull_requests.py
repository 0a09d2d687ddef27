"""The action's process in front of a stand-in of GitHub, over HTTP."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.report import values as report
from tests.integration.action.step import act
from tests.support.github_stand_in import REPOSITORY, TOKEN, GitHub, served, zipped
from tests.unit.action.pull_world import failing, passing


@pytest.fixture
def github() -> Iterator[GitHub]:
    made = GitHub()
    made.pull()
    with served(made):
        yield made


def report_on(github: GitHub, folder: Path, run: Mapping[str, Any]) -> str:
    """Show the reports of a run, as report.yml does; return the log."""
    (folder / "event.json").write_text(json.dumps({"action": "completed", "workflow_run": run}))
    variables = {
        "GITHUB_OUTPUT": str(folder / "out"),
        "GITHUB_EVENT_NAME": "workflow_run",
        "GITHUB_EVENT_PATH": str(folder / "event.json"),
        "GITHUB_REPOSITORY": REPOSITORY,
        "GITHUB_RUN_ID": "100",
        "GITHUB_API_URL": github.address,
        "NO_PROXY": "127.0.0.1",
        "INPUT_GITHUB-TOKEN": TOKEN,
        "INPUT_COMMAND": "report",
        "INPUT_WORKFLOW": "train.yml",
    }
    log = act(folder, variables)
    assert TOKEN not in "\n".join(line for line in log.splitlines() if "add-mask" not in line)
    return log


def test_a_comment_is_made_and_updated(github: GitHub, tmp_path: Path) -> None:
    for number, made in ((100, passing()), (101, failing())):
        run = github.run(number, conclusion="success" if number == 100 else "failure")
        github.artifact(zipped(report.encode(made)), number)
        log = report_on(github, tmp_path, run)
        assert ("is created" if number == 100 else "is updated") in log
    (body,) = github.bodies()
    assert "### ❌" in body
    assert github.tokens_elsewhere == []
