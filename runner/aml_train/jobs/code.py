"""Checks of the code before it is sent: its size, and whether the checkout has all of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from typing import Final

from aml_train.config.sections.code import CodeConfig
from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.core.text import size

_MOST_NAMED: Final = 5
_OFFENCE: Final = 0.05
"""The part of the whole that something must have to be worth naming."""


def check_code(files: FileSet, limits: CodeConfig, ignore_file: str | None) -> None:
    """Check that the code is not more than is meant to be sent.

    Args:
        files: the snapshot.
        limits: the bounds.
        ignore_file: the ignore file that counts in the folder; None where there is none.

    Raises:
        InvalidError: it is more; the largest offenders are named, with the lines that leave them out.
    """
    count, whole = len(files.entries), files.size
    sizes, counts = _weights(files.entries)
    exceeded, named = [], dict[str, None]()
    if whole > limits.max_size:
        exceeded.append(f"{size(whole)}, more than {size(limits.max_size)} (code.max-size)")
        named |= dict.fromkeys(_offenders(sizes, whole))
    if count > limits.max_files:
        exceeded.append(f"{count:,} files, more than {limits.max_files:,} (code.max-files)")
        named |= dict.fromkeys(_offenders(counts, count))
    if not exceeded:
        return
    lines = [
        f"  {path}  {size(sizes[path])}"
        + (f" in {counts[path]:,} {'file' if counts[path] == 1 else 'files'}" if path.endswith("/") else "")
        for path in named
    ]
    message = "\n".join([f"The code in {files.root} has {' and '.join(exceeded)}. The most is in:", *lines])
    patterns = "\n".join(f"  {_pattern(path)}" for path in named)
    raise InvalidError(
        message, hint=f"{_where(ignore_file)}\n{patterns}\nOr raise the limit in aml-train.yml, under `code`."
    )


_POINTER: Final = b"version https://git-lfs.github.com/spec/v1\n"
#: Bytes of a pointer of Git LFS: https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md.
_POINTER_SIZES: Final = range(120, 1024)


def unfetched(files: FileSet) -> list[str]:
    """Return remarks on what a checkout has not fetched of the code: files of Git LFS, and submodules."""
    remarks = []
    pointers = [entry.path for entry in files.entries if entry.size in _POINTER_SIZES and _is_pointer(files, entry)]
    if pointers:
        more = f" and {len(pointers) - 1} more" if len(pointers) > 1 else ""
        remarks.append(
            f"{pointers[0]}{more} in {files.root} is a pointer of Git LFS, not the file: `git lfs pull`, or `lfs: true` of"
            " actions/checkout."
        )
    top = next((folder for folder in (files.root, *files.root.parents) if (folder / ".git").exists()), None)
    if top is None or not (top / ".gitmodules").is_file():
        return remarks
    text = (top / ".gitmodules").read_text(encoding="utf-8", errors="replace")
    for path in re.findall(r"(?m)^\s*path\s*=\s*(.*\S)", text):
        folder = top / path
        if folder.is_relative_to(files.root) and folder.is_dir() and not any(folder.iterdir()):
            remarks.append(
                f"The submodule {path} is empty: `git submodule update --init {path}`, or `submodules: true` of"
                " actions/checkout."
            )
    return remarks


def _is_pointer(files: FileSet, entry: FileEntry) -> bool:
    with files.open(entry) as file:
        return file.read(len(_POINTER)) == _POINTER


def _where(ignore_file: str | None) -> str:
    if ignore_file == ".gitignore":
        return (
            "Leave out what the job does not need: copy .gitignore to .amlignore, which takes its place, and add such"
            " lines as:"
        )
    return "Leave out what the job does not need: write into .amlignore such lines as:"


def _pattern(path: str) -> str:
    """Return the line of an ignore file that leaves out *path*, and nothing else."""
    escaped = "".join(f"\\{char}" if char in "\\*?[" else char for char in path)
    return f"/{escaped[:-1]}\\ " if escaped.endswith(" ") else f"/{escaped}"


def _weights(entries: Iterable[FileEntry]) -> tuple[Counter[str], Counter[str]]:
    """Return the bytes and the number of files of each file and each folder, whose path ends with a slash."""
    sizes, counts = Counter[str](), Counter[str]()
    for entry in entries:
        parts = entry.path.split("/")
        for path in (entry.path, *("/".join(parts[:number]) + "/" for number in range(1, len(parts)))):
            sizes[path] += entry.size
            counts[path] += 1
    return sizes, counts


def _offenders(weights: Counter[str], whole: int) -> list[str]:
    """Return the heaviest paths, none within another; of folders with the same content the innermost."""
    found: list[str] = []
    for path, weight in sorted(weights.items(), key=lambda one: (-one[1], -len(one[0]), one[0])):
        if len(found) == _MOST_NAMED or (found and weight < _OFFENCE * whole):
            break
        if not any(path.startswith(one) or one.startswith(path) for one in found):
            found.append(path)
    return found
