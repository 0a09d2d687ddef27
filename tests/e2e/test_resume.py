"""examples/resume: its training is preempted in both ways of AzureML, and resumes."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, TIMEOUT, Local


@pytest.mark.full
def test_the_example_resumes_as_the_next_attempt_and_in_the_queue(local: Local, tmp_path: Path) -> None:
    project = tmp_path / "resume"
    shutil.copytree(ROOT / "examples/resume", project)
    found = json.loads(local.command("jobs", "check-resume", "-C", str(project), "--json"))
    assert (found["problems"], found["resumed_from"]) == ([], found["attempts"][0])

    process = local.start(project, "--fresh")
    events, end = project.with_suffix(".events"), time.monotonic() + TIMEOUT
    while not (events.exists() and "step 25 " in events.read_text()):
        assert process.poll() is None, local.finish(process, project).output
        assert time.monotonic() < end
        time.sleep(0.1)
    job = next(json.loads(line)["job"] for line in events.read_text().splitlines() if '"job-submitted"' in line)
    local.command("emulator", "job", "preempt", job, "--force")
    ended = local.finish(process, project)
    assert ended.code == 0, ended.output
    assert [one["job"] for one in ended.of("job-submitted")] == [job], "the same job"
    assert any("resuming from step-" in one["text"] for one in ended.of("log-line")), ended.output
