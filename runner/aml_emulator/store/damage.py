"""Faults of disk, database and blobs: at start, in health, behind failed requests.

Error codes are those of https://www.sqlite.org/rescode.html.
"""

from __future__ import annotations

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from azure.core.exceptions import AzureError

logger = logging.getLogger(__name__)

LEAST_FREE_BYTES = 16 * 1024 * 1024
"""With less room than this the disk counts as full: one append to a log takes up to 4 MiB, the write-ahead log as much."""

AZURITE_FILES = ("__azurite_db_blob__.json", "__azurite_db_blob_extent__.json")
"""Azurite's files: the list of blobs, and of where their contents are."""

CLEAN = "Remove what is not needed: aml-train emulator clean, docker system df"
AFRESH = "Restore the data folder from a copy, or begin afresh: aml-train emulator reset"

_MAGIC = b"SQLite format 3\0"
_FULL = frozenset({sqlite3.SQLITE_FULL})
_DAMAGED = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})
_NO_ROOM = frozenset({errno.ENOSPC, errno.EDQUOT})


@dataclass(frozen=True)
class Failure:
    """A failure of the state or its disk: a code, and a message for the user."""

    code: str
    message: str


class DamageError(ValueError):
    """State that cannot be used; the message says what and what to do."""


def check_before_start(data: Path) -> None:
    """Return if the state of a data folder can be used; a folder without any is fine.

    Raises:
        DamageError: the database or Azurite's files are not whole.
    """
    problem = database_problem(data / "store.db") or blobs_problem(data / "blobs")
    if problem is not None:
        raise DamageError(problem)


def database_problem(path: Path) -> str | None:
    """Return what is wrong with the database's file, None for nothing or no file.

    Its header says how many pages it has at least (https://www.sqlite.org/fileformat.html#the_database_header).
    """
    try:
        size = path.stat().st_size
        with path.open("rb") as file:
            head = file.read(32)
    except FileNotFoundError:
        return None
    except OSError as error:
        return f"the database {path} cannot be read: {error.strerror}"
    if not head and _has_log(path):
        # Nothing has been moved from the write-ahead log into the file yet.
        return None
    if not head.startswith(_MAGIC):
        state = "empty" if size == 0 else "not a database"
        return f"the database {path} is {state}. {AFRESH}"
    page_size = int.from_bytes(head[16:18], "big")
    expected = int.from_bytes(head[28:32], "big") * (65536 if page_size == 1 else page_size)
    if size < expected:
        return f"the database {path} is truncated: it has {size} of at least {expected} bytes. {AFRESH}"
    return None


def blobs_problem(folder: Path) -> str | None:
    """Return what is wrong with Azurite's files, None for nothing or no files.

    Azurite takes an empty file for an empty account, and forgets every blob. Each file holds one object of JSON.
    """
    for path in (folder / name for name in AZURITE_FILES):
        try:
            with path.open("rb") as file:
                first = file.read(1)
                file.seek(max(0, path.stat().st_size - 16))
                last = file.read().rstrip()[-1:]
        except FileNotFoundError:
            continue
        if (first, last) != (b"{", b"}"):
            state = "empty" if not first else "cut off or overwritten"
            return f"Azurite's file {path} is {state}: the blobs that it listed would be lost. {AFRESH}"
    return None


def disk_problem(data: Path) -> str | None:
    """Return that the disk of the data folder is full, None where there is room."""
    found = os.statvfs(data)
    free = found.f_bavail * found.f_frsize
    if free < LEAST_FREE_BYTES:
        return f"the disk of {data} is full: {free // 1024} KiB are free. {CLEAN}"
    if found.f_files and not found.f_favail:
        return f"the disk of {data} has no room for further files. {CLEAN}"
    return None


def state_problems(data: Path, ping_blobs: Callable[[], None]) -> Sequence[str]:
    """Return all faults in the state of a running service, as sentences."""
    from azure.core.exceptions import AzureError

    found = [disk_problem(data), database_problem(data / "store.db")]
    try:
        ping_blobs()
    except AzureError as error:
        found.append(f"Blob storage (Azurite) fails: {_said(error)}")
    return [one for one in found if one is not None]


def failure_of(error: Exception, data: Path | None, *, afresh: str = AFRESH) -> Failure | None:
    """Return how the state or its disk caused *error*, None for another cause.

    Args:
        afresh: the remedy for a damaged database.
    """
    from azure.core.exceptions import AzureError

    problem = disk_problem(data) if data is not None else None
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", 0) & 0xFF
        if code in _FULL or (problem and code == sqlite3.SQLITE_IOERR):
            return _full(problem)
        if code in _DAMAGED:
            return Failure("StateDamaged", f"The local AzureML's database is damaged ({error}). {afresh}.")
        if code == sqlite3.SQLITE_IOERR:
            return Failure("StateDamaged", f"The local AzureML's database cannot be read or written ({error}).")
    if isinstance(error, OSError) and error.errno in _NO_ROOM:
        return _full(problem)
    if isinstance(error, AzureError):
        if problem:
            return _full(problem)
        return Failure("StorageFailed", f"The local AzureML's Blob storage (Azurite) failed: {_said(error)}.")
    return None


def is_storage_fault(error: Exception) -> bool:
    """Return whether the database, the disk or Blob storage failed.

    The same may succeed later: when the disk has room, for example.
    """
    from azure.core.exceptions import AzureError, HttpResponseError

    if isinstance(error, HttpResponseError):
        return error.status_code is None or error.status_code >= 500
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM | {errno.EIO}
    return isinstance(error, sqlite3.OperationalError | AzureError)


def _has_log(path: Path) -> bool:
    log = path.with_name(f"{path.name}-wal")
    return log.exists() and log.stat().st_size > 0


def _full(problem: str | None) -> Failure:
    text = problem or f"the disk is full. {CLEAN}"
    return Failure("InsufficientStorage", f"The local AzureML cannot store anything: {text}.")


def _said(error: AzureError) -> str:
    return str(error.message).splitlines()[0][:300] if error.message else type(error).__name__
