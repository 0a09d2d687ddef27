"""The file of a report in the workspace, where a later step uploads it.

A commit may bring its own files and links: the file is made below folders that are no links, and replaces what has its name.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from aml_train.core.errors import InvalidError

FOLDER: Final = "aml-train-report"
"""The folder of all reports, in the workspace; git and the code of a job leave it out."""

NAME: Final = "pr-report.json"
_DIRECTORY: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def write_report(environ: Mapping[str, str], workspace: Path, data: bytes) -> str:
    """Write the report; its owner is that of the workspace.

    Args:
        environ: the step's; steps of one job have separate folders.
        workspace: the checkout.
        data: the report.

    Returns:
        the file, relative to the workspace.

    Raises:
        InvalidError: it cannot be written, or its folder is a link.
    """
    step = re.sub(r"[^A-Za-z0-9_-]", "_", environ.get("GITHUB_ACTION", ""))[:100] or "step"
    path = f"{FOLDER}/{step}/{NAME}"
    try:
        folder = os.open(workspace, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise InvalidError(f"The workspace cannot be opened: {error.strerror}.") from error
    try:
        owner = os.fstat(folder)
        folder = _enter(folder, FOLDER, owner)
        # Git and its clients find the folder clean.
        _put(folder, ".gitignore", b"*\n", owner)
        folder = _enter(folder, step, owner)
        _put(folder, NAME, data, owner)
    except OSError as error:
        raise InvalidError(f"The report {path} cannot be written: {error.strerror}.") from error
    finally:
        os.close(folder)
    return path


def _enter(folder: int, name: str, owner: os.stat_result) -> int:
    """Return the folder *name* below *folder*, which is closed; it is made if missing."""
    try:
        os.mkdir(name, dir_fd=folder)
    except FileExistsError:
        entered = os.open(name, _DIRECTORY, dir_fd=folder)
    else:
        entered = os.open(name, _DIRECTORY, dir_fd=folder)
        _give(entered, owner)
    os.close(folder)
    return entered


def _put(folder: int, name: str, data: bytes, owner: os.stat_result) -> None:
    """Write a new file and rename it to *name*, so that it is whole and no link."""
    temporary = f".{name}.{secrets.token_hex(8)}"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with os.fdopen(os.open(temporary, flags, 0o644, dir_fd=folder), "wb") as file:
        file.write(data)
        _give(file.fileno(), owner)
    os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _give(descriptor: int, owner: os.stat_result) -> None:
    """Give what root has made to the workspace's owner, who must be able to delete it."""
    if os.geteuid() == 0:
        # An engine without root may not know the owner: then everything in the workspace is root's.
        with contextlib.suppress(OSError):
            os.fchown(descriptor, owner.st_uid, owner.st_gid)
