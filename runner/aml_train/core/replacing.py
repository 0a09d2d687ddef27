"""Replace a file as a whole: a reader sees the old contents or the new ones."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

from aml_train.core.errors import InvalidError


def replace_file(path: Path, content: bytes) -> None:
    """Write *content* to *path* as a whole; a failure leaves the file as it was.

    Raises:
        InvalidError: the folder does not exist, or may not be written to.
    """
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise _unwritable(path, error) from error
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        # As open() would have made it: a temporary file can be read by its owner alone.
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o666 & ~_mask()
        os.chmod(name, mode)  # noqa: PTH101 - the name of mkstemp
        os.replace(name, path)  # noqa: PTH105
    except OSError as error:
        with contextlib.suppress(OSError):
            os.unlink(name)  # noqa: PTH108
        raise _unwritable(path, error) from error


def _mask() -> int:
    """Return the process's mask of file modes, which can only be read by setting it."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask


def _unwritable(path: Path, error: OSError) -> InvalidError:
    return InvalidError(
        f"{path} cannot be written: {error.strerror}.", hint="Create its folder, or name another file with -o."
    )
