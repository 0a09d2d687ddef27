"""Runs against a real service are recorded, and replayed without one: the same ending, or the defect that is gone.

The commands are processes of their own, as users start them. Jobs are scripts of the instant executor.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from tests.support.emulator_process import ROOT, Emulator, executing_by

pytestmark = [pytest.mark.full, pytest.mark.timeout(1800)]

SECRET = "quokka-Planted7secret"
SECONDS = 300
#: A defect of the product, as a change of one of its functions before the command begins.
DEFECT = """
import sys
import aml_train.pipeline.run as run
def decide(*_arguments):
    raise LookupError("a defect of quokkas")
run.decide = decide
"""

#: Interrupts the process once at each of the given events, after it was recorded, and requests, before they are sent.
INTERRUPT = """
import json, os, signal, threading, time
import aml_train.pipeline.record.recorder as recording
from urllib3.connectionpool import HTTPConnectionPool
left = {places!r}
def reached(text):
    if left and all(word in text for word in left[0].split()):
        left.pop(0)
        os.kill(os.getpid(), signal.SIGINT)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.5)
report, send = recording.Recorder.__call__, HTTPConnectionPool.urlopen
def called(recorder, event):
    report(recorder, event)
    reached(recording.to_json(event))
def urlopen(pool, method, url, *args, **options):
    reached(method + " " + url)
    return send(pool, method, url, *args, **options)
recording.Recorder.__call__, HTTPConnectionPool.urlopen = called, urlopen
"""


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with executing_by("tests.support.instant_emulator", tmp_path_factory.mktemp("record")) as service:
        yield service


@dataclass(frozen=True, kw_only=True)
class Recording:
    """A recorded run: its bundle and how it ended."""

    bundle: Path
    code: int
    errors: str

    def documents(self) -> dict[str, Any]:
        with zipfile.ZipFile(self.bundle) as archive:
            return {name: json.loads(archive.read(name)) for name in archive.namelist() if name.endswith(".json")}

    def content(self) -> bytes:
        with zipfile.ZipFile(self.bundle) as archive:
            return b"\n".join(archive.read(name) for name in archive.namelist())


def project(folder: Path, info: Mapping[str, Any], script: str, **configuration: Any) -> Path:
    (folder / "src").mkdir(parents=True)
    (folder / "src" / "quokka_train.py").write_text(f"# {folder.name}\n")
    job = {
        "code": "./src",
        "experiment_name": f"quokka-{folder.name}",
        "command": script,
        "environment": {"image": "python:3.11-slim-bookworm"},
        "environment_variables": {"QUOKKA_PASSWORD": SECRET},
    }
    names = {"subscription-id": "subscription_id", "resource-group": "resource_group"}
    target = {key: info[known] for key, known in names.items()} | {
        name: info[name] for name in ("workspace", "compute")
    }
    (folder / "job.yml").write_text(json.dumps(job))
    written = {
        "job": "job.yml",
        "target": "azure",
        "targets": {"azure": target},
        "gate": {"accuracy": [">= 0.8"]},
        "model": {"name": f"quokka-{folder.name}", "path": "outputs/model"},
        **configuration,
    }
    (folder / "aml-train.yml").write_text(json.dumps(written))
    return folder


def record(
    emulator: Emulator, folder: Path, script: str, *, defect: str = "", interrupt: bool = False, **configuration: Any
) -> Recording:
    project(folder, emulator.info, script, **configuration)
    bundle, events = folder.parent / f"{folder.name}.zip", folder.parent / f"{folder.name}.jsonl"
    environ = {
        **emulator.environment(),
        "AML_TRAIN_SIGN_IN": "secret",
        "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner"))),
        "QUOKKA_TOKEN": SECRET,
    }
    words = ["run", "-C", str(folder), "--record", str(bundle), "--events", str(events)]
    program = (
        f"{defect}\nimport sys; sys.argv = {['aml-train', *words]!r}\nfrom aml_train.__main__ import main; main()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        env=environ,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    if interrupt:
        began = time.monotonic()
        while not (events.exists() and '"Running"' in events.read_text()) and time.monotonic() - began < SECONDS:
            time.sleep(0.2)
        process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=SECONDS)
    return Recording(bundle=bundle, code=process.returncode, errors=errors)


def replay(bundle: Path, *, defect: str = "") -> tuple[int, str]:
    program = (
        f"{defect}\nimport sys; sys.argv = ['simulation', 'replay', {str(bundle)!r}]\n"
        "from simulation.cli import main; sys.exit(main(sys.argv[1:]))"
    )
    path = os.pathsep.join((str(ROOT), str(ROOT / "runner")))
    done = subprocess.run(
        [sys.executable, "-c", program],
        # No proxy, no sign-in, no service: nothing but the bundle.
        env={"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/"), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    return done.returncode, done.stdout + done.stderr


def check(emulator: Emulator, recording: Recording, status: str, code: int) -> str:
    """Check that the run ended so, that the bundle has no name of ours, and that its replay ends the same."""
    assert recording.code == code, recording.errors
    assert recording.documents()["bundle.json"]["ending"]["status"] == status
    held, info = recording.content().lower(), emulator.info
    for text in (
        "quokka",
        SECRET,
        info["subscription_id"],
        info["tenant_id"],
        info["client_id"],
        info["client_secret"],
    ):
        assert str(text).lower().encode() not in held, text
    ended, output = replay(recording.bundle)
    assert (ended, output.splitlines()[0]) == (0, "reproduced"), output
    assert f"replayed  {status} (exit code {code})" in output
    return output


def test_a_run_that_passes(emulator: Emulator, tmp_path: Path) -> None:
    script = "say the quokka eats\nmetric accuracy 1 0.93\nmetric quokkas 1 17\nwrite outputs/model weights"
    check(emulator, record(emulator, tmp_path / "passes", script), "passed", 0)


def test_a_gate_that_is_missed(emulator: Emulator, tmp_path: Path) -> None:
    script = "metric accuracy 1 0.31\nwrite outputs/model weights"
    check(emulator, record(emulator, tmp_path / "missed", script), "gate-failed", 6)


def test_a_job_that_fails(emulator: Emulator, tmp_path: Path) -> None:
    script = "say Traceback (most recent call last): quokka\nexit 7"
    check(emulator, record(emulator, tmp_path / "fails", script), "job-failed", 5)


def test_an_outage_of_the_service(emulator: Emulator, tmp_path: Path) -> None:
    # The service puts requests off for longer than a run waits.
    fault = {
        "kind": "status",
        "status": "503",
        "retry_after": "600",
        "path": "*/metrics/get-history*",
        "probability": "1",
    }
    emulator.admin("POST", f"faults?{urlencode(fault)}").raise_for_status()
    try:
        script = "metric accuracy 1 0.93\nwrite outputs/model weights"
        recording = record(emulator, tmp_path / "outage", script)
    finally:
        emulator.admin("DELETE", "faults").raise_for_status()
    check(emulator, recording, "service-error", 8)


def test_an_interruption(emulator: Emulator, tmp_path: Path) -> None:
    recording = record(emulator, tmp_path / "interrupted", "wait quokka", interrupt=True)
    assert len(recording.documents()["bundle.json"]["interruptions"]) == 1
    check(emulator, recording, "cancelled", 7)


@pytest.mark.parametrize(
    "places",
    [
        pytest.param(["stage-started target"], id="before the target is opened"),
        pytest.param(["stage-started submit"], id="before the submission"),
        pytest.param(["PUT _train.py"], id="while another thread uploads code"),
        pytest.param(["PUT /jobs/"], id="while another thread submits the job"),
        pytest.param(["stage-started watch"], id="before the first look at the job"),
        pytest.param(["job-status-changed Running"], id="before the log is read"),
        pytest.param(["GET std_log.txt"], id="while the log is read"),
        pytest.param(["GET get-history"], id="while metrics are read"),
        pytest.param(["rule-decided accuracy"], id="after the gate"),
        pytest.param(["job-status-changed Running", "taken note"], id="twice"),
    ],
)
def test_an_interruption_at_any_place(emulator: Emulator, tmp_path: Path, places: list[str]) -> None:
    ends = not any("get-history" in place or "accuracy" in place for place in places)
    script = "say the quokka eats\nmetric accuracy 1 0.93\nwrite outputs/model weights" + "\nwait quokka" * ends
    # Code that is known is not uploaded again.
    folder = tmp_path / f"interrupted-{zlib.crc32(repr(places).encode())}"
    recording = record(emulator, folder, script, defect=INTERRUPT.format(places=places))
    assert len(recording.documents()["bundle.json"]["interruptions"]) == len(places)
    check(emulator, recording, "cancelled", 7)


def test_a_preempted_job_that_is_submitted_again(emulator: Emulator, tmp_path: Path) -> None:
    script = "metric accuracy 1 0.93\nwrite outputs/model weights\npreempted"
    recording = record(emulator, tmp_path / "preempted", script, retry={"preempted": 2})
    events = recording.documents()["events.json"]
    assert [one["attempt"] for one in events if one["event"] == "job-submitted"] == [1, 2]
    check(emulator, recording, "passed", 0)


def test_a_defect_of_the_product_is_reproduced_as_long_as_it_is_there(emulator: Emulator, tmp_path: Path) -> None:
    script = "metric accuracy 1 0.93\nwrite outputs/model weights"
    recording = record(emulator, tmp_path / "defect", script, defect=DEFECT)
    assert recording.code == 1
    facts = recording.documents()["bundle.json"]
    assert facts["ending"] is None
    assert facts["traceback"]["chain"][0]["type"] == "LookupError"
    assert b"quokka" not in recording.content().lower()
    code, output = replay(recording.bundle, defect=DEFECT)
    assert (code, output.splitlines()[:3]) == (
        0,
        ["reproduced", "recorded  a defect: LookupError", output.splitlines()[2]],
    )
    assert output.splitlines()[2].startswith("replayed  a defect: LookupError at ")
    # Without it the run continues, and there are no answers beyond the recorded end.
    code, output = replay(recording.bundle)
    assert (code, output.splitlines()[:3]) == (
        1,
        [
            "not reproduced",
            "recorded  a defect: LookupError",
            "replayed  beyond the recording: it sent a request that is not in the bundle",
        ],
    )
    # Which request is the first beyond the end depends on threads; that the run continued does not.
    assert "recorded the end of the run, replayed stage-started stage=gate" in output


def test_a_run_whose_configuration_is_refused_has_a_bundle_without_a_plan(emulator: Emulator, tmp_path: Path) -> None:
    recording = record(emulator, tmp_path / "refused", "say a", gates={"quokka": []})
    assert recording.code == 2
    assert b"quokka" not in recording.content().lower()
    code, output = replay(recording.bundle)
    assert code == 2
    assert "ended before it had a plan, as invalid" in output
