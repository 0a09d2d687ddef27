"""How much code may be sent, and what is in the way: the largest files and folders, with the lines that leave them out. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from aml_train.config import CodeConfig
from aml_train.core.errors import InvalidError
from aml_train.core.files import FileEntry, FileSet
from aml_train.core.text import size

_MOST_NAMED: Final = 5
_OFFENCE: Final = 0.05
"""The part of the whole that something must have to be worth naming."""
_MOSTLY: Final = 0.8
"""A folder is named by the one below it that has this part of it."""


@dataclass(kw_only=True)
class _Item:
    """A file or a folder, with all that is below it."""

    path: str
    size: int = 0
    files: int = 0
    below: dict[str, _Item] = field(default_factory=dict)

    @property
    def pattern(self) -> str:
        """The line of an ignore file that leaves it out, and nothing else."""
        escaped = "".join(f"\\{char}" if char in "\\*?[" else char for char in self.path)
        if escaped.endswith(" "):
            escaped = escaped[:-1] + "\\ "
        return f"/{escaped}/" if self.below else f"/{escaped}"


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
    exceeded = []
    if whole > limits.max_size:
        exceeded.append(f"{size(whole)}, more than {size(limits.max_size)} (code.max-size)")
    if count > limits.max_files:
        exceeded.append(f"{count:,} files, more than {limits.max_files:,} (code.max-files)")
    if not exceeded:
        return
    tree = _tree(files.entries)
    named: dict[str, _Item] = {}
    if whole > limits.max_size:
        named |= {item.path: item for item in _offenders(tree, lambda item: item.size)}
    if count > limits.max_files:
        named |= {item.path: item for item in _offenders(tree, lambda item: item.files)}
    offenders = _outermost(named)
    lines = [f"  {_label(item)}" for item in offenders]
    message = "\n".join([f"The code in {files.root} has {' and '.join(exceeded)}. The most is in:", *lines])
    patterns = "\n".join(f"  {item.pattern}" for item in offenders)
    raise InvalidError(
        message, hint=f"{_where(ignore_file)}\n{patterns}\nOr raise the limit in aml-train.yml, under `code`."
    )


def _where(ignore_file: str | None) -> str:
    if ignore_file == ".gitignore":
        return (
            "Leave out what the job does not need: copy .gitignore to .amlignore, which takes its place, and add such"
            " lines as:"
        )
    return "Leave out what the job does not need: write into .amlignore such lines as:"


def _label(item: _Item) -> str:
    if not item.below:
        return f"{item.path}  {size(item.size)}"
    return f"{item.path}/  {size(item.size)} in {item.files:,} {'file' if item.files == 1 else 'files'}"


def _tree(entries: Iterable[FileEntry]) -> _Item:
    root = _Item(path="")
    for entry in entries:
        here = root
        here.size, here.files = here.size + entry.size, here.files + 1
        parts = entry.path.split("/")
        for number, part in enumerate(parts):
            here = here.below.setdefault(part, _Item(path="/".join(parts[: number + 1])))
            here.size, here.files = here.size + entry.size, here.files + 1
    return root


def _offenders(root: _Item, weight: Callable[[_Item], int]) -> list[_Item]:
    """Return what weighs most, heaviest first; a folder is looked into while one thing makes up most of it."""
    found: list[_Item] = []
    for item in root.below.values():
        narrow = item
        while narrow.below:
            heaviest = max(narrow.below.values(), key=weight)
            if weight(heaviest) < _MOSTLY * weight(narrow) or weight(heaviest) <= 1:
                break
            narrow = heaviest
        if weight(narrow) >= _OFFENCE * weight(root):
            found.append(narrow)
    found = found or [max(root.below.values(), key=weight)]
    return sorted(found, key=lambda item: (-weight(item), item.path))[:_MOST_NAMED]


def _outermost(named: dict[str, _Item]) -> list[_Item]:
    """Leave out what lies in a folder that is named, too."""
    return [
        item
        for path, item in named.items()
        if not any(path != other and path.startswith(f"{other}/") for other in named)
    ]
