"""Checks of the code before it is sent: its size, and metrics it never flushes."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from aml_train.config.sections.code import CodeConfig
from aml_train.core.errors import InvalidError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
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
    """Return the heaviest items; an item that is most of its folder stands for it."""
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
    """Leave out items in a folder that is named, too."""
    return [
        item
        for path, item in named.items()
        if not any(path != other and path.startswith(f"{other}/") for other in named)
    ]


#: azureml-core sends metrics once in a while from a daemon thread and has no exit hook: docs/sdk-v1.md.
_STARTS: Final = re.compile(rb"(?:get_context|get_submitted_run|start_logging)\(")
_LOGS: Final = re.compile(rb"\.log(?:_list|_row|_table|_image)?\(")
_SENDS: Final = re.compile(rb"run\w*\.(?:flush|complete|fail)\(|\bwith .*(?:run\b|get_context\()", re.IGNORECASE)
#: Bytes of a file that is read: what is larger was not written by hand.
_MOST: Final = 1 << 20


def unsent_metrics(code: FileSet) -> str | None:
    """Return the first file that logs by a ``Run`` of azureml-core, if no file sends what it holds.

    Files are read as text: what they do is not known for certain, and this makes a notice alone.
    """
    texts = {
        entry.path: (code.root / entry.path).read_bytes()
        for entry in code.entries
        if entry.path.endswith(".py") and entry.link is None and entry.size <= _MOST
    }
    if any(_SENDS.search(text) for text in texts.values()):
        return None
    logging = (
        path for path, text in texts.items() if b"azureml" in text and _STARTS.search(text) and _LOGS.search(text)
    )
    return next(logging, None)


def unsent_notice(where: str) -> str:
    """Return what is said of such code before it is submitted."""
    return (
        f"{where} logs by azureml-core's `Run`, and nothing calls `run.flush()`. azureml-core sends values with a delay; the local AzureML"
        " sends the rest when the script ends, and Microsoft does not document that AzureML does. Values of the last seconds may be"
        " missing there, and the gate would decide on earlier ones: call `run.flush()` at the end of the script."
    )
