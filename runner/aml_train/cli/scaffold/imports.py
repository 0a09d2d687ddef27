"""The imports of Python files, and the project's modules that they lead to. Pure."""

from __future__ import annotations

import ast
import posixpath
import warnings
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.cli.scaffold.project import Project, folder_of

_MOST_FILES: Final = 300


@dataclass(frozen=True, kw_only=True)
class Imported:
    """A module that a file may load: its dotted name, its line, and whether it was named relative to the file."""

    module: str
    line: int
    relative: bool = False


def parse_source(text: str) -> ast.Module | None:
    """Return the syntax tree of Python code, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, such as escapes that Python does not know
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports_of(tree: ast.Module, path: str) -> Iterator[Imported]:
    """Yield what a file imports; a relative import as a module of the project's folder.

    Imports under a ``try`` with an ``except`` or under ``if TYPE_CHECKING`` are optional, and left out.
    """
    for node in _statements(tree.body):
        if isinstance(node, ast.Import):
            for name in node.names:
                yield Imported(module=name.name, line=node.lineno)
        elif isinstance(node, ast.ImportFrom):
            module = node.module or ""
            if node.level:
                parts = folder_of(path).split("/")
                module = ".".join([*filter(None, parts[: len(parts) - node.level + 1]), *filter(None, [module])])
            names = [f"{module}.{name.name}".lstrip(".") for name in node.names if name.name != "*"]
            for found in filter(None, [module, *names]):
                yield Imported(module=found, line=node.lineno, relative=node.level > 0)


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    for node in body:
        yield node
        optional = (isinstance(node, ast.Try) and node.handlers) or (
            isinstance(node, ast.If) and "TYPE_CHECKING" in ast.dump(node.test)
        )
        if not optional:
            for block in ("body", "orelse", "finalbody"):
                yield from _statements(getattr(node, block, None) or ())


def find_module(project: Project, module: str, root: str) -> str | None:
    """Return the path of a module below *root*: its file, or its folder without ``__init__.py``."""
    base = posixpath.normpath(posixpath.join(root, module.replace(".", "/")))
    for path in (f"{base}/__init__.py", f"{base}.py"):
        if path in project.files:
            return path
    return base if any(one.path.startswith(f"{base}/") for one in project.scripts) else None


def loaded_by(project: Project, path: str, roots: Sequence[str]) -> list[str]:
    """Return a file and the project's modules that it loads, directly or not.

    Args:
        project: what was found.
        path: the file that is run.
        roots: the folders of its ``sys.path``.
    """
    texts = {one.path: one.text for one in project.scripts}
    waiting, found = [path], list[str]()
    while waiting and len(found) < _MOST_FILES:
        one = waiting.pop(0)
        tree = parse_source(texts[one]) if one in texts and one not in found else None
        if one in texts and one not in found:
            found.append(one)
        for each in imports_of(tree, one) if tree is not None else ():
            targets = (find_module(project, each.module, root) for root in ([""] if each.relative else roots))
            waiting += [target for target in targets if target is not None]
    return found
