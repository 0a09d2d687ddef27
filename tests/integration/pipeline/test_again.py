"""When the same project trains again, and what is said of it: `aml-train run` as a process, with its log in the project."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.emulator_process import Emulator

GATE = "gate: {{accuracy: '>= {bound}'}}\nmodel: {{name: again, path: outputs/model}}\n"


def _write(folder: Path, emulator: Emulator, *, bound: str = "0.5", sdk: str = "v2") -> None:
    (folder / "aml-train.yml").write_text(
        f"job: job.yml\nsdk: {sdk}\ntarget: azure\ntargets: {json.dumps({'azure': emulator.target()})}\n"
        + GATE.format(bound=bound)
    )
    command = "say begun\nmetric accuracy 1 0.9\nwrite outputs/model/model.json {}"
    (folder / "job.yml").write_text(
        json.dumps(
            {
                "command": command,
                "code": ".",
                "inputs": {"epochs": 2},
                "experiment_name": "again",
                "environment": {"image": "x"},
            }
        )
    )
    (folder / "train.py").write_text("pass\n")


def _run(folder: Path, emulator: Emulator, *arguments: str, into: str = "> run.log 2>&1") -> tuple[str, str]:
    """Run the project; return the job's name and the line that says why it was submitted, which may be empty."""
    environment = emulator.workspace_environment(NO_COLOR="1")
    command = f"set -o pipefail; {sys.executable} -m aml_train run {' '.join(arguments)} {into}"
    ended = subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=600
    )
    log = (folder / "run.log").read_text()
    assert ended.returncode == 0, log + ended.stderr
    job = re.search(r"^job +(\S+)", log, re.MULTILINE)
    assert job is not None, log
    why = [line.strip("· ") for line in log.splitlines() if "Trains" in line]
    assert len(why) <= 1, log
    return job[1], "".join(why)


@pytest.mark.full
def test_only_what_the_job_computes_trains_again(instant: Emulator, tmp_path: Path) -> None:
    project = tmp_path / "again"
    project.mkdir()
    _write(project, instant)
    first, why = _run(project, instant)
    assert why == "Trains for the first time: there is no earlier job again-… among the last of this workspace."
    # The log is there now, the bound is another one, and a comment was added.
    _write(project, instant, bound="0.6")
    (project / "job.yml").write_text(f"# A comment.\n{(project / 'job.yml').read_text()}")
    assert _run(project, instant) == (first, "")
    (project / "train.py").write_text("print()\n")
    (project / "lib.py").write_text("")
    second, why = _run(project, instant)
    assert why == f"Trains, as these differ from the last job, {first}: the code."
    _, why = _run(project, instant, "--set job.inputs.epochs=3")
    assert why == f"Trains, as these differ from the last job, {second}: the input epochs."
    (project / "lib.py").unlink()
    (project / "train.py").write_text("pass\n")
    again, why = _run(project, instant, "--fresh")
    assert why == f"Trains again, as --fresh says: nothing differs from {first}, which is Completed."
    assert again == f"{first[:-1]}2"


@pytest.mark.full
def test_a_log_that_another_program_writes_is_taken_as_it_was(instant: Emulator, tmp_path: Path) -> None:
    project = tmp_path / "tee"
    project.mkdir()
    _write(project, instant)
    _run(project, instant, into="2>&1 | tee run.log")
