"""An emulator as a process, with the aml-train of this checkout as its client."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.integration.conftest import BASE
from tests.support.emulator_process import Emulator, running

SECONDS = 900


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"))) as service:
        yield service


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a command ended."""

    code: int
    output: str
    errors: str
    events: tuple[dict[str, Any], ...]

    def log(self, of: str = "") -> list[str]:
        """Return the lines that the job wrote."""
        return [
            event["text"]
            for event in self.events
            if event["event"] == "log-line" and event["source"] == "job" and of in event["origin"]
        ]

    @property
    def job(self) -> str:
        """The job's name."""
        return str(next(event["job"] for event in self.events if event["event"] == "job-named"))


class Running:
    """A command that may still run."""

    def __init__(self, emulator: Emulator, folder: Path, arguments: tuple[str, ...], events: Path | None) -> None:
        self.events = events
        self.process = subprocess.Popen(
            [sys.executable, "-m", "aml_train", *arguments],
            cwd=folder,
            env=emulator.workspace_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def ended(self) -> Ended:
        """Wait for the end."""
        output, errors = self.process.communicate(timeout=SECONDS)
        lines = self.events.read_text().splitlines() if self.events is not None and self.events.exists() else ()
        return Ended(
            code=self.process.returncode,
            output=output,
            errors=errors,
            events=tuple(json.loads(line) for line in lines),
        )


@dataclass(frozen=True)
class AmlTrain:
    """The command line, for the workspace on the emulator, which it takes for one in Azure."""

    emulator: Emulator
    folder: Path

    def start(self, folder: Path, *arguments: str) -> Running:
        """Start any command in *folder*."""
        return Running(self.emulator, folder, arguments, None)

    def submit(
        self, folder: Path, *arguments: str, image: str | None = BASE, options: tuple[str, ...] = ()
    ) -> Running:
        """Start ``submit`` of the command that *arguments* are."""
        number = len(list(self.folder.iterdir()))
        events = self.folder / f"{number}.jsonl"
        events.touch()
        place = ("--image", image) if image else ()
        where = ("--target", "azure", "-c", "local-cluster", *place, "--events", str(events))
        return Running(self.emulator, folder, ("submit", *where, *options, "--", *arguments), events)


@pytest.fixture
def aml_train(emulator: Emulator, tmp_path: Path) -> AmlTrain:
    folder = tmp_path / "events"
    folder.mkdir()
    return AmlTrain(emulator, folder)
