"""YAML text → a tree of :mod:`aml_train.config.yaml.nodes`.

PyYAML composes the tree, by libyaml if it was built with it; the pure parser is the same grammar. The events are counted first, so that
neither deep nesting nor aliases of aliases cost more than the text itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import yaml

from aml_train.config.yaml.nodes import (
    Entry,
    Faults,
    Kind,
    ListNode,
    MapNode,
    Mark,
    Node,
    ScalarError,
    ScalarNode,
    reading,
    resolve,
    shown,
)
from aml_train.config.yaml.source import LINE_BREAK

#: A part of the parser's message → the remedy. The first match is used.
_REMEDIES: Final = (
    ("chomping or indentation", 'put a value that starts with `>` or `|` in quotes, such as ">= 0.95"'),
    ("comment or", 'put a value that starts with `>` or `|` in quotes, such as ">= 0.95"'),
    ("mapping values", "put a text that contains `: ` in quotes, or correct the indentation here or above"),
    ("cannot start any token", "put the value in quotes, and indent with spaces"),
    ("alias", "put a text that starts with `*` in quotes"),
)


def explain(error: yaml.YAMLError, lines: list[str]) -> tuple[int, str, str]:
    """Return the one-based line of a syntax error, what is wrong, and the remedy.

    Args:
        error: what the parser raised.
        lines: the source, split into lines.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, "the text is not YAML", "delete the characters that YAML does not allow"
    context, problem = error.context or "", error.problem or ""
    # A quote or bracket that is not closed is noticed at the end of the file.
    opened = error.context_mark if "quoted" in context or "flow" in context else None
    at = opened or error.problem_mark or error.context_mark
    line = min(at.line, len(lines) - 1) if at else 0
    words = f"{context} {problem}".strip()
    remedy = next((remedy for needle, remedy in _REMEDIES if needle in words), "correct the line or the one above")
    return line + 1, f"this is not YAML: {words}", remedy


MAX_DEPTH: Final = 50
MAX_NODES: Final = 20_000
"""Values in one file; each use of an alias counts with all that it stands for."""
CHARACTERS: Final = 64
"""A text counts as one value more for each so many characters, so that aliases of a long text are bounded too."""

_CORE: Final = "tag:yaml.org,2002:"
_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StopReading(Exception):  # noqa: N818 - a signal within this module, after a fault
    pass


def parse(text: str, file: str, faults: Faults, *, option: bool = False) -> Node | None:
    """Read one YAML document.

    Args:
        text: the document.
        file: its name in faults.
        faults: takes the faults.
        option: the text is the value of a command line option: faults have no line.

    Returns:
        The tree, or None if there is none. The tree is whole enough for further checks even after a fault.
    """
    reader = _Reader(lines=LINE_BREAK.split(text), file=file, faults=faults, option=option)
    try:
        depth = 0
        for event in yaml.parse(text, Loader=_Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            if depth > MAX_DEPTH:
                reader.too_deep(event.start_mark.line if event.start_mark else 0)
        root = yaml.compose(text, Loader=_Loader)
        return None if root is None else reader.node(root)
    except _StopReading:
        return None
    except yaml.YAMLError as error:
        line, what, remedy = explain(error, reader.lines)
        faults.add(reader.mark(line - 1), what, remedy=remedy)
        return None


@dataclass(kw_only=True)
class _Reader:
    """Makes nodes of PyYAML's; *count* is how many values they hold."""

    lines: list[str]
    file: str
    faults: Faults
    option: bool
    count: int = 0

    def mark(self, line: int) -> Mark:
        return Mark(file=self.file, line=None if self.option else line + 1, option=self.option)

    def too_deep(self, line: int) -> None:
        self.faults.add(self.mark(line), f"the values are nested deeper than {MAX_DEPTH} levels")
        raise _StopReading

    def node(self, found: yaml.Node, depth: int = 1) -> Node:
        mark = self.mark(found.start_mark.line)
        self.count += 1 + len(found.value) // CHARACTERS if isinstance(found, yaml.ScalarNode) else 1
        if self.count > MAX_NODES:
            why = "each use of an alias counts with all that it stands for"
            self.faults.add(mark, f"the file holds more than {MAX_NODES:,} values", why=why)
            raise _StopReading
        if isinstance(found, yaml.ScalarNode):
            return self.scalar(found, mark)
        if depth > MAX_DEPTH:
            self.too_deep(found.start_mark.line)
        if found.tag not in (f"{_CORE}map", f"{_CORE}seq"):
            self.tag(found.tag, mark)
        if isinstance(found, yaml.MappingNode):
            return MapNode(mark=mark, entries=self.entries(found, depth))
        return ListNode(mark=mark, items=tuple(self.node(item, depth + 1) for item in found.value))

    def scalar(self, found: yaml.ScalarNode, mark: Mark) -> ScalarNode:
        text: str = found.value
        kind: Kind = "text"
        value: Any = text
        if found.tag in (f"{_CORE}{word}" for word in ("null", "bool", "int", "float", "timestamp")):
            try:
                kind, value = resolve(found.tag, text)
            except ScalarError as error:
                self.faults.add(mark, f"`{shown(text)}` {error}", remedy="write it in quotes if it is text")
                kind = "broken"
        elif found.tag not in (f"{_CORE}str", f"{_CORE}merge", f"{_CORE}value"):
            self.tag(found.tag, mark)
            kind = "broken"
        first, end = found.start_mark.line, found.end_mark.line
        raw = tuple(self.lines[first : end + 1]) if end > first else ()
        return ScalarNode(mark=mark, text=text, kind=kind, value=value, raw=raw)

    def tag(self, tag: str, mark: Mark) -> None:
        name = tag.replace(_CORE, "!!")
        self.faults.add(
            mark, f"the YAML tag `{shown(name)}` is not allowed", why="values are plain data", remedy="delete the tag"
        )

    def entries(self, found: yaml.MappingNode, depth: int) -> dict[str, Entry]:
        """Return the keys of a mapping: its own first, then those of ``<<`` in order."""
        entries: dict[str, Entry] = {}
        merged: list[tuple[Mark, Node]] = []
        for written, given in found.value:
            mark = self.mark(written.start_mark.line)
            key, value = self.key(written, mark), self.node(given, depth + 1)
            if written.tag == f"{_CORE}merge":
                merged += [(mark, one) for one in (value.items if isinstance(value, ListNode) else (value,))]
            elif key in entries:
                first = entries[key].mark.line
                why = "" if self.option else f"line {first} is the first"
                self.faults.add(mark, f"the key `{shown(key)}` is given twice", why=why, remedy="keep one of them")
            elif key is not None:
                entries[key] = Entry(mark=mark, node=value)
        for mark, source in merged:
            if isinstance(source, MapNode):
                entries = {**source.entries, **entries}
            else:
                self.faults.add(mark, "`<<` does not name a mapping", remedy="give it an alias such as `*defaults`")
        return entries

    def key(self, found: yaml.Node, mark: Mark) -> str | None:
        """Return the text of a key; None after a fault."""
        if not isinstance(found, yaml.ScalarNode):
            self.faults.add(mark, "a list or mapping cannot be a key", remedy="write a plain key")
            return None
        node = self.scalar(found, mark)
        if node.kind in ("text", "broken"):
            return node.text if node.kind == "text" else None
        what = f"the key `{shown(node.text)}` is not text" if node.text else "a key is missing before `:`"
        why = f"YAML reads {reading(node)}" if node.text else ""
        self.faults.add(mark, what, why=why, remedy=f'write it in quotes: "{shown(node.text)}"' if node.text else "")
        return None
