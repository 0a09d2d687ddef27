"""A report, and the action in front of a stand-in of GitHub."""

from __future__ import annotations

import datetime
import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.comparison import Row
from aml_train.core.events import RuleVerdict
from aml_train.report import values as report
from aml_train_action.main import main
from aml_train_action.pulls.find import Subject
from tests.support.github_stand_in import API, FORK, HEAD, REPOSITORY, TOKEN, GitHub, session, zipped
from tests.unit.action.test_commands import _read_outputs

NOW = datetime.datetime(2026, 11, 20, 12, 5, tzinfo=datetime.UTC)


def rule(metric: str = "val/accuracy", *, verdict: Any = "met", value: Any = 0.97, **fields: Any) -> RuleVerdict:
    given = {
        "rule": ">= 0.95",
        "limit": 0.95,
        "reason": "0.97, wanted 0.95",
        "where": "aml-train.yml:9",
    }
    return RuleVerdict(metric=metric, verdict=verdict, value=value, **{**given, **fields})


MOVED = Row(kind="metric", name="val/accuracy", left="0.97", right="0.96", difference="+0.01 (+1.04 %)")


def passing(**fields: Any) -> report.Report:
    given = {
        "title": "digits", "configuration": "aml-train.yml", "target": "azure", "created": NOW, "status": "passed",
        "gate": "passed", "rules": (rule(),), "baseline": report.Baseline(title="main", rows=(MOVED,)), "reproduce": "aml-train run --target azure",
    }  # fmt: skip
    return report.Report(**{**given, **fields})


def failing(**fields: Any) -> report.Report:
    given = {"status": "gate-failed", "exit_code": 6, "gate": "failed", "rules": (rule(verdict="missed", value=0.9),)}
    return passing(**{**given, **fields})


def subject(**fields: Any) -> Subject:
    given: dict[str, Any] = {
        "repository": REPOSITORY, "head_repository": REPOSITORY, "pull_request": 7, "head": HEAD, "commit": HEAD, "run": 100,
        "attempt": 1, "run_url": f"https://github.com/{REPOSITORY}/actions/runs/100", "conclusion": "success",
    }  # fmt: skip
    return Subject(**{**given, **fields})


@dataclass
class World:
    """The action's process, whose requests *github* answers."""

    folder: Path
    github: GitHub = field(default_factory=GitHub)
    log: str = ""
    outputs: dict[str, str] = field(default_factory=dict)

    def act(self, event: str, payload: Mapping[str, Any], **inputs: str) -> int:
        (self.folder / "event.json").write_text(json.dumps(payload))
        output = self.folder / "out"
        output.unlink(missing_ok=True)
        environ = {
            "GITHUB_WORKSPACE": str(self.folder), "GITHUB_OUTPUT": str(output), "GITHUB_EVENT_NAME": event, "GITHUB_RUN_ID": "100",
            "GITHUB_EVENT_PATH": str(self.folder / "event.json"), "GITHUB_REPOSITORY": REPOSITORY, "GITHUB_API_URL": API,
            "INPUT_GITHUB-TOKEN": TOKEN,
        } | {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}  # fmt: skip
        stdout = io.BytesIO()
        code = main(environ, stdout)
        lines = stdout.getvalue().decode().splitlines()
        self.log = "\n".join(line for line in lines if not line.startswith("::add-mask::"))
        self.outputs = _read_outputs(output.read_text())
        return code

    def report(self, run: Mapping[str, Any] | None = None, **inputs: str) -> int:
        """Show the reports of the triggering run, as report.yml does."""
        payload = {"action": "completed", "workflow_run": run or self.github.runs[100]}
        return self.act("workflow_run", payload, **{"command": "report", "workflow": "train.yml", **inputs})


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A pull request of a branch of the repository, with one run and its report."""
    made = World(tmp_path)
    made.github.pull()
    monkeypatch.setattr("aml_train_action.github.api.Session", lambda: session(made.github))
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    return made


def uploaded(world: World, made: report.Report | bytes | None = None, **run: Any) -> None:
    """Let the run of the pull request have ended, with a report as its artifact."""
    world.github.run(**run)
    data = made if isinstance(made, bytes) else zipped(report.encode(made or passing()))
    world.github.artifact(data)


def forked(world: World) -> None:
    """Let the pull request be one of a fork."""
    world.github.pull(repository=FORK)
