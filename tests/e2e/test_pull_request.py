"""The workflows of pull requests under act, in front of a stand-in of GitHub: a fork's report becomes a comment."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_train.report import values as report
from scripts.act_demo import run_act
from tests.e2e.azure import bridge
from tests.e2e.conftest import ROOT
from tests.support.github_stand_in import FORK, OLD, REPOSITORY, TOKEN, GitHub, served, zipped
from tests.unit.action.pull_world import passing

pytestmark = [pytest.mark.full, pytest.mark.usefixtures("action_image")]

EXAMPLES = ROOT / "examples/workflows/.github/workflows"
#: As pull-request.yml, but for the upload, whose action is not on this machine: the log takes its place.
TRAIN = """\
name: pull request
on: pull_request
jobs:
  train:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v4
      - uses: org/aml-train@v1
        id: train
        with:
          target: local
      - if: always()
        env:
          FILE: ${{ steps.train.outputs.report-file }}
        run: 'echo "report> $(cat "$FILE")"'
"""


@pytest.fixture
def github() -> Iterator[GitHub]:
    made = GitHub()
    made.pull(repository=FORK)
    with served(made, bridge()):
        yield made


def project(folder: Path, workflow: str, text: str) -> Path:
    """Make a project whose configuration has a fault, with one workflow."""
    made = folder / workflow.partition(".")[0]
    shutil.rmtree(made, ignore_errors=True)
    (made / ".github/workflows").mkdir(parents=True)
    (made / ".github/workflows" / workflow).write_text(text)
    (made / "aml-train.yml").write_text("job: job.yml\ngate:\n  accuracy: 'very good'\n")
    return made


def documented(name: str) -> str:
    """Return a documented workflow; act 0.2.89 knows no `cache-mode`."""
    return (EXAMPLES / name).read_text().replace("    cache-mode: none\n", "")


def under_act(
    github: GitHub, folder: Path, event: str, payload: Mapping[str, object]
) -> subprocess.CompletedProcess[str]:
    address = github.address.removesuffix("/v3")
    environment = {
        "GITHUB_API_URL": github.address,
        "GITHUB_GRAPHQL_URL": f"{address}/graphql",
        "GITHUB_REPOSITORY": REPOSITORY,
        "NO_PROXY": "*",
    }
    return run_act(folder, environment, event=event, payload=payload, secrets={"GITHUB_TOKEN": TOKEN}, capture=True)


def shown(github: GitHub, folder: Path, run: Mapping[str, Any]) -> subprocess.CompletedProcess[str]:
    """Run the documented report.yml for a run that has ended."""
    made = project(folder, "report.yml", documented("report.yml"))
    done = under_act(github, made, "workflow_run", {"action": "completed", "workflow_run": run})
    assert done.returncode == 0, done.stdout
    return done


def test_a_forks_report_becomes_a_comment_that_newer_runs_update(github: GitHub, tmp_path: Path) -> None:
    # The fork's own run: it fails, and has a report all the same.
    done = under_act(
        github, project(tmp_path, "pull-request.yml", TRAIN), "pull_request", {"pull_request": {"number": 7}}
    )
    assert done.returncode != 0
    (line,) = re.findall(r"report> (\{.*\})", done.stdout)
    made = report.decode(line.encode(), origin="the log")
    assert (made.status, made.exit_code) == ("invalid", 2)
    assert github.log == [], "a run of a fork asks GitHub for nothing"

    workflow = ".github/workflows/pull-request.yml"
    first = github.run(100, repository=FORK, path=workflow, conclusion="failure")
    github.artifact(zipped(report.encode(made)), 100)
    shown(github, tmp_path, first)
    (body,) = github.bodies()
    assert "<code>invalid</code> (exit code 2)" in body
    assert "its numbers are the fork's word" in body

    second = github.run(101, repository=FORK, path=workflow)
    github.artifact(zipped(report.encode(passing(configuration=made.configuration, target=made.target))), 101)
    shown(github, tmp_path, second)
    (body,) = github.bodies()
    assert "### ✅" in body

    # The pull request has moved on, and an older commit's run ends last.
    newer = "f" * 40
    github.pull(repository=FORK, head=newer)
    for number, commit in ((102, newer), (103, OLD)):
        run = github.run(number, repository=FORK, path=workflow, head_sha=commit)
        github.artifact(zipped(report.encode(passing(configuration=made.configuration, target=made.target))), number)
        done = shown(github, tmp_path, run)
        assert ("is updated" if commit == newer else "is superseded") in done.stdout
    (body,) = github.bodies()
    assert newer[:12] in body
    assert TOKEN not in "\n".join(part for part in done.stdout.splitlines() if "::add-mask::" not in part)
