"""Run programs; the error of one that fails quotes the end of its output."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

_TAIL: Final = 4000


class ReleaseError(Exception):
    """A release cannot continue. The text names what, where, why and the remedy."""


def run(argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str] | None = None, stdin: bytes = b"") -> bytes:
    """Run a program in *cwd*; return its standard output.

    Args:
        argv: the command.
        cwd: its working directory.
        environ: variables in addition to the process's.
        stdin: its standard input.

    Raises:
        ReleaseError: it cannot be started or fails.
    """
    variables = {**os.environ, **(environ or {})}
    try:
        done = subprocess.run(argv, cwd=cwd, env=variables, input=stdin, capture_output=True, check=False)
    except OSError as error:
        raise ReleaseError(f"{argv[0]} cannot be run: {error.strerror}. Install it, or correct PATH.") from error
    if done.returncode != 0:
        said = (done.stderr or done.stdout).decode(errors="replace")[-_TAIL:].strip()
        raise ReleaseError(f"{Path(argv[0]).name} {' '.join(argv[1:3])} failed with {done.returncode}:\n{said}")
    return done.stdout


def show(argv: Sequence[str], *, cwd: Path, environ: Mapping[str, str] | None = None) -> None:
    """Run a program whose output the user sees.

    Raises:
        ReleaseError: it cannot be started or fails.
    """
    try:
        code = subprocess.run(argv, cwd=cwd, env={**os.environ, **(environ or {})}, check=False).returncode
    except OSError as error:
        raise ReleaseError(f"{argv[0]} cannot be run: {error.strerror}. Install it, or correct PATH.") from error
    if code != 0:
        raise ReleaseError(f"{Path(argv[0]).name} {' '.join(argv[1:3])} failed with {code}; its output is above.")


def tool(name: str) -> str:
    """Return the path of a program of this Python's environment, else its name."""
    beside = Path(sys.executable).with_name(name)
    return str(beside) if beside.exists() else name
