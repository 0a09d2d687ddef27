"""Values of expressions in Python code that can be read without running it. Pure."""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

PROJECT: Final = "/-project-"
"""Stands for the project folder in paths that are made of ``__file__``."""


class _Unknown:
    def __repr__(self) -> str:
        return "UNKNOWN"


UNKNOWN: Final = _Unknown()
"""The value of an expression that only running the code would show."""

_MAX_DEPTH: Final = 12
_PATHS: Final = frozenset({"Path", "PurePath", "PosixPath", "PurePosixPath"})
_SAME: Final = frozenset(
    {"str", "resolve", "absolute", "as_posix", "abspath", "realpath", "expanduser", "fspath", "normpath", "strip"}
)


@dataclass(kw_only=True)
class Scope:
    """The names of one file with the expressions that they are assigned.

    Attributes:
        path: the file, relative to the project.
        tree: its syntax tree.
        names: name → every expression that it is assigned.
        arguments: attribute of a parsed argument → its default.
    """

    path: str
    tree: ast.Module
    names: dict[str, list[ast.expr]] = field(default_factory=dict)
    arguments: dict[str, ast.expr] = field(default_factory=dict)
    _known: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for name, value in _assignments(self.tree):
            self.names.setdefault(name, []).append(value)
        for call in calls(self.tree):
            if last_name(call.func) == "add_argument":
                self._add_argument(call)

    def _add_argument(self, call: ast.Call) -> None:
        default = keyword(call, "default")
        flags = [one.value for one in call.args if isinstance(one, ast.Constant) and isinstance(one.value, str)]
        names = [flag.lstrip("-").replace("-", "_") for flag in flags if flag.startswith("--")] or flags[:1]
        if default is not None:
            for name in names:
                self.arguments[name] = default

    def value(self, node: ast.expr | None, depth: int = 0) -> Any:
        """Return the value of an expression: text, number, list or mapping; or UNKNOWN."""
        if node is None or depth > _MAX_DEPTH:
            return UNKNOWN
        match node:
            case ast.Constant():
                return node.value
            case ast.Name(id="__file__"):
                return f"{PROJECT}/{self.path}"
            case ast.Name():
                return self._named(node.id, depth)
            case ast.List() | ast.Tuple():
                return [self.value(one, depth + 1) for one in node.elts]
            case ast.Dict():
                return {
                    self.value(key, depth + 1): self.value(value, depth + 1)
                    for key, value in zip(node.keys, node.values, strict=True)
                    if key is not None and isinstance(self.value(key, depth + 1), str | int)
                }
            case ast.UnaryOp(op=ast.USub()):
                inner = self.value(node.operand, depth + 1)
                return -inner if isinstance(inner, int | float) else UNKNOWN
            case ast.JoinedStr():
                return self._joined([self.value(part, depth + 1) for part in node.values])
            case ast.FormattedValue():
                return self.value(node.value, depth + 1)
            case ast.BinOp():
                return self._binary(node, depth)
            case ast.Attribute():
                return self._attribute(node, depth)
            case ast.Subscript():
                return self._subscript(node, depth)
            case ast.Call():
                return self._call(node, depth)
        return UNKNOWN

    def text(self, node: ast.expr | None) -> str | None:
        """Return the text of an expression, or None."""
        value = self.value(node)
        return value if isinstance(value, str) else None

    def calls(self, node: ast.expr | None) -> list[ast.Call]:
        """Return the call that an expression is, or those that its name is assigned."""
        found: list[ast.Call] = []
        waiting, seen = [node], set[str]()
        while waiting:
            one = waiting.pop(0)
            if isinstance(one, ast.Call):
                found.append(one)
            elif isinstance(one, ast.Name) and one.id not in seen:
                seen.add(one.id)
                waiting += self.names.get(one.id, ())
        return found

    def _named(self, name: str, depth: int) -> Any:
        """Return the only value of a name; None does not count if there is another."""
        if name not in self._known:
            self._known[name] = UNKNOWN  # for a name that is made of itself
            self._known[name] = self._only_value(name, depth)
        return self._known[name]

    def _only_value(self, name: str, depth: int) -> Any:
        values = [self.value(one, depth + 1) for one in self.names.get(name, ())]
        known = [one for one in values if one is not None and one is not UNKNOWN]
        if known and all(one == known[0] for one in known):
            return known[0]
        return None if values and all(one is None for one in values) else UNKNOWN

    @staticmethod
    def _joined(parts: list[Any]) -> Any:
        if any(part is UNKNOWN or isinstance(part, list | dict) for part in parts):
            return UNKNOWN
        return "".join(str(part) for part in parts)

    def _binary(self, node: ast.BinOp, depth: int) -> Any:
        left, right = self.value(node.left, depth + 1), self.value(node.right, depth + 1)
        if isinstance(node.op, ast.Div) and isinstance(left, str) and isinstance(right, str):
            return posixpath.join(left, right)
        if isinstance(node.op, ast.Add) and type(left) is type(right) and isinstance(left, str | list):
            return left + right
        return UNKNOWN

    def _attribute(self, node: ast.Attribute, depth: int) -> Any:
        owner = last_name(node.value)
        if owner in ("AssetTypes", "InputOutputModes"):
            return node.attr.lower()
        if owner.startswith(("arg", "opt", "param", "cli")) and node.attr in self.arguments:
            return self.value(self.arguments[node.attr], depth + 1)
        for made in self.calls(node.value):
            if (given := keyword(made, node.attr)) is not None:
                return self.value(given, depth + 1)
        if node.attr == "parent":
            inner = self.value(node.value, depth + 1)
            return posixpath.dirname(inner) if isinstance(inner, str) else UNKNOWN
        return UNKNOWN

    def _subscript(self, node: ast.Subscript, depth: int) -> Any:
        key = self.value(node.slice, depth + 1)
        if isinstance(node.value, ast.Attribute) and node.value.attr == "parents" and isinstance(key, int):
            inner = self.value(node.value.value, depth + 1)
            for _ in range(key + 1):
                inner = posixpath.dirname(inner) if isinstance(inner, str) else UNKNOWN
            return inner
        inner = self.value(node.value, depth + 1)
        if isinstance(inner, dict) and isinstance(key, str | int):
            return inner.get(key, UNKNOWN)
        return UNKNOWN

    def _call(self, node: ast.Call, depth: int) -> Any:
        name = last_name(node.func)
        given = [self.value(one, depth + 1) for one in node.args]
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if name in _PATHS or (name == "join" and owner is not None and last_name(owner) == "path"):
            texts = [one for one in given if isinstance(one, str)]
            return posixpath.join(*texts) if texts and len(texts) == len(given) else ("" if not given else UNKNOWN)
        if name == "joinpath" and owner is not None:
            start = self.value(owner, depth + 1)
            return posixpath.join(start, *given) if all(isinstance(one, str) for one in (start, *given)) else UNKNOWN
        if name == "dirname" and given:
            return posixpath.dirname(given[0]) if isinstance(given[0], str) else UNKNOWN
        if name in ("getcwd", "cwd"):
            return ""
        if name == "getenv" or (name == "get" and owner is not None and last_name(owner) == "environ"):
            return given[1] if len(given) > 1 else UNKNOWN
        if name in _SAME:
            return given[0] if given else (self.value(owner, depth + 1) if owner is not None else UNKNOWN)
        return UNKNOWN


def _assignments(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for node in ast.walk(tree):
        match node:
            case ast.Assign(targets=[ast.Name(id=name)]):
                yield name, node.value
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.expr() as value):
                yield name, value
            case ast.NamedExpr(target=ast.Name(id=name)):
                yield name, node.value


def calls(tree: ast.AST) -> list[ast.Call]:
    """Return every call of a tree, in the order of lines."""
    found = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return sorted(found, key=lambda node: (node.lineno, node.col_offset))


def keyword(call: ast.Call, name: str, position: int | None = None) -> ast.expr | None:
    """Return an argument by its name, or by its position."""
    for one in call.keywords:
        if one.arg == name:
            return one.value
    return call.args[position] if position is not None and len(call.args) > position else None


def last_name(node: ast.AST) -> str:
    """Return the last name of a dotted expression; empty for others."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Call():
            return last_name(node.func)
    return ""


def imported_names(tree: ast.Module, prefix: str) -> dict[str, str]:
    """Return the local names of imports from a package: local → original."""
    found: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and f"{node.module or ''}.".startswith(f"{prefix}."):
            found |= {one.asname or one.name: one.name for one in node.names}
        elif isinstance(node, ast.Import):
            found |= {
                one.asname or one.name.partition(".")[0]: one.name
                for one in node.names
                if f"{one.name}.".startswith(f"{prefix}.")
            }
    return found


def place(text: str, folder: str, exists: Callable[[str], bool], inside: str = "") -> str | None:
    """Return a path of the code as relative to the project; None if it is not in it.

    Args:
        text: the path: absolute by ``__file__``, or relative to the folder of the script, or to the project.
        folder: the folder of the script.
        exists: whether the project has a path.
        inside: a path that the found one should have below it.
    """
    if text == PROJECT or text.startswith(f"{PROJECT}/"):
        found = posixpath.normpath(text.removeprefix(PROJECT).lstrip("/") or ".")
        return None if found.startswith("..") else found
    if text.startswith(("/", "~")) or "://" in text:
        return None
    near, top = posixpath.normpath(posixpath.join(folder, text)), posixpath.normpath(text)
    possible = [found for found in (near, top) if not found.startswith("..") and exists(found)]
    whole = (found for found in possible if inside and exists(posixpath.normpath(posixpath.join(found, inside))))
    return next(whole, possible[0] if possible else None)
