"""The script that divides the input of a parallel node, as a process."""

from __future__ import annotations

import base64
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from aml_emulator.executor import parallel_run

ENTRY = """
import argparse
import os

def init():
    global word
    parser = argparse.ArgumentParser()
    parser.add_argument("--word")
    word = parser.parse_known_args()[0].word
    if word == "none":
        raise OSError("no word")

def run(mini_batch):
    if any(name.endswith("5.txt") for name in mini_batch):
        raise ValueError("five")
    return [f"{os.path.basename(name)} {word}" for name in mini_batch if not name.endswith("3.txt")]
"""


def run(folder: Path, settings: dict[str, Any], *arguments: str) -> subprocess.CompletedProcess[str]:
    files, entry = folder / "in", folder / "entry.py"
    files.mkdir(exist_ok=True)
    for number in range(1, 8):
        (files / f"{number}.txt").write_text("")
    entry.write_text(ENTRY)
    encoded = base64.b64encode(json.dumps({"processes": 2, **settings}).encode()).decode()
    script = shutil.copy(parallel_run.__file__, folder / "aml_parallel_run.py")  # alone, as in a job
    argv = [sys.executable, script, str(files), str(folder / "out"), encoded, str(entry), *arguments]
    return subprocess.run(argv, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    ("settings", "arguments", "says"),
    [
        ({"mini_batch_error_threshold": 1, "error_threshold": 3}, (), ""),
        ({"mini_batch_error_threshold": -1}, (), ""),
        ({"mini_batch_error_threshold": 0}, (), "more failed than mini_batch_error_threshold allows: 1, and not 0"),
        ({"error_threshold": 2}, (), "more failed than error_threshold allows: 3, and not 2"),
        ({}, ("--allowed_failed_percent", "10"), "more failed than allowed_failed_percent allows: 1, and not 0"),
    ],
)
def test_what_may_fail(settings: dict[str, Any], arguments: tuple[str, ...], says: str, tmp_path: Path) -> None:
    ended = run(
        tmp_path,
        {"mini_batch_size": "2", "retry_settings": {"max_retries": 1}, **settings},
        "--word",
        "w",
        *arguments,
    )
    assert "mini-batch 2 failed; 1 tries left" in ended.stdout
    assert "1 of 4 mini-batches failed, 3 items" in ended.stdout
    assert sorted((tmp_path / "out").read_text().splitlines()) == ["1.txt w", "2.txt w", "4.txt w", "7.txt w"]
    assert (ended.returncode, says in ended.stderr) == (1 if says else 0, True), ended.stderr


def test_a_script_that_cannot_begin_ends_the_run(tmp_path: Path) -> None:
    ended = run(tmp_path, {}, "--word", "none")
    assert ended.returncode == 1
    assert "OSError: no word" in ended.stderr
    assert ended.stderr.rstrip().endswith("the entry script's init() failed, or a process was killed: see above")


def test_partitions_of_files_are_refused(tmp_path: Path) -> None:
    ended = run(tmp_path, {"partition_keys": ["store"]})
    assert (ended.returncode, "only those of a table are" in ended.stderr) == (1, True)
