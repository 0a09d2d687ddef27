"""The prologue of a job as shells run it: bash, and dash, which is the plainest of them."""

from __future__ import annotations

import os
import subprocess
import uuid
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from aml_train.config.sections.code import DataLink, SetupCommand
from aml_train.jobs.setup import add_setup, script

ODD = '/mnt/it\'s "$HOME" `id` \\ ü/file'


@pytest.fixture(params=["bash", "dash"])
def shell(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def run_id() -> Iterator[str]:
    name = f"test-{uuid.uuid4().hex[:8]}"
    yield name
    for file in Path("/tmp").glob(f"aml-train-{name}-*"):
        file.unlink()


def start(shell: str, command: str, folder: Path, run_id: str, path: str = "") -> subprocess.Popen[str]:
    environment = {"PATH": path or os.environ["PATH"], "AZUREML_RUN_ID": run_id}
    return subprocess.Popen(
        [shell, "-c", command],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def ended(process: subprocess.Popen[str]) -> tuple[int, str]:
    output, _ = process.communicate(timeout=600)
    return process.returncode, output


def commands(*given: str) -> Sequence[SetupCommand]:
    return [
        SetupCommand(command=command, where=f"aml-train.yml:{number}")
        for number, command in enumerate(given, start=3)
    ]


def link(local: str) -> DataLink:
    return DataLink(local=local, path="azureml:data:1", where="aml-train.yml:9")


def test_setup_runs_once_for_all_processes_of_a_node(shell: str, tmp_path: Path, run_id: str) -> None:
    before = script(commands("sleep 0.3", "printf '%s\\n' \"it's once\" >>seen"), [], {})
    running = [start(shell, before + "cat seen", tmp_path, run_id) for _ in range(5)]
    endings = [ended(process) for process in running]
    assert {code for code, _ in endings} == {0}
    assert all(output.endswith("it's once\n") for _, output in endings)
    assert (tmp_path / "seen").read_text() == "it's once\n"
    assert sum("aml-train: setup 2 of 2: printf" in output for _, output in endings) == 1


@pytest.mark.full
def test_a_failure_ends_every_process_with_its_code(shell: str, tmp_path: Path, run_id: str) -> None:
    before = script(commands("true", "sleep 0.3\nfalse; exit 9", "touch never"), [], {})
    running = [start(shell, before + "touch never", tmp_path, run_id) for _ in range(3)]
    endings = sorted((ended(process) for process in running), key=lambda ending: -len(ending[1]))
    assert [code for code, _ in endings] == [1, 1, 1]
    assert "aml-train: setup 2 of 3 failed with exit code 1: sleep 0.3\nfalse; exit 9" in endings[0][1]
    assert all("failed in another process of this node" in output for _, output in endings[1:])
    assert not (tmp_path / "never").exists()


@pytest.mark.full
def test_data_is_linked_whatever_it_is_called(shell: str, tmp_path: Path, run_id: str) -> None:
    target = tmp_path / "mounted"
    target.mkdir()
    (target / "a.txt").write_text("data")
    prepared = add_setup(
        {"command": "cat 'da ta/it'\"'\"'s $x/a.txt'; readlink odd"}, [], [link("da ta/it's $x"), link("odd")]
    )
    command = str(prepared["command"])
    command = command.replace("${{inputs.data_da_ta_it_s_x}}", str(target)).replace("${{inputs.data_odd}}", ODD)
    assert "${{" not in command
    assert ended(start(shell, command, tmp_path, run_id)) == (0, f"data{ODD}\n")


@pytest.mark.full
def test_data_never_replaces_what_is_there(shell: str, tmp_path: Path, run_id: str) -> None:
    (tmp_path / "data").mkdir()
    before = script([], [link("data")], {"data": "x"}).replace("${{inputs.x}}", "/mnt")
    code, output = ended(start(shell, before + "touch never", tmp_path, run_id))
    assert code == 1
    assert "aml-train: data: cannot link ./data: there is such a file or folder" in output
    assert not (tmp_path / "never").exists()


@pytest.mark.full
def test_an_image_without_flock_is_told_what_it_lacks(tmp_path: Path, run_id: str) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "cut").symlink_to("/usr/bin/cut")
    before = script(commands("true"), [], {})
    code, output = ended(start("/bin/sh", before, tmp_path, run_id, str(tools)))
    assert (code, "install util-linux" in output) == (1, True)
