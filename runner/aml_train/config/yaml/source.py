"""Read a text file of the user. Every obstacle is a fault, none an exception."""

from __future__ import annotations

import codecs
import errno
import os
import re
import stat
from pathlib import Path
from typing import Final, Literal

from aml_train.config.yaml.nodes import Faults, Mark, shown

MAX_BYTES: Final = 1024 * 1024
"""Larger files are refused: a configuration of this size is a mistake, such as a path to data."""

LINE_BREAK: Final = re.compile(r"\r\n|[\r\n]")
# Characters that YAML forbids, and separators that editors and YAML count differently as line ends.
_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\ufffe\uffff\ufeff]")
Found = Literal["file", "folder", "other", "missing"]


def kind_of(path: Path) -> tuple[Found, str]:
    """Return the kind of *path* and, if it is no file or folder, why."""
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError) as error:
        return "missing", _reason(error)
    if stat.S_ISREG(mode):
        return "file", ""
    if stat.S_ISDIR(mode):
        return "folder", ""
    return "other", "it is a device, a pipe or a socket"


def absolute(path: Path) -> Path:
    """Return *path* absolute and without ``..``; symbolic links stay as they are."""
    return Path(os.path.abspath(path)) if "\0" not in str(path) else path  # noqa: PTH100 - Path.absolute() keeps `..`


def read_text(path: Path, mark: Mark, file: str, faults: Faults) -> str | None:
    """Read a text file.

    Args:
        path: the file.
        mark: the place that names the file, for a file that cannot be read.
        file: the file's name in faults about its contents.
        faults: takes the faults.

    Returns:
        The text without byte order mark, or None after a fault.
    """
    found, why = kind_of(path)
    if found == "folder":
        why = "it is a folder"
    if found != "file":
        faults.add(mark, f"cannot read `{shown(file, 120)}`", why=why, remedy="name a readable YAML file")
        return None
    try:
        with path.open("rb") as stream:
            data = stream.read(MAX_BYTES + 1)
    except OSError as error:
        faults.add(mark, f"cannot read `{shown(file, 120)}`", why=_reason(error), remedy="name a readable YAML file")
        return None
    if len(data) > MAX_BYTES:
        faults.add(Mark(file=file), "the file is larger than 1 MiB", remedy="name a YAML file, not data")
        return None
    return decode(data, file, faults)


def decode(data: bytes, file: str, faults: Faults) -> str | None:
    """Decode UTF-8 and refuse what YAML cannot hold; None after a fault."""
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        faults.add(Mark(file=file, line=1), "the file is encoded as UTF-16", remedy="save it as UTF-8")
        return None
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as error:
        line = len(LINE_BREAK.findall(data[: error.start].decode("utf-8"))) + 1
        faults.add(
            Mark(file=file, line=line),
            f"the byte 0x{data[error.start]:02x} is not UTF-8",
            remedy="save the file as UTF-8",
        )
        return None
    match = _CONTROL.search(text)
    if match:
        line = len(LINE_BREAK.findall(text[: match.start()])) + 1
        code = ord(match[0])
        faults.add(
            Mark(file=file, line=line),
            f"the file holds the control character U+{code:04X}",
            why="YAML does not allow it",
            remedy="save it as UTF-8, and write such a character as an escape in double quotes",
        )
        return None
    return text


def _reason(error: OSError | ValueError) -> str:
    if not isinstance(error, OSError):
        return "its path holds a NUL character"
    return "it does not exist" if error.errno == errno.ENOENT else (error.strerror or str(error)).lower()
