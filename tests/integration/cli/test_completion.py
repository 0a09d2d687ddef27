"""Completion in real shells, by the scripts that ``aml-train completion`` prints."""

from __future__ import annotations

import os
import pty
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

SECONDS = 120.0


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"{shell} is not installed")


@pytest.fixture
def environment(tmp_path: Path) -> Mapping[str, str]:
    """A folder with a configuration, which is the working directory, and `aml-train` on the path."""
    (tmp_path / "aml-train.yml").write_text("targets: {azure: {workspace: w}}\n")
    programs = tmp_path / "bin"
    programs.mkdir()
    program = programs / "aml-train"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m aml_train "$@"\n')
    program.chmod(0o755)
    paths = {"PATH": f"{programs}:{os.environ['PATH']}", "HOME": str(tmp_path), "TERM": "dumb", "LANG": "C.UTF-8"}
    return {**paths, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}


def run(argv: list[str], environment: Mapping[str, str]) -> str:
    done = subprocess.run(
        argv, env=environment, cwd=environment["HOME"], capture_output=True, text=True, timeout=SECONDS, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("aml-train promo", "promote"),
        ("aml-train jobs li", "list"),
        ("aml-train run --target a", "azure"),
        ("aml-train completion f", "fish"),
    ],
)
@pytest.mark.parametrize("shell", ["bash", pytest.param("fish", marks=needs("fish"))])
def test_bash_and_fish_complete(shell: str, words: str, found: str, environment: Mapping[str, str]) -> None:
    if shell == "fish":
        script = f"aml-train completion fish | source; complete -C '{words}'"
    else:
        script = (
            f'eval "$(aml-train completion bash)"; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1));'
            ' _aml_train_completion aml-train; printf "%s\\n" "${COMPREPLY[@]}"'
        )
    # fish shows the help of a word behind a tab
    assert [line.partition("\t")[0].strip() for line in run([shell, "-c", script], environment).splitlines()] == [
        found
    ]


@needs("zsh")
def test_zsh_completes_at_a_prompt(environment: Mapping[str, str]) -> None:
    terminal, other = pty.openpty()
    zsh = subprocess.Popen(
        ["zsh", "-f", "-i"],
        env=environment,
        cwd=environment["HOME"],
        stdin=other,
        stdout=other,
        stderr=other,
        start_new_session=True,
    )
    try:
        os.write(
            terminal, b'autoload -Uz compinit; compinit -u -D; eval "$(aml-train completion zsh)"; print rea""dy\n'
        )
        received = until(terminal, b"ready\r\n")
        # Completed by Tab; then the line is printed in capital letters, which the typed one does not have.
        os.write(terminal, b"aml-train promo\t")
        received += until(terminal, b"promote")
        os.write(terminal, b'\x01print -r -- ${(U):-"\x05"}\n')
        assert b"AML-TRAIN PROMOTE" in until(terminal, b"AML-TRAIN PROMOTE"), received
    finally:
        zsh.kill()
        zsh.wait()
        os.close(terminal)
        os.close(other)


def until(terminal: int, wanted: bytes) -> bytes:
    """Read until *wanted* is there, and return everything that was read."""
    received, end = b"", time.monotonic() + SECONDS
    while wanted not in received:
        assert time.monotonic() < end, received
        ready, _, _ = select.select([terminal], [], [], 1.0)
        if ready:
            received += os.read(terminal, 65536)
    return received
