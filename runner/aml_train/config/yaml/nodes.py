"""The tree of a YAML file: nodes that know their file and line."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

import yaml

from aml_train.core.errors import Fault, InvalidError

Kind = Literal["text", "null", "bool", "int", "float", "date", "broken"]


@dataclass(frozen=True, kw_only=True)
class Mark:
    """A place in the user's input: a file with a line, or an option.

    Attributes:
        file: the file, or the option, such as ``--set image.base``.
        line: one-based; None for an option or a file as a whole.
        option: it is a value of ``--set``.
    """

    file: str
    line: int | None = None
    option: bool = False

    @property
    def where(self) -> str:
        """The place as a :class:`~aml_train.core.errors.Fault` carries it."""
        return self.file if self.line is None else f"{self.file}:{self.line}"


@dataclass(frozen=True, kw_only=True)
class ScalarNode:
    """A value without parts.

    Attributes:
        mark: where it starts.
        text: the value as YAML's text, after unfolding and unescaping.
        kind: what YAML 1.1 makes of it; quoted values are always text. A broken one has a fault.
        value: the Python value.
        raw: the source lines that it spans, where it spans several.
    """

    mark: Mark
    text: str
    kind: Kind
    value: Any
    raw: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ListNode:
    """A list."""

    mark: Mark
    items: tuple[Node, ...]


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One key of a mapping with its value. *mark* is the key's place."""

    mark: Mark
    node: Node


@dataclass(frozen=True, kw_only=True)
class MapNode:
    """A mapping with text keys, in the order of the file; *apart* are further keys, whose values are checked elsewhere."""

    mark: Mark
    entries: Mapping[str, Entry]
    apart: frozenset[str] = frozenset()


Node = ScalarNode | ListNode | MapNode


@dataclass(kw_only=True)
class Faults:
    """Collects faults, so that the user sees all of them, at most *most*, at once.

    Attributes:
        most: how many are kept.
        remarks: what the user should know of values that are no faults, with ``file:line``.
    """

    most: int = 200
    remarks: list[str] = field(default_factory=list)
    _found: dict[tuple[str, int, int], Fault] = field(default_factory=dict)
    _seen: set[Fault] = field(default_factory=set)
    _more: bool = False

    @property
    def full(self) -> bool:
        """Whether further faults are only counted: no hints are needed any more."""
        return len(self._seen) >= self.most

    def add(self, mark: Mark, what: str, *, why: str = "", remedy: str = "") -> None:
        """Add a fault; the same one at the same place is kept once."""
        self._keep(Fault(where=mark.where, what=what, why=why, remedy=remedy), mark.file, mark.line or 0)

    def take(self, error: InvalidError) -> None:
        """Add the faults of other files, in their order."""
        for fault in error.faults:
            self._keep(fault, fault.where, 0)

    def _keep(self, fault: Fault, file: str, line: int) -> None:
        if fault in self._seen:
            return
        if self.full:
            self._more = True
        else:
            self._seen.add(fault)
            self._found[(file, line, len(self._seen))] = fault

    def remark(self, mark: Mark, text: str) -> None:
        """Add a remark, once."""
        if len(self.remarks) < self.most and (full := f"{mark.where}: {text}") not in self.remarks:
            self.remarks.append(full)

    def __len__(self) -> int:
        return len(self._seen) + self._more

    def __iter__(self) -> Iterator[Fault]:
        """Yield the faults by file, line and order of discovery."""
        yield from (self._found[key] for key in sorted(self._found))
        if self._more:
            what = f"there are more than {self.most} faults"
            yield Fault(where=max(self._found)[0], what=what, remedy="correct these first")

    def raise_if_any(self) -> None:
        """Raise InvalidError with every fault, if there is one."""
        if self:
            raise InvalidError(self)


def plain(node: Node) -> Any:
    """Return the Python value of a tree; a date stays text.

    The parser bounds the depth, and so the recursion.
    """
    if isinstance(node, MapNode):
        return {key: plain(entry.node) for key, entry in node.entries.items()}
    if isinstance(node, ListNode):
        return [plain(item) for item in node.items]
    return node.text if node.kind == "date" else node.value


def find(node: Node | None, *keys: str) -> Node | None:
    """Return the node under *keys*, or None if there is none."""
    for key in keys:
        if not isinstance(node, MapNode) or key not in node.entries:
            return None
        node = node.entries[key].node
    return node


def is_null(node: Node | None) -> bool:
    """Return whether a value is YAML's null."""
    return isinstance(node, ScalarNode) and node.kind == "null"


def scalars(node: Node) -> Iterator[ScalarNode]:
    """Yield every value without parts in *node*."""
    if isinstance(node, ScalarNode):
        yield node
    elif isinstance(node, MapNode):
        for entry in node.entries.values():
            yield from scalars(entry.node)
    else:
        for item in node.items:
            yield from scalars(item)


def place(node: MapNode, *keys: str) -> Mark:
    """Return the place of the last of *keys* that exists, or that of *node* itself."""
    mark, here = node.mark, node
    for key in keys:
        entry = here.entries.get(key)
        if entry is None:
            break
        mark = entry.mark
        if not isinstance(entry.node, MapNode):
            break
        here = entry.node
    return mark


def value_mark(tree: MapNode, *keys: str) -> Mark:
    """Return the place of the scalar under *keys*, or of the last key that exists."""
    node = find(tree, *keys)
    return node.mark if isinstance(node, ScalarNode) else place(tree, *keys)


def join(name: str, key: str) -> str:
    """Extend the dotted name of a key: quoted if it is no plain word, cut if long."""
    if not re.fullmatch(r"[\w$-]{1,256}", key):
        key = '"' + shown(key).replace('"', "'") + '"'
    return f"{name}.{key}" if name else key


def dotted(keys: Iterable[str]) -> str:
    """Return the dotted name of nested keys."""
    name = ""
    for key in keys:
        name = join(name, key)
    return name


def shown(text: str, limit: int = 60) -> str:
    """Return *text* for a message: one short line, passwords in URLs masked."""
    text = re.sub(r"(?<=//)[^/\s@]+@", "***@", text[:2000])
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: limit + 1])
    return text if len(text) <= limit else text[: limit - 1] + "…"


_KINDS: Final[dict[str, Kind]] = {
    "tag:yaml.org,2002:null": "null",
    "tag:yaml.org,2002:bool": "bool",
    "tag:yaml.org,2002:int": "int",
    "tag:yaml.org,2002:float": "float",
    "tag:yaml.org,2002:timestamp": "date",
}
_MAX_INTEGER: Final = 2**63
_LONGEST_NUMBER: Final = 100
_constructor = yaml.constructor.SafeConstructor()
_make: Final[dict[str, Callable[[yaml.ScalarNode], Any]]] = {
    "bool": _constructor.construct_yaml_bool,
    "int": _constructor.construct_yaml_int,
    "float": _constructor.construct_yaml_float,
    "date": _constructor.construct_yaml_timestamp,
}


class ScalarError(ValueError):
    """An unquoted value that looks like a number or date to YAML and is none."""


def resolve(tag: str, text: str) -> tuple[Kind, Any]:
    """Return what an unquoted *text* that YAML gives a *tag* is, and its Python value.

    Raises:
        ScalarError: if it has the form of a number or a date and no usable value.
    """
    kind = _KINDS[tag]
    if kind == "null":
        return kind, None
    if len(text) > _LONGEST_NUMBER:
        raise ScalarError("is a number too long to be one")
    try:
        value = _make[kind](yaml.ScalarNode(tag, text))
    except (ValueError, OverflowError, IndexError, AttributeError, KeyError) as error:
        raise ScalarError("looks like a date and is none" if kind == "date" else "is a broken number") from error
    if kind == "int" and not -_MAX_INTEGER <= value < _MAX_INTEGER:
        raise ScalarError("is a whole number beyond 64 bits")
    return kind, value


def reading(node: ScalarNode) -> str:
    r"""Describe how YAML reads *node*: ``\`1.10\` as the number 1.1``."""
    written = f"`{shown(node.text)}`"
    match node.kind:
        case "null":
            return "no value at all" if not node.text else f"{written} as no value at all"
        case "bool":
            return f"{written} as the boolean {str(node.value).lower()}"
        case "int" | "float":
            number = str(node.value)
            return f"{written} as a number" if number == node.text else f"{written} as the number {number}"
        case "date":
            return f"{written} as a date"
        case _:
            return f"{written} as text"


def surprise(node: ScalarNode) -> str | None:
    """Return why an unquoted value probably means another one; None if it is clear."""
    text = node.text.lstrip("+-")
    if node.kind in ("int", "float") and ":" in text:
        return f"YAML reads {reading(node)}, in base 60"
    if node.kind == "int" and re.fullmatch(r"0[0-7_]+", text):
        return f"YAML reads {reading(node)}, in base 8"
    if node.kind == "float" and not math.isfinite(node.value):
        return f"`{node.text}` is no finite number"
    if node.kind == "bool" and node.text.lower() not in ("true", "false"):
        return f"YAML reads {reading(node)}"
    return None
