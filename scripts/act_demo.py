"""``python -m scripts.act_demo``: run a project's workflow under act, with ``uses: org/aml-train@v1`` mapped to this checkout.

act needs a repository, and a runner image that is on the machine; nothing is pulled.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
ACTION = "org/aml-train@v1"
# Holds bash, which is all that the example's steps need; actions/checkout is act's own affair.
RUNNER_IMAGE = "python:3.11-slim-bookworm"


def act_command(repository: Path, environment: Mapping[str, str], *, act: str) -> list[str]:
    """Return act's command line for the push workflows of *repository*. *environment* are variables of the jobs."""
    command = [act, "push", "--directory", str(repository), "--platform", f"ubuntu-latest={RUNNER_IMAGE}"]
    command += ["--pull=false", "--action-offline-mode", "--rm", "--local-repository", f"{ACTION}={ROOT}"]
    for name, value in sorted(environment.items()):
        command += ["--env", f"{name}={value}"]
    return command


def make_repository(project: Path, folder: Path) -> Path:
    """Copy *project* into *folder* and make a repository with one commit of it."""
    repository = folder / project.name
    ignored = shutil.ignore_patterns("__pycache__", "mlruns*", "outputs", ".pytest_cache")
    shutil.copytree(project, repository, ignore=ignored)
    identity = ["-c", "user.name=act-demo", "-c", "user.email=act-demo@example.com"]
    for args in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "The example"]):
        subprocess.run(["git", "-C", str(repository), *args], check=True)
    return repository


def run_act(
    project: Path, environment: Mapping[str, str], *, capture: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run *project*'s push workflows; return how act ended, with its output where *capture* says so."""
    act = str(Path(sys.executable).with_name("act"))
    with tempfile.TemporaryDirectory(prefix="aml-train-act-") as folder:
        repository = make_repository(project, Path(folder))
        # act keeps its settings in the home folder, and asks for them where there are none.
        settings = {"XDG_CONFIG_HOME": folder, "XDG_CACHE_HOME": str(Path(folder) / "cache")}
        (Path(folder) / "act").mkdir()
        (Path(folder) / "act" / "actrc").write_text("", encoding="utf-8")
        return subprocess.run(
            act_command(repository, environment, act=act),
            env={**os.environ, **settings},
            stdout=subprocess.PIPE if capture else None,
            stderr=subprocess.STDOUT if capture else None,
            text=True,
            errors="replace",
            check=False,
        )


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the demo; return act's exit code."""
    parser = argparse.ArgumentParser(prog="scripts.act_demo", description=__doc__)
    parser.add_argument("project", nargs="?", type=Path, default=ROOT / "examples" / "digits")
    project: Path = parser.parse_args(arguments).project
    chosen = {name: value for name, value in os.environ.items() if name.startswith("AML_TRAIN_EMULATOR_")}
    return run_act(project.resolve(), chosen).returncode


if __name__ == "__main__":
    sys.exit(main())
