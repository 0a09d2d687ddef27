"""The command line as a process, where this machine gives it less than it needs."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aml_train.core.events import Event
from aml_train.core.sweep import sweep_folders

COMMAND = [sys.executable, "-m", "aml_train"]
QUIET = ("Traceback", "Exception ignored", "fault of aml-train")


def _run(command: str, directory: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a shell command, in which ``$AML`` is the command line."""
    outer = {**os.environ, "AML": " ".join(COMMAND), **environment}
    ended = subprocess.run(
        ["bash", "-c", command], cwd=directory, env=outer, capture_output=True, text=True, check=False, timeout=120
    )
    assert not any(word in ended.stdout + ended.stderr for word in QUIET), ended.stderr
    return ended


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "job.yml").write_text(
        "command: python train.py\ncode: .\nenvironment: azureml:e:1\ndisplay_name: Größe · 日本\n"
    )
    (tmp_path / "train.py").touch()
    return tmp_path


def test_standard_output_on_a_full_disk(project: Path) -> None:
    ended = _run("$AML validate --schema > /dev/full", project)
    assert ended.returncode == 1
    assert ended.stderr == "aml-train: the output cannot be written: No space left on device\n"
    assert _run("$AML validate > /dev/full 2>&1", project).returncode == 1


def test_a_reader_that_is_gone(project: Path) -> None:
    ended = _run("$AML validate --schema | true; exit ${PIPESTATUS[0]}", project)
    assert (ended.returncode, ended.stderr) == (1, "")


def test_streams_that_are_closed(project: Path) -> None:
    assert _run("$AML validate >&-", project).returncode == 0
    assert _run("$AML validate >&- 2>&-", project).returncode == 0


@pytest.mark.parametrize(
    "environment", [{"PYTHONIOENCODING": "ascii"}, {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"}]
)
def test_an_encoding_without_our_signs(project: Path, environment: dict[str, str]) -> None:
    (project / "aml-train.yml").write_text("job: job.yml\nmodel: {name: größe · 日本, path: outputs/m}\n")
    ended = _run("$AML validate", project, **environment)
    assert ended.returncode == 2
    assert "it is `gr??e ? ??`" in ended.stderr
    assert _run("$AML --help", project, **environment).returncode == 0
    assert _run("$AML validate --schema", project, **environment).returncode == 0


def test_a_working_directory_that_is_gone(project: Path) -> None:
    gone = project / "gone"
    gone.mkdir()
    ended = _run(f"rmdir {gone} && $AML validate", gone)
    assert ended.returncode == 2
    assert ended.stderr.startswith("aml-train: The working directory does not exist any more.\nChange into")
    gone.mkdir()
    assert _run(f"rmdir {gone} && $AML --version", gone).returncode == 0


def test_validating_imports_no_sdk_and_nothing_that_is_slow() -> None:
    program = "import sys, aml_train.__main__, aml_train.cli.main, aml_train.cli.validate; print(*sys.modules)"
    ended = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True)
    found = set(ended.stdout.split())
    assert "aml_train.gate.rules" in found
    slow = {"azure", "azureml", "mlflow", "sigstore", "rich", "docker", "requests", "urllib3", "jinja2"}
    assert not slow & found


@pytest.fixture
def full(tmp_path: Path) -> Iterator[Path]:
    """A disk with room for nothing."""
    place = tmp_path / "full"
    place.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(place)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("mounting a small disk needs root")
    try:
        with (place / "filler").open("wb", buffering=0) as file, contextlib.suppress(OSError):
            while file.write(b"x" * 4096):
                pass
        yield place
    finally:
        subprocess.run(["umount", str(place)], check=True)


def test_a_full_folder_for_temporary_files(full: Path) -> None:
    program = (
        "import tempfile\n"
        f"tempfile.tempdir = {str(full)!r}\n"
        "from aml_train.core.temporary import temporary_folder\n"
        "def cli(**_options):\n"
        "    with temporary_folder('build') as folder:\n"
        "        (folder / 'Dockerfile').write_text('FROM x' * 4096)\n"
        "import aml_train.cli.main\n"
        "aml_train.cli.main.cli = cli\n"
        "from aml_train.__main__ import main\n"
        "main()\n"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 3, ended.stderr
    assert f"{full}" in ended.stderr
    assert "cannot be written: No space left on device\n" in ended.stderr
    assert "TMPDIR" in ended.stderr


HOLD = """
import sys
from pathlib import Path
from aml_train.core.temporary import temporary_folder

with temporary_folder("build") as folder:
    (folder / "docker").mkdir()
    print(folder, flush=True)
    sys.stdin.read()
"""


def test_the_build_context_of_a_killed_run_is_swept_and_that_of_a_living_one_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    runs = [
        subprocess.Popen(
            [sys.executable, "-c", HOLD], env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        for _ in range(2)
    ]
    try:
        folders = [Path(run.stdout.readline().strip()) for run in runs if run.stdout is not None]
        runs[0].kill()
        runs[0].wait()
        told: list[Event] = []
        assert sweep_folders(told.append) == [folders[0]]
        assert [folder.exists() for folder in folders] == [False, True]
        assert "1 temporary folder" in str(told[0])
    finally:
        for run in runs:
            run.communicate()
    assert list(tmp_path.iterdir()) == []
