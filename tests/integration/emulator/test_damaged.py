"""A data folder that was damaged between two lives of the emulator: it does not start, and says what is wrong."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.emulator_process import ROOT, Emulator, azurite

SECONDS = 300


def _start(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.support.instant_emulator", "serve", "--data", str(folder / "data")]
    return subprocess.run(
        [*argv, "--port", "0", "--registry-port", "0", "--azurite", azurite()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an emulator that was started, ended, started again and ended again."""
    folder = tmp_path_factory.mktemp("emulator")
    emulator = Emulator(
        folder,
        command=("-m", "tests.support.instant_emulator"),
        environment={"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
    )
    for _ in range(2):
        emulator.start()
        assert emulator.admin("GET", "health").json() == {"status": "ready"}
        emulator.stop()
    return folder


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("name", "damaged", "said"),
    [
        ("blobs/__azurite_db_blob__.json", _emptied, "is empty: the blobs that it listed would be lost"),
        ("blobs/__azurite_db_blob_extent__.json", _halved, "is cut off or overwritten"),
        ("store.db", _halved, "is truncated"),
        ("store.db", _emptied, "is empty"),
    ],
)
def test_it_does_not_start_on_damaged_state(
    lived: Path, name: str, damaged: Callable[[Path], None], said: str
) -> None:
    path = lived / "data" / name
    whole = path.read_bytes()
    damaged(path)
    try:
        done = _start(lived)
    finally:
        path.write_bytes(whole)
    assert done.returncode != 0
    assert f"{path} {said}" in done.stderr
    assert "aml-train emulator reset" in done.stderr
