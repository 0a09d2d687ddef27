"""The sweep of temporary folders that killed runs left."""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from pathlib import Path
from typing import Final

from aml_train.core.events import Listener, Notice
from aml_train.core.temporary import LEASE, Owner, life_of

_NAME: Final = re.compile(r"aml-train-[a-z]+-(?P<owner>[0-9a-f]{12}\.\d{1,18}\.\d{1,18}\.host)-[^/]+")


def sweep_folders(listener: Listener) -> list[Path]:
    """Remove temporary folders of this user whose owner is dead or expired.

    Folders that cannot be removed are reported as warnings, and left to the next sweep.

    Args:
        listener: is passed what was removed.

    Returns:
        what was removed.
    """
    removed: list[Path] = []
    try:
        left = sorted(path for path in Path(tempfile.gettempdir()).iterdir() if _left_over(path))
    except OSError:
        # No folder for temporary files can be used: there is nothing in it, and the one who needs it reports that.
        return removed
    for path in left:
        try:
            shutil.rmtree(path)
        except FileNotFoundError:  # another run's sweep was quicker
            continue
        except OSError as error:
            text = f"A killed run left {path}, which cannot be removed: {error.strerror}"
            listener(Notice(text=text, level="warning"))
            continue
        removed.append(path)
    if removed:
        count = f"{len(removed)} temporary folder{'s' * (len(removed) != 1)}"
        listener(Notice(text=f"Removed what a killed run had left: {count}"))
    return removed


def _left_over(path: Path) -> bool:
    """Return whether *path* is a folder of a run, and no process uses it any more.

    Only folders of this user count: all users may make names in ``/tmp``.
    """
    match = _NAME.fullmatch(path.name)
    owner = Owner.parse(match["owner"]) if match else None
    try:
        status = path.lstat() if owner is not None else None
    except OSError:
        return False
    if owner is None or status is None or not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
        return False
    found = life_of(owner, running=())
    return found == "dead" or (found == "unknown" and status.st_mtime + LEASE < time.time())
