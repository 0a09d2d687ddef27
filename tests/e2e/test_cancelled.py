"""A workflow that is cancelled, at any moment: the job is told within seconds, and nothing stays behind.

The runner's own contract is reproduced by the harness: SIGINT, SIGTERM after 7.5 s, the end after 10 s. These are real seconds,
so that nothing else runs beside a cancel at any moment.
"""

from __future__ import annotations

import datetime
import json
import random
import re
import secrets
import subprocess
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from aml_emulator.executor.shared import RUN_LABEL
from tests.e2e.conftest import EMULATOR, Local
from tests.e2e.hosted_runner import HostedRunner, Step

CANCELS = 4
#: Seconds, from the signal to the request that arrives at the local AzureML.
TOLD_WITHIN = 3.0
PATIENCE = 600.0

CONFIG = """\
job: job.yml
image:
  base: python:3.11-slim-bookworm
  pip: requirements.txt
tests:
  command: python -m unittest discover -s tests
"""
JOB = """\
experiment_name: {name}
code: src
command: python train.py
compute: azureml:local-cluster
"""
TRAIN = "import time\nprint('started', flush=True)\ntime.sleep({seconds})\n"
#: Goes on when it is told to: see :func:`release`. It ends as well where the test has failed before that.
HELD = """\
import pathlib, sys, time
print("started", flush=True)
for _ in range(6000):
    time.sleep(0.1)
    if pathlib.Path("/tmp/released").exists():
        sys.exit()
sys.exit("never released")
"""
TEST = """\
import time
import unittest


class Test(unittest.TestCase):
    def test_something(self) -> None:
        time.sleep(1)
"""


def project(folder: Path, *, seconds: float = 300, train: str = TRAIN, fresh_image: bool = True) -> Path:
    """Make a small project; its experiment is like no other's, and so is its image unless *fresh_image* is false."""
    word = secrets.token_hex(4)
    made = folder / "cancelled"
    files = {
        "aml-train.yml": CONFIG,
        "job.yml": JOB.format(name=f"cancelled-{word}"),
        "requirements.txt": f"# {word if fresh_image else 'shared'}\niniconfig==2.0.0\n",
        "src/train.py": train.format(seconds=seconds),
        "tests/__init__.py": "",
        "tests/test_something.py": TEST,
    }
    for name, text in files.items():
        (made / name).parent.mkdir(parents=True, exist_ok=True)
        (made / name).write_text(text)
    return made


class Emulator:
    """What the local AzureML has seen, by its own log and the engine's clock."""

    def __init__(self, local: Local) -> None:
        self._local = local
        self._name = local.environment[EMULATOR[0]]

    def seen(self, what: str, job: str) -> float | None:
        """Return when the log first says *what* of jobs whose names start with *job*, in seconds since the epoch."""
        done = subprocess.run(
            ["docker", "logs", "--timestamps", self._name], capture_output=True, text=True, check=True
        )
        for line in (done.stdout + done.stderr).splitlines():
            at, _, text = line.partition(" ")
            if re.search(rf"job {re.escape(job)}\S*:? {what}", text):
                whole, _, fraction = at.rstrip("Z").partition(".")
                moment = datetime.datetime.fromisoformat(f"{whole}+00:00")
                return moment.timestamp() + float(f"0.{fraction}")
        return None

    def live(self) -> int:
        """Return how many jobs have not ended."""
        jobs = json.loads(self._local.command("emulator", "status"))["jobs"]
        return sum(count for status, count in jobs.items() if status not in ("Completed", "Failed", "Canceled"))


@pytest.fixture(scope="module")
def emulator(local: Local) -> Emulator:
    return Emulator(local)


def left_behind(step: str, stem: str) -> list[str]:
    """Return the containers of one step: its own, which has the id *step*, those that it made, and those of its jobs."""
    done = subprocess.run(
        ["docker", "ps", "-a", "--no-trunc", "--format", "{{.ID}} {{.Names}} {{.Labels}}"],
        capture_output=True,
        text=True,
        check=True,
    )
    marks = (step, f".{step[:12]}", f"{RUN_LABEL}={stem}")
    return [line for line in done.stdout.splitlines() if any(mark in line for mark in marks)]


def release(job: str) -> None:
    """Let a job of :data:`HELD` go on."""
    argv = ["docker", "ps", "--quiet", "--filter", f"label={RUN_LABEL}={job}"]
    (container,) = subprocess.run(argv, capture_output=True, text=True, check=True).stdout.split()
    subprocess.run(["docker", "exec", container, "touch", "/tmp/released"], check=True, capture_output=True)


def wait_until(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


class Watched:
    """A step whose output is read while it runs."""

    def __init__(self, runner: HostedRunner, inputs: dict[str, str] | None = None) -> None:
        self._runner = runner
        self.process = runner.start(inputs or {})
        self.lines: list[str] = []
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        self.lines.extend(iter(self.process.stdout.readline, ""))

    def await_line(self, text: str) -> None:
        """Wait until the log has *text*."""
        wait_until(
            lambda: any(text in line for line in [*self.lines]) or self.process.poll() is not None,
            f"the step does not say {text!r}: {self.lines}",
        )

    def container(self) -> str:
        """Return the id of the step's container."""
        argv = ["docker", "inspect", "--format", "{{.Id}}", self._runner.container]
        return subprocess.run(argv, capture_output=True, text=True, check=True).stdout.strip()

    def end(self) -> Step:
        self._thread.join(PATIENCE)
        self.process.wait(PATIENCE)
        if self.process.stdout is not None:
            self.process.stdout.close()
        return self._runner.finish(self.process, log="".join(self.lines))


@pytest.fixture(scope="module")
def usual_seconds(action_image: str, local: Local, tmp_path_factory: pytest.TempPathFactory) -> float:
    """How long a step takes here from its first line until its job runs."""
    folder = tmp_path_factory.mktemp("usual")
    runner = HostedRunner(action_image, folder, local.which)
    runner.checkout(project(folder, seconds=0.5))
    step = Watched(runner)
    step.await_line("::")
    began = time.monotonic()
    step.await_line("started")
    seconds = time.monotonic() - began
    assert step.end().code == 0, step.lines
    return seconds


@pytest.mark.full
@pytest.mark.alone
@pytest.mark.parametrize("number", range(CANCELS))
def test_a_cancel_at_any_moment(
    number: int, runner: HostedRunner, emulator: Emulator, usual_seconds: float, tmp_path: Path
) -> None:
    made = project(tmp_path)
    stem = (made / "job.yml").read_text().split()[1]
    runner.checkout(made)
    # Spread evenly from the first line to a while after the job has begun.
    share = (number + random.random()) / CANCELS  # noqa: S311 - a moment, not a secret
    moment = share * (usual_seconds + 2)
    step = Watched(runner)
    step.await_line("::")
    container = step.container()
    time.sleep(moment)
    told = time.time()
    runner.cancel(step.process)
    ended = step.end()
    where = f"cancelled {moment:.2f} s after the first line:\n{ended.log}"
    assert ended.code == 7, where
    assert ended.outputs["status"] == "cancelled", where
    if emulator.seen("submitted", stem) is not None:
        asked = emulator.seen("asked to cancel", stem)
        assert asked is not None, where
        assert asked - told < TOLD_WITHIN, where
    wait_until(lambda: emulator.live() == 0, f"a job goes on; {where}")
    wait_until(lambda: not left_behind(container, stem), f"a container stays behind; {where}")


def test_a_job_that_is_detached_goes_on_and_is_gated_later(
    runner: HostedRunner, emulator: Emulator, tmp_path: Path
) -> None:
    runner.checkout(project(tmp_path, train=HELD, fresh_image=False))
    step = Watched(runner, {"on-cancel": "detach"})
    step.await_line("started")
    runner.cancel(step.process)
    ended = step.end()
    assert (ended.code, ended.outputs["status"]) == (7, "cancelled"), ended.log
    job = ended.outputs["job-name"]
    assert emulator.seen("asked to cancel", job) is None
    after = runner.post()
    assert after.code == 0, after.log
    assert f"The job {job} continues." in after.log
    release(job)
    for inputs in ({"command": "attach"}, {"command": "attach", "job-name": job}):
        attached = runner.run(inputs)
        assert attached.code == 0, attached.log
        assert attached.outputs["job-name"] == job
        assert attached.outputs["digest"] == ended.outputs["digest"]


@pytest.mark.full
@pytest.mark.kills
def test_a_step_that_is_killed_leaves_its_job_to_the_post_action(
    runner: HostedRunner, emulator: Emulator, tmp_path: Path
) -> None:
    runner.checkout(project(tmp_path, fresh_image=False))
    step = Watched(runner)
    step.await_line("started")
    runner.kill(step.process)
    step.end()
    state = runner.state()
    job = state["job"]
    assert emulator.seen("asked to cancel", job) is None
    after = runner.post(state)
    assert after.code == 0, after.log
    assert any("the cancellation is requested now" in warning.text for warning in after.annotations)
    assert emulator.seen("asked to cancel", job) is not None
    wait_until(lambda: emulator.live() == 0, "the job goes on")
    again = runner.post(state)
    assert f"The job {job} is Canceled." in again.log


@pytest.mark.full
def test_a_newer_run_of_the_pull_request_supersedes_the_older_one(
    runner: HostedRunner, emulator: Emulator, tmp_path: Path
) -> None:
    made = project(tmp_path, fresh_image=False)
    runner.checkout(made)
    runner.environment |= {"GITHUB_REF": "refs/pull/7/merge", "GITHUB_RUN_ID": "41"}
    older = runner.run({"wait": "false"})
    assert (older.code, older.outputs["status"]) == (0, "submitted"), older.log
    train = runner.workspace / "src" / "train.py"
    train.write_text(TRAIN.format(seconds=0.1))
    runner.environment["GITHUB_RUN_ID"] = "42"
    newer = runner.run({"supersede": "true"})
    assert newer.code == 0, newer.log
    assert f"cancelling the job {older.outputs['job-name']}" in newer.log
    wait_until(lambda: emulator.live() == 0, "the older job goes on")
    assert emulator.seen("asked to cancel", older.outputs["job-name"]) is not None
