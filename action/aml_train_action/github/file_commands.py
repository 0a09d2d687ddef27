"""The files through which a step hands on outputs and its summary: ``GITHUB_OUTPUT`` and ``GITHUB_STEP_SUMMARY``.

Source: actions/runner, ``FileCommandManager.cs``: UTF-8; ``name=value`` lines, or ``name<<DELIMITER``, lines, ``DELIMITER``.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from aml_train.core.errors import InvalidError


def _token() -> str:
    return f"aml-train-{secrets.token_hex(16)}"


def clean(value: str) -> str:
    """Return *value* as it can stand in a file command: lines end in LF, NUL and lone surrogates are replaced."""
    text = value.replace("\r\n", "\n").replace("\r", "\n").replace("\x00", "\N{SYMBOL FOR NULL}")
    return text.encode("utf-8", "replace").decode("utf-8")


def entry(name: str, value: str, *, token: Callable[[], str] = _token) -> str:
    """Return the lines that set *name*, always between delimiters that do not occur in the value.

    Raises:
        ValueError: if *name* is no name of an output.
    """
    if not name or any(not (c.isalnum() or c in "-_") for c in name):
        raise ValueError(f"{name!r} cannot be the name of an output")
    text = clean(value)
    delimiter = token()
    while delimiter in text:
        delimiter = token()
    return f"{name}<<{delimiter}\n{text}\n{delimiter}\n"


def append(path: Path | None, text: str) -> None:
    """Append *text* to a file command; without a path (outside GitHub) nothing is done. Other lines are kept.

    Raises:
        InvalidError: if the file cannot be written.
    """
    if path is None:
        return
    try:
        with path.open("a+b") as file:
            start = ""
            if file.tell():
                file.seek(-1, 2)
                start = "" if file.read(1) == b"\n" else "\n"
            file.write((start + text).encode("utf-8"))
    except OSError as error:
        raise InvalidError(f"{path}: cannot be written: {error.strerror}") from error


def write_outputs(path: Path | None, outputs: Mapping[str, str]) -> None:
    """Set every output."""
    append(path, "".join(entry(name, value) for name, value in outputs.items()))
