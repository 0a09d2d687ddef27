"""docs/tutorial.md, followed to the letter: its commands, its files and what it says of their results."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.e2e.conftest import ROOT, TIMEOUT, Local

pytestmark = pytest.mark.full

TUTORIAL = (ROOT / "docs/tutorial.md").read_text()


def block(section: int, language: str, nth: int = 0) -> str:
    """Return a code block of a numbered section of the tutorial."""
    (text,) = re.findall(rf"^## {section}\. .*?(?=^## |\Z)", TUTORIAL, re.MULTILINE | re.DOTALL)
    return str(re.findall(rf"^```{language}\n(.*?)^```", text, re.MULTILINE | re.DOTALL)[nth])


@dataclass
class Reader:
    """A reader who types what the tutorial says into one shell after another."""

    local: Local
    programs: Path
    folder: Path

    def type(self, commands: str, *, code: int = 0) -> str:
        """Run *commands*; return what they print."""
        environment = {
            **self.local.environment,
            "PATH": f"{self.programs}{os.pathsep}{os.environ['PATH']}",
            "BROWSER": "echo",
        }
        done = subprocess.run(
            ["bash", "-c", commands],
            cwd=self.folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
        assert done.returncode == code, done.stdout
        return done.stdout

    def edit(self, file: str, old: str, new: str) -> None:
        """Replace what is in *file* once."""
        text = (self.folder / file).read_text()
        assert text.count(old) == 1
        (self.folder / file).write_text(text.replace(old, new))


def install(local: Local, folder: Path) -> Path:
    """Write an `aml-train` that is this checkout's; return its folder."""
    programs = folder / "bin"
    programs.mkdir()
    command = programs / "aml-train"
    command.write_text(f'#!/bin/sh\nexec "{local.python}" -m aml_train "$@"\n')
    command.chmod(0o755)
    return programs


def test_the_tutorial_does_what_it_says(local: Local, tmp_path: Path) -> None:
    reader = Reader(local, install(local, tmp_path), tmp_path)
    assert block(2, "text").strip() in reader.type(block(2, "bash"))
    reader.folder /= "first"
    shown = block(2, "yaml").partition("\n")[2]
    assert shown in (reader.folder / "aml-train.yml").read_text()

    reader.type(block(3, "bash"))
    reader.edit("aml-train.yml", "image:\n", "image:\n  apd: [curl]\n")
    assert re.search(r"aml-train\.yml:9:.*apd.*apt", reader.type("aml-train validate", code=2))
    reader.edit("aml-train.yml", "  apd: [curl]\n", "")

    assert "registered" in reader.type(block(4, "bash"))
    looked = reader.type(block(4, "bash", 1))
    assert re.search(r"^example +1 +1$", looked, re.MULTILINE)
    assert f"http://127.0.0.1:{reader.local.environment['AML_TRAIN_EMULATOR_PORT']}" in looked

    assert "attached" in reader.type(block(5, "bash"))

    missed = reader.type(block(6, "bash"))
    assert missed.splitlines()[-1] == "6"
    assert re.search(r"^example +1 +1$", reader.type("aml-train model list"), re.MULTILINE)

    reader.edit("src/train.py", "x - rate * 2", "x + rate * 2")
    assert "test_a_step_leads_towards_the_minimum" in reader.type("aml-train run", code=4)
    reader.edit("src/train.py", "x + rate * 2", "x - rate * 2")

    reader.edit("aml-train.yml", 'gate:\n  loss: "< 0.01"\n', block(8, "yaml"))
    reader.type("aml-train run --set job.inputs.rate=0.2")
    compared = reader.type(block(8, "bash"))
    assert "loss" in compared
