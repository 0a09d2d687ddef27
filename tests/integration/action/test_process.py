"""The action's process, as /proc shows it, and what the programs that it starts get of its environment."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.integration.action.step import SOURCES, act

SECRETS = {
    "ACTIONS_ID_TOKEN_REQUEST_TOKEN": "the-request-token",
    "ACTIONS_RUNTIME_TOKEN": "the-runtime-token",
    "GITHUB_TOKEN": "the-github-token",
    "INPUT_CLIENT-SECRET": "the-client-secret",
    "INPUT_CLIENT-ID": "the-client-id",
    "INPUT_TENANT-ID": "the-tenant-id",
    "AZURE_STORAGE_KEY": "the-storage-key",
}
#: A git that notes what it was given, and what the process shows that has started it; it does its work then.
GIT = """#!{python}
import os, sys
parent = f"/proc/{{os.getppid()}}"
with open({said!r} + "/started", "a") as file:
    file.write(repr(dict(os.environ)) + open("/proc/self/environ").read() + "\\n")
with open({said!r} + "/process", "a") as file:
    file.write(open(parent + "/environ").read() + "\\n")
    file.write(repr([os.readlink(parent + "/fd/" + one) for one in os.listdir(parent + "/fd")]) + "\\n")
os.execv({git!r}, ["git", *sys.argv[1:]])
"""


@pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="this system shows no environment of a process")
def test_no_token_is_in_the_environment_of_the_process_or_of_what_it_starts(tmp_path: Path) -> None:
    said, bin_folder, workspace = tmp_path / "said", tmp_path / "bin", tmp_path / "workspace"
    for folder in (said, bin_folder, workspace):
        folder.mkdir()
    (bin_folder / "git").write_text(GIT.format(python=sys.executable, said=str(said), git=shutil.which("git")))
    (bin_folder / "git").chmod(0o755)
    (workspace / "job.yml").write_text("command: echo\nenvironment: azureml:e:1\ncompute: azureml:c\n")
    variables = {
        "PATH": f"{bin_folder}:{os.environ['PATH']}",
        "GITHUB_OUTPUT": str(tmp_path / "outputs"),
        "INPUT_COMMAND": "plan",
        **SECRETS,
    }
    output = act(workspace, variables)
    for name in ("started", "process"):
        shown = (said / name).read_text()
        assert "GITHUB_WORKSPACE" in shown
        assert not [name for name, value in SECRETS.items() if value in shown]
    assert "memfd" not in (said / "process").read_text()
    masked = [line for line in output.splitlines() if not line.startswith("::add-mask::")]
    assert not [name for name, value in SECRETS.items() if any(value in line for line in masked)]
    assert "add-mask::the-client-secret" in output, "the values have arrived"


def test_the_post_action_starts_the_same_way(tmp_path: Path) -> None:
    assert "The step left no job behind." in act(tmp_path, {"STATE_status": "passed", **SECRETS}, "post")


@pytest.mark.parametrize(
    ("program", "module"),
    [(("aml_train_action",), "bisect"), (("aml_train_action", "post"), "bisect"), (("aml_train", "plan"), "click")],
)
def test_an_interruption_of_the_imports_is_no_traceback(
    tmp_path: Path, program: tuple[str, ...], module: str
) -> None:
    (tmp_path / f"{module}.py").write_text("import pathlib, time\npathlib.Path('held').touch()\ntime.sleep(60)\n")
    process = subprocess.Popen(
        [sys.executable, "-B", "-m", *program],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": f"{tmp_path}:{SOURCES}", **SECRETS},
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    while not (tmp_path / "held").exists() and process.poll() is None:
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=120)
    assert (process.returncode, output) == (7, "aml-train: interrupted\n")
