"""A step of the action, as a process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from tests.support.emulator_process import ROOT

SOURCES = os.pathsep.join(str(ROOT / name) for name in ("runner", "action"))


def act(workspace: Path, variables: Mapping[str, str], *arguments: str) -> str:
    """Run the action with *variables* and nothing else of the environment; return its log."""
    done = subprocess.run(
        [sys.executable, "-u", "-B", "-m", "aml_train_action", *arguments],
        env={
            "PATH": os.environ["PATH"],
            "PYTHONPATH": SOURCES,
            "GITHUB_WORKSPACE": str(workspace),
            **variables,
        },
        cwd=workspace,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout
