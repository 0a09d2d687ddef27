"""The end of a Python of a job: what azureml-core still holds is sent, whatever the script does, and nothing else changes.

azureml-core is played by a package that holds values as it does and "sends" them into a file, by an executor as its own; the real one
is in :mod:`tests.integration.emulator.test_v1`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from aml_emulator.executor import launch
from aml_emulator.executor.content import PYTHON_FILES

pytestmark = pytest.mark.full

CORE = """
import os, queue, threading
from concurrent.futures import ThreadPoolExecutor

POOL = ThreadPoolExecutor(2)


def send(value):
    with open(os.environ["SENT"], "a") as file:
        file.write(f"{value}\\n")


class _RunBase:
    _registered_kill_handlers = queue.Queue()

    def __init__(self):
        self.held = []
        self._registered_kill_handlers.put(self.flush)

    def log(self, value):
        self.held.append(value)

    def flush(self, timeout):
        for value in self.held:
            POOL.submit(send, value).result(timeout)

    @classmethod
    def _kill(cls, timeout=40):
        print("Cleaning up all outstanding Run operations")
        while not cls._registered_kill_handlers.empty():
            cls._registered_kill_handlers.get_nowait()(timeout)
"""
BEGIN = "from azureml._run_impl.run_base import _RunBase\nrun = _RunBase()\nrun.log(0.99)\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the played azureml-core, and the hook where a job has it."""
    package = tmp_path / "core" / "azureml" / "_run_impl"
    package.mkdir(parents=True)
    (package / "run_base.py").write_text(CORE)
    hook = tmp_path / "hook"
    hook.mkdir()
    for name, path in PYTHON_FILES.items():
        shutil.copy(path, hook / name)
    return tmp_path


def python(
    folder: Path, script: str, *, core: bool = True, more: str = "", hook: bool = True
) -> tuple[int, str, str, list[str]]:
    """Run *script* as a job's Python does; return its status, what it wrote, and what was sent."""
    path = [*([str(folder / "hook")] * hook), *([str(folder / "core")] if core else []), *([more] if more else [])]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path), "SENT": str(folder / "sent")}
    done = subprocess.run(
        [sys.executable, "-c", script],
        env=environment,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    sent = (folder / "sent").read_text().split() if (folder / "sent").exists() else []
    return done.returncode, done.stdout, done.stderr, sent


@pytest.mark.parametrize(
    ("end", "status", "values"),
    [
        ("", 0, ["0.99"]),
        ("run.log(0.1)", 0, ["0.99", "0.1"]),
        ("raise SystemExit", 0, ["0.99"]),
        ("import sys; sys.exit(3)", 3, ["0.99"]),
        ("raise ValueError('it diverged')", 1, ["0.99"]),
        ("import threading; threading.Timer(0.2, run.log, [0.1]).start()", 0, ["0.99", "0.1"]),
        ("other = _RunBase(); other.log(0.1)", 0, ["0.99", "0.1"]),
    ],
)
def test_what_is_held_at_the_end_is_sent(folder: Path, end: str, status: int, values: list[str]) -> None:
    code, _, errors, sent = python(folder, BEGIN + end)
    assert (code, sent) == (status, values)
    assert ("ValueError: it diverged" in errors) == ("diverged" in end)


def test_the_users_own_sitecustomize_is_loaded_and_the_path_is_theirs(folder: Path) -> None:
    own = folder / "own"
    own.mkdir()
    (own / "sitecustomize.py").write_text("import builtins\nbuiltins.theirs = 'loaded'\n")
    script = (
        BEGIN
        + "import sitecustomize, sys\nprint(theirs, sitecustomize.__file__, any('hook' in one for one in sys.path))"
    )
    code, output, _, sent = python(folder, script, more=str(own))
    assert (code, output, sent) == (0, f"loaded {own / 'sitecustomize.py'} False\n", ["0.99"])


def test_the_launcher_puts_a_path_file_beside_azureml_core_alone(folder: Path) -> None:
    for name, package in (("with", "azureml/core"), ("without", "azureml/mlflow")):
        (folder / name / "bin").mkdir(parents=True)
        program = folder / name / "bin" / ("python" if name == "with" else "python3")
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
        (folder / name / "lib" / "python3.9" / "site-packages" / package).mkdir(parents=True)
    (folder / "with" / "local" / "lib" / "python3.9" / "dist-packages" / "azureml" / "core").mkdir(parents=True)
    path = f"{folder / 'without' / 'bin'}:{folder / 'with' / 'bin'}:/usr/bin:/bin"
    words = launch.argv_once('echo "$PYTHONPATH"; echo "${aml_site-unset}"')
    done = subprocess.run(words, env={"PATH": path, "PYTHONPATH": "/own"}, capture_output=True, text=True, check=True)
    assert done.stdout == f"{launch.PYTHON_FOLDER}:/own\nunset\n"
    found = sorted(str(one.relative_to(folder).parent) for one in folder.rglob("aml-run-flush.pth"))
    assert found == ["with/lib/python3.9/site-packages", "with/local/lib/python3.9/dist-packages"]


def test_azuremls_own_switch_holds_and_an_abrupt_end_sends_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert python(folder, BEGIN + "import os; os._exit(0)")[3] == []
    monkeypatch.setenv("AZUREML_DISABLE_RUN_KILL_SIGNAL", "true")
    assert python(folder, BEGIN)[3] == []
