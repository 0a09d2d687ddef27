"""A client that knows nothing but the environment of a workflow's step."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.support.emulator_process import ROOT, Emulator
from tests.support.oidc_stand_in import REPOSITORY, Provider

CLIENT_SECONDS = 900


@dataclass(frozen=True)
class Ended:
    """How a client ended."""

    code: int
    output: str
    outputs: str


class Workflow:
    """Runs steps against *emulator*, which plays Azure, and *github*."""

    def __init__(self, emulator: Emulator, github: Provider, folder: Path) -> None:
        self.emulator = emulator
        self.github = github
        self.folder = folder

    def environment(self) -> dict[str, str]:
        """Return the environment of a step: proxy and trust, whom to sign in as, no secret."""
        known = self.emulator.environment()
        del known["AZURE_CLIENT_SECRET"]
        outer = {name: os.environ[name] for name in ("DOCKER_HOST", "DOCKER_CONFIG") if name in os.environ}
        paths = os.pathsep.join(str(ROOT / name) for name in ("runner", "action"))
        return {**known, **outer, "PYTHONPATH": paths, "HOME": str(self.folder)}

    def action(self, project: Path, *, changes: dict[str, str] | None = None, **inputs: str) -> Ended:
        """Run the action in *project* as a step."""
        outputs = self.folder / "outputs"
        outputs.write_text("")
        given = {f"INPUT_{name.replace('_', '-').upper()}": value for name, value in inputs.items()}
        environment = {
            **self.environment(),
            **self.github.environment(),
            **given,
            "GITHUB_WORKSPACE": str(project),
            "GITHUB_OUTPUT": str(outputs),
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_EVENT_NAME": "push",
            **(changes or {}),
        }
        ended = self._run([sys.executable, "-m", "aml_train_action"], project, environment)
        return Ended(ended.code, ended.output, outputs.read_text())

    def command(self, project: Path, *args: str, **variables: str) -> Ended:
        """Run `aml-train` in *project*."""
        argv = [sys.executable, "-m", "aml_train", *args]
        return self._run(argv, project, {**self.environment(), **variables})

    def _run(self, argv: list[str], project: Path, environment: dict[str, str]) -> Ended:
        done = subprocess.run(
            argv,
            env=environment,
            cwd=project,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=CLIENT_SECONDS,
            check=False,
        )
        return Ended(done.returncode, done.stdout, "")
