"""An interruption in the middle of a large upload: nothing is left that claims to be whole, and nobody waits."""

from __future__ import annotations

import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.integration.pipeline.conftest import AmlTrain
from tests.support.emulator_process import Emulator

pytestmark = pytest.mark.full

FILES = 1500
SECONDS = 600
#: The storage answers nothing after a hundred files: whoever uploads is in the midst of it, however late it is looked at.
HELD = "kind=delay&delay=600&method=PUT&host=*.blob.core.windows.net&skip=100"


def asked(emulator: Emulator) -> list[str]:
    """Return what the emulator was asked about code and jobs."""
    entries: list[dict[str, Any]] = emulator.admin("GET", "requests?limit=1000").json()["requests"]
    return [f"{entry['method']} {entry['path'].rpartition('/workspaces/local/')[2]}" for entry in entries]


def test_ctrl_c_ends_an_upload(emulator: Emulator, aml_train: AmlTrain, tmp_path: Path) -> None:
    project = tmp_path / "project"
    for number in range(FILES):
        path = project / f"d{number // 100}" / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(number))
    emulator.admin("POST", f"faults?{HELD}").raise_for_status()
    running = aml_train.submit(project, "true")
    deadline = time.monotonic() + SECONDS
    while not any(line.startswith("POST codes/") for line in asked(emulator)):
        assert running.process.poll() is None
        assert time.monotonic() < deadline, asked(emulator)
        time.sleep(0.05)
    running.process.send_signal(signal.SIGINT)
    ended = running.ended()
    emulator.admin("DELETE", "faults").raise_for_status()
    assert ended.code == 7
    assert "Interrupted before the job was submitted." in ended.output
    seen = asked(emulator)
    assert not [line for line in seen if line.startswith(("PUT codes/", "PUT jobs/"))]
