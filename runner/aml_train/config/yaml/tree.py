"""YAML text → a tree of :mod:`aml_train.config.yaml.nodes`.

The tree is built from the parser's events, in a loop and within bounds, so that neither deep nesting nor aliases of
aliases cost more than the text itself. libyaml is used if PyYAML was built with it; the pure parser is the same grammar.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any, Final, cast

import yaml

from aml_train.config.yaml.nodes import (
    Entry,
    Faults,
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

# A part of the parser's message → our message, and the remedy. The first match is used.
_WORDS: Final = (
    (
        (
            "expected comment or a line break",
            "expected chomping or indentation indicators",
            "expected comment or line",
        ),
        "`>` or `|` starts a block of text here",
        'put the value in quotes, such as ">= 0.95"',
    ),
    (
        ("mapping values are not allowed",),
        "a `:` is not allowed here",
        "put a text that contains `: ` in quotes, or correct the indentation",
    ),
    (
        ("could not find expected ':'",),
        "this is neither `key: value` nor an item of a list",
        "put a space after the `:`, or correct the indentation",
    ),
    (
        ("unknown escape character", "did not find expected hexdecimal number", "expected escape sequence"),
        "the text in double quotes has an escape that YAML does not know",
        "write `\\\\` for a backslash, or use single quotes",
    ),
    (
        ("unexpected end of stream", "unexpected document"),
        "a quote is opened and never closed",
        "add the closing quote",
    ),
    (
        ("expected ',' or ']'", "expected ',' or '}'"),
        "a bracket is opened and not closed, or a comma is missing",
        "close the bracket, and put commas between the values",
    ),
    (
        ("did not find expected '-' indicator", "expected <block end>", "did not find expected key"),
        "the indentation does not fit the lines above, or a quote or bracket ended too early",
        "give the keys of one mapping the same indentation",
    ),
    (
        ("did not find expected node content", "expected the node content"),
        "a value is missing, or starts with a character that must be quoted",
        "put the value in quotes",
    ),
    (("block sequence entries are not allowed",), "a list item `-` is not allowed here", "put it on a separate line"),
    (("second anchor", "duplicate anchor"), "a value has two anchors", "keep one of them"),
    (("undefined tag handle", "parsing a tag", "while scanning a tag"), "a YAML tag is malformed", "delete the tag"),
    (("alias",), "an alias is malformed", "put a text that starts with `*` in quotes"),
    (("anchor",), "an anchor is malformed", "put a text that starts with `&` in quotes"),
    (
        ("directive", "incompatible YAML document", "version number"),
        "a `%` directive is malformed",
        "delete the line",
    ),
)


def explain(error: yaml.YAMLError, lines: list[str]) -> tuple[int, str, str]:
    """Translate a syntax error.

    Args:
        error: what the parser raised.
        lines: the source, split into lines.

    Returns:
        The one-based line, what is wrong, and the remedy.
    """
    if not isinstance(error, yaml.MarkedYAMLError):
        return 1, "the text is not YAML", "delete the characters that YAML does not allow"
    problem, context = error.problem or "", error.context or ""
    at = error.problem_mark or error.context_mark
    line = min(at.line, len(lines) - 1) if at else 0
    source = lines[line]
    for number in (line, line - 1):
        if number >= 0 and "\t" in lines[number][: len(lines[number]) - len(lines[number].lstrip())]:
            return number + 1, "the line is indented with a tab", "indent with spaces"
    if "cannot start any token" in problem:
        char = source[at.column : at.column + 1] if at else ""
        return line + 1, f"a value cannot start with `{char or 'this character'}`", "put the value in quotes"
    words = f"{context} {problem}"
    before = lines[line - 1].strip() if line else ""
    if "mapping values are not allowed" in problem and before and not re.search(r"[:#\[{\"']|^-", before):
        return line, "this is neither `key: value` nor an item of a list", "put a `:` and a space after the key"
    for needles, what, remedy in _WORDS:
        if any(needle in words for needle in needles):
            start = error.context_mark
            if start is not None and ("quote is opened" in what or "bracket is opened" in what):
                return min(start.line, len(lines) - 1) + 1, what, remedy
            return line + 1, what, remedy
    return line + 1, f"YAML syntax error: {problem or context}", "correct the line or the one above"


MAX_DEPTH: Final = 50
MAX_NODES: Final = 20_000
"""Values in one file; each use of an alias counts with all that it stands for."""
CHARACTERS: Final = 64
"""A text counts as one value more for each so many characters, so that aliases of a long text are bounded too."""

_Loader: Final[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _StopReading(Exception):  # noqa: N818 - a signal within this module, after a fault
    pass


@dataclass(kw_only=True)
class _Built:
    node: Node
    size: int
    height: int


@dataclass(kw_only=True)
class _Open:
    """A list or mapping whose end has not come yet."""

    mark: Mark
    mapping: bool
    anchor: str | None
    items: list[Node] = field(default_factory=list)
    entries: dict[str, Entry] = field(default_factory=dict)
    merges: list[tuple[Mark, Node]] = field(default_factory=list)
    key: tuple[str | None, Mark, bool] | None = None
    size: int = 1
    height: int = 1


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
    builder = _Builder(text=text, file=file, faults=faults, option=option)
    try:
        for event in yaml.parse(text, Loader=_Loader):
            builder.take(event)
    except _StopReading:
        return None
    except yaml.YAMLError as error:
        line, what, remedy = explain(error, builder.lines)
        faults.add(builder.mark(line - 1), what, remedy=remedy)
        return None
    return builder.root


@dataclass(kw_only=True)
class _Builder:
    text: str
    file: str
    faults: Faults
    option: bool
    root: Node | None = None
    lines: list[str] = field(init=False)
    stack: list[_Open] = field(default_factory=list)
    anchors: dict[str, _Built | None] = field(default_factory=dict)
    documents: int = 0
    total: int = 0

    def __post_init__(self) -> None:
        self.lines = LINE_BREAK.split(self.text)

    def mark(self, line: int) -> Mark:
        return Mark(file=self.file, line=None if self.option else line + 1, option=self.option)

    def take(self, event: yaml.Event) -> None:
        line = event.start_mark.line if event.start_mark else 0
        match event:
            case yaml.DocumentStartEvent():
                self.documents += 1
                if self.documents > 1:
                    self.faults.add(
                        self.mark(line),
                        "a second YAML document starts here",
                        remedy="keep one, without `---` between",
                    )
                    raise _StopReading
            case yaml.AliasEvent():
                self.alias(event.anchor or "", line)
            case yaml.ScalarEvent():
                self.scalar(event, line)
            case yaml.SequenceStartEvent() | yaml.MappingStartEvent():
                self.open(event, line)
            case yaml.SequenceEndEvent() | yaml.MappingEndEvent():
                self.close()
            case _:
                pass  # stream start and end, document end: nothing to build

    def alias(self, name: str, line: int) -> None:
        built = self.anchors.get(name)
        if built is None:
            inside = name in self.anchors
            self.faults.add(
                self.mark(line),
                f"the alias `*{shown(name)}` " + ("is inside its own anchor" if inside else "has no anchor"),
                remedy="write the value out"
                if inside
                else f"define it before with `&{shown(name)}`, or quote the text",
            )
            raise _StopReading
        self.add(built, line)

    def scalar(self, event: yaml.ScalarEvent, line: int) -> None:
        mark = self.mark(line)
        text = event.value
        kind, value = "text", text
        # style "" or None is a plain scalar; everything quoted, block or tagged !!str is text
        if event.style in (None, "") and event.tag is None:
            try:
                kind, value = resolve(text)
            except ScalarError as error:
                self.faults.add(mark, f"`{shown(text)}` {error}", remedy="write it in quotes if it is text")
                kind, value = "broken", text
        elif event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            self.tag(event.tag, mark)
            kind = "broken"
        end = event.end_mark.line if event.end_mark else line
        raw = tuple(self.lines[line : end + 1]) if end > line else ()
        merge = text == "<<" and event.style in (None, "")
        node = ScalarNode(mark=mark, text=text, kind=cast("Any", kind), value=value, raw=raw)
        size = 1 + len(text) // CHARACTERS
        self.add(_Built(node=node, size=size, height=1), line, anchor=event.anchor, merge=merge)

    def tag(self, tag: str, mark: Mark) -> None:
        name = tag.replace("tag:yaml.org,2002:", "!!") if tag.startswith("tag:yaml.org") else tag
        self.faults.add(
            mark, f"the YAML tag `{shown(name)}` is not allowed", why="values are plain data", remedy="delete the tag"
        )

    def open(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent, line: int) -> None:
        mapping = isinstance(event, yaml.MappingStartEvent)
        core = "tag:yaml.org,2002:map" if mapping else "tag:yaml.org,2002:seq"
        if event.tag not in (None, "!", core):
            self.tag(event.tag, self.mark(line))
        if len(self.stack) >= MAX_DEPTH:
            self.too_deep(line)
        if event.anchor:
            self.anchors[event.anchor] = None
        self.stack.append(_Open(mark=self.mark(line), mapping=mapping, anchor=event.anchor))

    def too_deep(self, line: int) -> None:
        self.faults.add(self.mark(line), f"the values are nested deeper than {MAX_DEPTH} levels")
        raise _StopReading

    def close(self) -> None:
        frame = self.stack.pop()
        node: Node
        if frame.mapping:
            self.merge(frame)
            node = MapNode(mark=frame.mark, entries=frame.entries)
        else:
            node = ListNode(mark=frame.mark, items=tuple(frame.items))
        self.total -= frame.size - 1  # counted with the parts already
        built = _Built(node=node, size=frame.size, height=frame.height)
        self.add(built, (frame.mark.line or 1) - 1, anchor=frame.anchor)

    def add(self, built: _Built, line: int, *, anchor: str | None = None, merge: bool = False) -> None:
        """Add a finished value: as the root, an item, a key or a key's value."""
        self.total += built.size
        if self.total > MAX_NODES:
            self.faults.add(
                self.mark(line),
                f"the file holds more than {MAX_NODES:,} values",
                why="each use of an alias counts with all that it stands for",
            )
            raise _StopReading
        if len(self.stack) + built.height > MAX_DEPTH + 1:
            self.too_deep(line)
        if anchor:
            self.anchors[anchor] = built
        if not self.stack:
            self.root = built.node
            return
        frame = self.stack[-1]
        frame.size += built.size
        frame.height = max(frame.height, built.height + 1)
        if not frame.mapping:
            frame.items.append(built.node)
        elif frame.key is None:
            frame.key = self.key(built.node, line, merge=merge)
        else:
            self.value(frame, built.node)

    def key(self, node: Node, line: int, *, merge: bool) -> tuple[str | None, Mark, bool]:
        mark = self.mark(line)
        if not isinstance(node, ScalarNode):
            self.faults.add(mark, "a list or mapping cannot be a key", remedy="write a plain key")
            return None, mark, False
        if node.kind == "broken":
            return None, mark, False
        if node.kind != "text":
            what = "a key is missing before `:`" if not node.text else f"the key `{shown(node.text)}` is not text"
            why = f"YAML reads {reading(node)}" if node.text else ""
            self.faults.add(
                mark, what, why=why, remedy=f'write it in quotes: "{shown(node.text)}"' if node.text else ""
            )
            return None, mark, False
        return node.text, mark, merge

    def value(self, frame: _Open, node: Node) -> None:
        key, mark, merge = cast("tuple[str | None, Mark, bool]", frame.key)
        frame.key = None
        if key is None:
            return
        if merge:
            frame.merges.append((mark, node))
        elif key in frame.entries:
            first = frame.entries[key].mark.line
            self.faults.add(
                mark,
                f"the key `{shown(key)}` is given twice",
                why="" if self.option else f"line {first} is the first",
                remedy="keep one of them",
            )
        else:
            frame.entries[key] = Entry(mark=mark, node=node)

    def merge(self, frame: _Open) -> None:
        """Fill in the keys of ``<<``: the mapping's own first, then in order."""
        for mark, node in frame.merges:
            for source in node.items if isinstance(node, ListNode) else (node,):
                if isinstance(source, MapNode):
                    for key, entry in source.entries.items():
                        frame.entries.setdefault(key, entry)
                else:
                    self.faults.add(
                        mark, "`<<` does not name a mapping", remedy="give it an alias such as `*defaults`"
                    )
