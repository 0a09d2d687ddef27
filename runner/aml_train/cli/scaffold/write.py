"""Write files whole or not at all, and never over others unasked."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

from aml_train.core.errors import InvalidError


def write_files(directory: Path, files: Mapping[str, str], *, force: bool) -> None:
    """Write texts to their paths.

    Args:
        directory: where the paths start from.
        files: texts by path, with ``/``; written in UTF-8, in this order.
        force: replace what is there.

    Raises:
        InvalidError: one of them exists, and *force* is not given: then none is written.
        OSError: a folder or file cannot be written.
    """
    there = [path for path in files if os.path.lexists(directory / path)]
    if there and not force:
        raise InvalidError(
            f"{', '.join(there)} {'is' if len(there) == 1 else 'are'} there already; nothing was written.",
            hint="Replace with --force, or only look with --dry-run.",
        )
    for path, text in files.items():
        _write(directory / path, text, force=force)


def _write(path: Path, text: str, *, force: bool) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    made = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8", newline="\n") as file:
            file.write(text)
        mask = os.umask(0)
        os.umask(mask)
        made.chmod(0o666 & ~mask)
        if force:
            made.replace(path)
        else:
            try:
                # A link, unlike a renaming, fails where somebody has written the file in the meantime.
                path.hardlink_to(made)
            except FileExistsError as error:
                raise InvalidError(f"{path} appeared in the meantime; it was left as it is.") from error
    finally:
        with contextlib.suppress(FileNotFoundError):
            made.unlink()
