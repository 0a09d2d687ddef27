"""The soak in a short form: all of its load and some kills. Its times and slopes are those of an hour on a quiet machine."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from benchmarks.soak import __main__ as soak

from tests.support.emulator_client import Client
from tests.support.emulator_process import ROOT, executing_by

SECONDS = 1500


def test_its_client_signs_in_again_when_its_token_is_old(tmp_path: Path) -> None:
    """Two phases of an hour take longer than an access token is valid."""
    with executing_by("tests.support.instant_emulator", tmp_path) as emulator:
        client = Client(emulator.environment(), emulator.info)
        client._session.headers["Authorization"] = "Bearer eyJhbGciOiJub25lIn0.e30."
        answer = client.ask("GET", client.arm("models"))
        assert answer.status_code == 200, answer.text
        client.close()


def test_its_service_has_the_allocator_of_the_image_or_it_does_not_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    assert soak.is_preloaded("libm.so.6")
    assert not soak.is_preloaded("libnone.so.0")
    monkeypatch.setattr(soak, "is_preloaded", lambda library: library == "libjemalloc.so.2")
    assert set(soak.allocator(required=True)) == {"LD_PRELOAD", "MALLOC_CONF"}
    monkeypatch.setattr(soak, "is_preloaded", lambda _library: False)
    assert soak.allocator(required=False) == {}
    with pytest.raises(SystemExit, match=r"libjemalloc\.so\.2 is not on this machine"):
        soak.allocator(required=True)


@pytest.mark.full
def test_a_short_soak_has_no_wrong_answer_and_loses_nothing(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    options = [
        "--minutes",
        "0.5",
        "--kills",
        "4",
        "--jobs",
        "80",
        "--watchers",
        "20",
        "--pipelines",
        "4",
        "--any-allocator",
    ]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "soak", *options, "--report", str(report)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(("runner", "action", "."))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert report.exists(), done.stderr
    found = json.loads(report.read_text())
    first, second = found["phases"]
    assert first["errors"] == second["errors"] == {}
    assert found["missing"] == []
    assert set(found["statuses"]) == {"Completed"}
    assert found["statuses"]["Completed"] >= 80 + first["pipelines"] + second["pipelines"]
    assert first["pipelines"] > 0
    assert second["pipelines"] > 0
    for phase in (first, second):
        assert set(phase["latencies"]) >= {"details", "log"}
        assert {one["role"] for one in phase["memory"]} == {"service", "storage", "storage, live", "registry"}
    stored = found["stored"]
    assert 0 < stored["written"] <= stored["accounted"] <= stored["disk"] + 1
    for phrase in (
        "allocator of memory: ",
        "p50/p90/p99/max",
        "MiB/h",
        "4 kills; lost: nothing",
        "every job completes",
    ):
        assert phrase in done.stdout
