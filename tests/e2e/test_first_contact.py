"""A new user: an empty container with Python and an engine, the built wheel, three fresh projects.

``pytest -s`` shows what each step took.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import docker
import pytest

from aml_train.core.docker import buildkit_cli
from scripts.bootstrap.needs import BASE_IMAGE
from scripts.release.commands import tool
from tests.e2e.conftest import ROOT, TIMEOUT
from tests.integration.image.disposable_engine import DisposableEngine, disposable_engine, missing

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        missing(connected=True) is not None, reason=f"no engine of the test's own: {missing(connected=True)}"
    ),
]

PROJECTS = ("src_layout", "flat_script", "sdk_v2")
NAME = "new-user"


@dataclass(frozen=True)
class Machine:
    """The container that the user works in."""

    engine: DisposableEngine

    def type(self, command: str) -> str:
        """Run *command* in the container; return what it prints, and print what it took."""
        begun = time.monotonic()
        argv = ["docker", "exec", NAME, "sh", "-c", command]
        done = subprocess.run(
            self.engine.inside(argv),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        print(f"{time.monotonic() - begun:6.1f} s  {command}")
        assert done.returncode == 0, done.stdout
        return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    argv = [tool("uv"), "build", "--quiet", "--wheel", "--no-build-isolation", f"--python={sys.executable}"]
    subprocess.run([*argv, f"--out-dir={folder}", str(ROOT)], check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def machine(wheel: Path) -> Iterator[Machine]:
    """A container with Python, the engine's socket and client, the wheel, and the projects as their owners have them."""
    mounts = [
        f"--volume={wheel}:/wheels/{wheel.name}:ro",
        f"--volume={ROOT}/tests/projects:/projects:ro",
        f"--volume={shutil.which(buildkit_cli(os.environ).path)}:/usr/local/bin/docker:ro",
    ]
    with disposable_engine(disk=30 << 30, connected=True) as engine, contextlib.closing(docker.from_env()) as host:
        engine.load(BASE_IMAGE, host)
        argv = ["docker", "run", "--detach", f"--name={NAME}", "--network=host", "--env=HOME=/root", *mounts]
        socket = "--volume=/var/run/docker.sock:/var/run/docker.sock"
        subprocess.run(
            engine.inside([*argv, socket, BASE_IMAGE, "sleep", "infinity"]), check=True, capture_output=True
        )
        yield Machine(engine)


def test_three_projects_run_without_an_edit(machine: Machine) -> None:
    machine.type("pip install --quiet --disable-pip-version-check --root-user-action=ignore /wheels/*.whl")
    for name in PROJECTS:
        machine.type(f"cp -r /projects/{name} /root/{name} && cd /root/{name} && aml-train init")
        machine.type(f"cd /root/{name} && aml-train run --events /root/{name}.events")
        events = machine.type(f"cat /root/{name}.events").splitlines()
        assert json.loads(events[-1])["status"] == "passed"
