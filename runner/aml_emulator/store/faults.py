"""Faults of the database, the disk and Blob storage.

Error codes are those of https://www.sqlite.org/rescode.html.
"""

from __future__ import annotations

import errno
import sqlite3
from typing import Final

from azure.core.exceptions import AzureError, HttpResponseError

_NO_ROOM: Final = frozenset({errno.ENOSPC, errno.EDQUOT})


def is_disk_full(error: Exception) -> bool:
    """Return whether an error says that there is no room."""
    if isinstance(error, sqlite3.Error):
        return getattr(error, "sqlite_errorcode", 0) & 0xFF == sqlite3.SQLITE_FULL
    return isinstance(error, OSError) and error.errno in _NO_ROOM


def is_storage_fault(error: Exception) -> bool:
    """Return whether the database, the disk or Blob storage failed.

    The same may succeed later: when the disk has room, for example.
    """
    if isinstance(error, HttpResponseError):
        return error.status_code is None or error.status_code >= 500
    if isinstance(error, OSError):
        return error.errno in _NO_ROOM | {errno.EIO}
    return isinstance(error, sqlite3.OperationalError | AzureError)
