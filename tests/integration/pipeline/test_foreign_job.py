"""A job under the name of main's next job, submitted by somebody else with azure-ai-ml: it is never taken for main's."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import Emulator

STEPS = "code_steps.py"
COMMAND = "say begun\nmetric accuracy 1 0.9\nwrite outputs/model/model.json {}"
IMAGE = "python:3.11-slim-bookworm"
NAMED = """\
import json, os
from pathlib import Path
from aml_train.config.load import load_config
from aml_train.jobs.spec import make_job
from aml_train.pipeline.target import Host
from aml_train.pipeline.prepare import prepare_run
plan = prepare_run(load_config(None, directory=Path()), Host(environ=os.environ)).plan
job = make_job(plan.job, {}, 1)
print(json.dumps([job.name, job.fingerprint]))
"""


@dataclass(frozen=True)
class Main:
    """A checkout of the protected branch."""

    emulator: Emulator
    folder: Path
    experiment: str

    def python(self, *arguments: str) -> str:
        return self.emulator.python(self.folder, *arguments).stdout

    def attack(self, **changes: str) -> str:
        """Submit another job under the name that the next run computes; return the name."""
        name, fingerprint = json.loads(self.python("-c", NAMED).splitlines()[-1])
        marks = json.dumps({"aml-train.fingerprint": fingerprint, "aml-train.gate": "passed"})
        given = {"command": COMMAND, "code": str(self.folder), "experiment": self.experiment, "image": IMAGE}
        done = self.emulator.client(
            "submit", script=STEPS, name=name, marks=marks, seconds=600, **{**given, **changes}
        )
        assert done["status"] == "Completed"
        return str(name)

    def run(self) -> tuple[dict[str, Any], list[str]]:
        """Run; return the facts at the end, and the warnings."""
        events = self.folder.parent / "events.jsonl"
        self.python("-m", "aml_train", "run", "--events", str(events))
        lines = [json.loads(line) for line in events.read_text().splitlines()]
        warnings = [one["text"] for one in lines if one["event"] == "notice" and one["level"] == "warning"]
        return lines[-1]["facts"], [text for text in warnings if "has the name of this run's job" in text]

    def registered(self) -> list[str]:
        """Return the jobs whose models are registered, the newest first."""
        listed = self.python("-m", "aml_train", "model", "list", self.experiment, "--versions", "--json")
        return [str(json.loads(line)["job"]) for line in listed.splitlines()]


@pytest.fixture
def main(instant: Emulator, tmp_path: Path, request: pytest.FixtureRequest) -> Main:
    folder, experiment = tmp_path / "project", f"attacked{abs(hash(request.node.name)) % 10**6}"
    folder.mkdir()
    (folder / "aml-train.yml").write_text(
        f"job: job.yml\ntarget: azure\ntargets: {json.dumps({'azure': instant.target()})}\n"
        f"gate: {{accuracy: '>= 0.5'}}\nmodel: {{name: {experiment}, path: outputs/model}}\n"
    )
    job = {"command": COMMAND, "code": "src", "experiment_name": experiment, "environment": {"image": IMAGE}}
    (folder / "job.yml").write_text(json.dumps(job))
    (folder / "src").mkdir()
    (folder / "src/train.py").write_text("pass\n")
    return Main(instant, folder, experiment)


def refused(main: Main, foreign: str, what: str) -> None:
    """Check that main's run leaves the job alone, says so, and registers its own."""
    facts, warnings = main.run()
    assert facts["job"] == foreign[:-1] + "2"
    assert [
        text for text in warnings if f"The job {foreign} " in text and f"what differs is {what}." in text
    ] == warnings
    assert len(warnings) == 1
    assert main.registered() == [facts["job"]]
    again, _ = main.run()
    assert again["job"] == facts["job"], "the own job is attached to, past the foreign one"


@pytest.mark.full
def test_another_command_under_the_computed_name(main: Main) -> None:
    foreign = main.attack(command=COMMAND.replace("{}", '{"weights": "poisoned"}'), code=str(main.folder / "src"))
    refused(main, foreign, "`command`")


@pytest.mark.full
def test_the_same_command_with_other_code_in_an_other_environment(main: Main, tmp_path: Path) -> None:
    (tmp_path / "evil").mkdir()
    (tmp_path / "evil/train.py").write_text("poison()\n")
    foreign = main.attack(code=str(tmp_path / "evil"), image="python:3.12")
    refused(main, foreign, "the code, the image")


@pytest.mark.full
def test_code_of_our_hash_whose_files_were_replaced(main: Main) -> None:
    """The service shows the hash that the asset was registered with: only the storage shows the files."""
    code = str(main.folder / "src")
    main.emulator.client("register", script=STEPS, code=code)
    forged = main.emulator.client("forge", script=STEPS, code=code, file="train.py", text="evil\n")
    foreign = main.attack(code=code)
    refused(main, foreign, "the code")
    shown = json.loads(main.python("-m", "aml_train", "jobs", "show", foreign[:-1] + "2", "--json"))
    assert shown["code"].partition(":")[0] not in forged["asset"], "nor does main's own job run them"
