"""Finds code that logs by azureml-core's ``Run`` and never sends what ``Run`` still holds at the end. Pure, but for the files that it reads.

azureml-core sends metrics once in a while from a daemon thread and has no exit hook; docs/sdk-v1.md says what is known of who sends the rest.
This reads the code as text and runs nothing: a ``Run`` that reaches a function under another name is not recognized.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.core.files import FileEntry, FileSet

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
    """Return where *code* logs first by azureml-core's ``Run``, as ``file:line``, if it never sends what is held; else None."""
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


def notice(where: str) -> str:
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
    """Yield the names that a run is given: ``run`` of ``run = Run.get_context()`` and of ``self.run = …``."""
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
    """Yield each call of a run that logs or sends, by name and line; a run in a ``with`` sends at its end."""
    for node in sorted((one for one in ast.walk(module.tree) if hasattr(one, "lineno")), key=lambda one: one.lineno):
        if isinstance(node, ast.With) and any(_is_run(item.context_expr, module, runs) for item in node.items):
            yield "flush", node.lineno
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            known = node.func.attr in _LOGS or node.func.attr in _SENDS
            if known and _is_run(node.func.value, module, runs):
                yield node.func.attr, node.lineno


def _is_run(node: ast.expr, module: _Module, runs: set[str]) -> bool:
    return (module.azureml and _is_start(node)) or _last_name(node) in runs
