"""Checks of the code before it is sent: its size, and metrics it never flushes."""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
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


# azureml-core sends metrics once in a while from a daemon thread and has no exit hook; docs/sdk-v1.md says what is known of who sends the rest.
# The check reads the code as text and runs nothing: a ``Run`` that reaches a function under another name is not recognized.
#: What returns a run that logs: https://learn.microsoft.com/python/api/azureml-core/azureml.core.run.run
_STARTS: Final = frozenset({"get_context", "get_submitted_run", "start_logging"})
_LOGS: Final = frozenset(
    {
        "log",
        "log_list",
        "log_row",
        "log_table",
        "log_image",
        "log_confusion_matrix",
        "log_accuracy_table",
        "log_residuals",
        "log_predictions",
    }
)
_SENDS: Final = frozenset({"flush", "complete", "fail"})
#: Bytes of a file that is read: what is larger was not written by hand.
_MOST: Final = 1 << 20


@dataclass(frozen=True, kw_only=True)
class _Module:
    path: str
    tree: ast.Module
    azureml: bool


def unsent_metrics(code: FileSet) -> str | None:
    """Return ``file:line`` of the first log by a ``Run`` that no call flushes."""
    modules = [module for entry in code.entries if (module := _module(code, entry)) is not None]
    runs = {name for module in modules if module.azureml for name in _runs(module.tree)}
    if not any(module.azureml for module in modules):
        return None
    logged: str | None = None
    for module in modules:
        for word, line in _calls(module, runs):
            if word in _SENDS:
                return None
            logged = logged or f"{module.path}:{line}"
    return logged


def unsent_notice(where: str) -> str:
    """Return what is said of such code before it is submitted."""
    return (
        f"{where} logs by azureml-core's `Run`, and nothing calls `run.flush()`. azureml-core sends values with a delay; the local AzureML"
        " sends the rest when the script ends, and Microsoft does not document that AzureML does. Values of the last seconds may be"
        " missing there, and the gate would decide on earlier ones: call `run.flush()` at the end of the script."
    )


def _module(code: FileSet, entry: FileEntry) -> _Module | None:
    """Return a Python file's syntax tree, where it has to do with runs at all."""
    if not entry.path.endswith(".py") or entry.link is not None or entry.size > _MOST:
        return None
    text = (code.root / entry.path).read_bytes()
    azureml = b"azureml" in text
    if not azureml and b".log" not in text and b".flush(" not in text and b".complete(" not in text:
        return None
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, such as escapes that Python does not know
            tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        # For another version of Python, or none at all: what it does cannot be read.
        return None
    return _Module(
        path=entry.path, tree=tree, azureml=azureml and any(_imports_azureml(node) for node in ast.walk(tree))
    )


def _imports_azureml(node: ast.AST) -> bool:
    if isinstance(node, ast.Import):
        return any(name.name.split(".")[0] == "azureml" for name in node.names)
    return isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "azureml"


def _runs(tree: ast.Module) -> Iterator[str]:
    """Yield the names of runs: of ``run = Run.get_context()`` and ``self.run = …``."""
    for node in ast.walk(tree):
        targets: Sequence[ast.expr] = ()
        if isinstance(node, ast.Assign):
            targets = node.targets
        elif isinstance(node, ast.AnnAssign | ast.NamedExpr):
            targets = (node.target,)
        if targets and _is_start(node.value):  # type: ignore[attr-defined]
            yield from (name for target in targets if (name := _last_name(target)))


def _is_start(value: ast.AST | None) -> bool:
    return isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _STARTS


def _last_name(node: ast.AST) -> str:
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def _calls(module: _Module, runs: set[str]) -> Iterator[tuple[str, int]]:
    """Yield calls of runs that log or send; a run in a ``with`` sends at its end."""
    for node in sorted((one for one in ast.walk(module.tree) if hasattr(one, "lineno")), key=lambda one: one.lineno):
        if isinstance(node, ast.With) and any(_is_run(item.context_expr, module, runs) for item in node.items):
            yield "flush", node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            known = node.func.attr in _LOGS or node.func.attr in _SENDS
            if known and _is_run(node.func.value, module, runs):
                yield node.func.attr, node.lineno


def _is_run(node: ast.expr, module: _Module, runs: set[str]) -> bool:
    return (module.azureml and _is_start(node)) or _last_name(node) in runs
