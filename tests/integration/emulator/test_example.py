"""examples/emulator: the local AzureML in a project that knows nothing of aml-train."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.emulator_process import Emulator

pytestmark = pytest.mark.full

EXAMPLE = Path(__file__).parents[3] / "examples" / "emulator"


def test_the_examples_own_tests_pass(tmp_path: Path) -> None:
    # Elsewhere, so that nothing of this repository's settings plays a part.
    project = shutil.copytree(EXAMPLE, tmp_path / "project")
    emulator = Emulator(tmp_path)
    emulator.start()
    try:
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests"],
            cwd=project,
            env={
                "PATH": os.environ["PATH"],
                "HOME": str(tmp_path),
                "AML_EMULATOR": f"http://127.0.0.1:{emulator.port}",
                "PYTHONDONTWRITEBYTECODE": "1",
            },
            capture_output=True,
            text=True,
            timeout=900,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr + emulator.log.read_text()[-3000:]
        assert "1 passed" in done.stdout
    finally:
        emulator.admin("POST", "reset?force=1")
        emulator.stop()
