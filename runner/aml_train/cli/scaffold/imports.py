"""The imports of Python files, and the files that local imports lead to. Pure."""

from __future__ import annotations

import ast
import posixpath
import sys
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

_REMOVED: Final = frozenset(
    {"asynchat", "asyncore", "cgi", "crypt", "distutils", "imp", "pipes", "smtpd", "telnetlib"}
)
"""Modules of the standard library that newer versions of Python removed, and users' images may have."""

STANDARD: Final = sys.stdlib_module_names | _REMOVED | {"tomllib", "compression"}
_MOST_FILES: Final = 300


@dataclass(frozen=True, kw_only=True)
class Imported:
    """One import: the absolute module, its top-level name, and its place.

    *names* are those of ``from module import names``. *level* counts the leading dots of a relative import.
    """

    module: str
    line: int
    names: tuple[str, ...] = ()
    level: int = 0

    @property
    def top(self) -> str:
        """The package that a distribution installs."""
        return self.module.partition(".")[0]


@dataclass(frozen=True, kw_only=True)
class Code:
    """Python files by path below one folder, with ``/``; *read* returns a file's text."""

    paths: Collection[str]
    read: Callable[[str], str]
    folders: frozenset[str] = field(init=False)

    def __post_init__(self) -> None:
        folders: set[str] = set()
        for path in self.paths:
            folder = posixpath.dirname(path)
            while folder and folder not in folders:
                folders.add(folder)
                folder = posixpath.dirname(folder)
        object.__setattr__(self, "folders", frozenset(folders))

    def find(self, module: str, roots: Sequence[str]) -> tuple[str, str] | None:
        """Return a module's path, empty for a namespace package, and its root."""
        inner = module.replace(".", "/")
        for root in roots:
            base = posixpath.normpath(posixpath.join(root, inner))
            for path in (f"{base}/__init__.py", f"{base}.py"):
                if path in self.paths:
                    return path, root
            if base in self.folders:
                return "", root
        return None

    def has_top(self, name: str) -> bool:
        """Return whether any folder has a module of this name."""
        return (
            any(path.endswith((f"/{name}.py", f"/{name}/__init__.py")) for path in self.paths)
            or any(f"/{folder}".endswith(f"/{name}") for folder in self.folders)
            or f"{name}.py" in self.paths
        )


def parse_source(text: str) -> ast.Module | None:
    """Return the syntax tree of Python code, or None."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the user's code, such as escapes that Python does not know
            return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def imports_of(tree: ast.Module, *, functions: bool = False) -> list[Imported]:
    """Return the imports that running a file needs.

    Those in ``try`` with an ``except``, under ``if TYPE_CHECKING`` and other conditions are optional and left out.

    Args:
        tree: the file.
        functions: include imports in functions, which run only if they are called.
    """
    return list(_imports(tree.body, functions=functions))


def _imports(body: Sequence[ast.stmt], *, functions: bool) -> Iterator[Imported]:
    for node in body:
        match node:
            case ast.Import():
                for name in node.names:
                    yield Imported(module=name.name, line=node.lineno)
            case ast.ImportFrom():
                names = tuple(name.name for name in node.names)
                yield Imported(module=node.module or "", line=node.lineno, names=names, level=node.level)
            case ast.If() if _is_main(node.test):
                yield from _imports(node.body, functions=functions)
            case ast.With() | ast.For() | ast.While():
                yield from _imports(node.body, functions=functions)
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef() if functions:
                yield from _imports(node.body, functions=functions)
            case ast.Try() if not node.handlers:
                yield from _imports(node.body, functions=functions)


def _is_main(test: ast.expr) -> bool:
    return isinstance(test, ast.Compare) and isinstance(test.left, ast.Name) and test.left.id == "__name__"


@dataclass(frozen=True, kw_only=True)
class Needed:
    """The modules of other packages that files import.

    Attributes:
        modules: top-level name → the first place, ``path`` and line.
        unfound: local packages that no root has: name → place.
        read: the files that were read.
    """

    modules: dict[str, tuple[str, int]]
    unfound: dict[str, tuple[str, int]]
    read: frozenset[str]


def needed_by(code: Code, starts: Sequence[tuple[str, Sequence[str]]]) -> Needed:
    """Follow imports from files to all that they load.

    Args:
        code: the files that local imports may lead to.
        starts: files that are run, each with the folders of its ``sys.path`` in *code*.
    """
    modules: dict[str, tuple[str, int]] = {}
    unfound: dict[str, tuple[str, int]] = {}
    waiting = [(path, tuple(roots), True) for path, roots in starts]
    seen: set[str] = set()
    while waiting and len(seen) < _MOST_FILES:
        path, roots, runs = waiting.pop()
        if path in seen or path not in code.paths:
            continue
        seen.add(path)
        tree = parse_source(code.read(path))
        for one in imports_of(tree, functions=runs) if tree is not None else ():
            for module in _targets(one, path):
                found = code.find(module, roots if not one.level else ("",))
                if found is not None:
                    waiting += [
                        (parent, roots, False) for parent in (found[0], *_packages(code, module, found[1])) if parent
                    ]
            if one.level or one.top in STANDARD or code.find(one.top, roots) is not None:
                continue
            target = unfound if code.has_top(one.top) else modules
            target.setdefault(one.top, (path, one.line))
    return Needed(modules=modules, unfound=unfound, read=frozenset(seen))


def _targets(one: Imported, path: str) -> Iterator[str]:
    """Yield the modules that an import may load, as dotted names."""
    module = one.module
    if one.level:
        parts = posixpath.dirname(path).split("/")
        parts = [part for part in parts[: len(parts) - one.level + 1] if part]
        module = ".".join([*parts, *([module] if module else [])])
    if module:
        yield module
    for name in one.names:
        if name != "*":
            yield f"{module}.{name}" if module else name


def _packages(code: Code, module: str, root: str) -> Iterator[str]:
    """Yield the ``__init__.py`` of the packages around a module."""
    parts = module.split(".")
    for end in range(1, len(parts)):
        path = posixpath.normpath(posixpath.join(root, *parts[:end], "__init__.py"))
        if path in code.paths:
            yield path
