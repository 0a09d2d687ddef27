"""``--set key=value``: changes to the configuration from the command line.

A key is the dotted path of a key of aml-train.yml; ``job.…`` reaches into the job, wherever it is written. Parts with
dots are in quotes (``gate."val.loss"``); a number picks an item of a list. The value is YAML.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aml_train.config.yaml.nodes import (
    Entry,
    Faults,
    ListNode,
    MapNode,
    Mark,
    Node,
    ScalarNode,
    find,
    plain,
    scalars,
    shown,
)
from aml_train.config.yaml.shapes import nearest
from aml_train.config.yaml.source import decode
from aml_train.config.yaml.tree import MAX_DEPTH, parse

_PART = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|([^.="'\s][^.="']*?))\s*(?=[.=])""")


@dataclass(frozen=True, kw_only=True)
class Override:
    """One ``--set``: the parts of the key, the value, and the place for faults."""

    keys: tuple[str, ...]
    node: Node
    mark: Mark

    def within_job(self) -> Override:
        """The same change, seen from inside the job."""
        return replace(self, keys=self.keys[1:])


@dataclass(frozen=True, kw_only=True)
class Overrides:
    """All of ``--set``, in order: a later one wins."""

    document: tuple[Override, ...] = ()
    job: tuple[Override, ...] = ()
    values: dict[str, Any] = field(default_factory=dict)


def parse_overrides(sets: Sequence[str], faults: Faults) -> Overrides:
    """Read the values of ``--set``; one that cannot be read becomes a fault."""
    read = [override for text in sets if (override := _parse(text, faults)) is not None]
    return Overrides(
        document=tuple(one for one in read if one.keys[0] != "job" or len(one.keys) == 1),
        job=tuple(one.within_job() for one in read if one.keys[0] == "job" and len(one.keys) > 1),
        values={_dotted(one.keys): plain(one.node) for one in read},
    )


def _bytes(given: str) -> bytes:
    try:
        return given.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a program's text, which no command line holds
        return given.encode("utf-8", "surrogatepass")


def _parse(given: str, faults: Faults) -> Override | None:
    name = f"--set {shown(given.partition('=')[0])}"
    # Arguments that are not UTF-8 arrive with surrogates; as bytes again, they get the checks of a file.
    text = decode(_bytes(given), name, Faults())
    if text is None:
        faults.add(Mark(file="--set"), "the argument is not plain UTF-8 text", remedy="delete the odd characters")
        return None
    keys: list[str] = []
    position = 0
    while match := _PART.match(text, position):
        keys.append(next(group for group in match.groups() if group))
        position = match.end() + 1
        if text[match.end()] == "=":
            break
    else:
        faults.add(Mark(file=name), "this is not `key=value`", remedy="write such as --set job.inputs.epochs=5")
        return None
    mark = Mark(file=f"--set {shown(_dotted(keys))}", option=True)
    if len(keys) > MAX_DEPTH:
        faults.add(mark, f"the key has more than {MAX_DEPTH} parts")
        return None
    value = text[position:].strip()
    node: Node | None
    if value[:1] in (">", "|", "@", "%", "`"):
        node = ScalarNode(mark=mark, text=value, kind="text", value=value)
    else:
        before = len(faults)
        node = parse(value, mark.file, faults, option=True)
        if node is None and len(faults) == before:
            node = ScalarNode(mark=mark, text="", kind="null", value=None)
        if isinstance(node, ScalarNode) and " #" in value and value[:1] not in ("'", '"'):
            # In a file a comment would start there; an argument has no comments.
            node = ScalarNode(mark=mark, text=value, kind="text", value=value)
    return None if node is None else Override(keys=tuple(keys), node=node, mark=mark)


def _dotted(keys: Sequence[str]) -> str:
    return ".".join(f'"{key}"' if "." in key or "=" in key else key for key in keys)


def apply(tree: MapNode, overrides: Sequence[Override], faults: Faults) -> MapNode:
    """Return *tree* with the changes made; those that do not fit become faults."""
    for override in overrides:
        changed = _put(tree, override.keys, override, faults)
        if isinstance(changed, MapNode):
            tree = changed
    return tree


#: Mappings of a job whose keys the user chooses, and the expression by which a command uses one.
_DECLARED: Final = {
    "inputs": r"\$\{\{\s*(?:parent\.)?inputs\.NAME\b",
    "outputs": r"\$\{\{\s*(?:parent\.)?outputs\.NAME\b",
    "search_space": r"\$\{\{\s*search_space\.NAME\b",
    "environment_variables": r"\$\{?NAME\b",
    "environmentVariables": r"\$\{?NAME\b",
}


def apply_to_job(tree: MapNode, overrides: Sequence[Override], faults: Faults) -> MapNode:
    """Return the *tree* of a job with the changes made; see :func:`apply`.

    A change of an input, an output or an environment variable that the job neither declares nor uses is a typo.
    """
    changed, whole = tree, apply(tree, overrides, Faults())
    for override in overrides:
        before, changed = changed, apply(changed, (override,), faults)
        for at, key in enumerate(override.keys[:-1]):
            holder, name = find(before, *override.keys[:at]), override.keys[at + 1]
            if (
                key not in _DECLARED
                or not isinstance(holder, MapNode)
                or isinstance(find(holder, "component"), ScalarNode)
            ):
                continue  # a component's file has the declarations
            declared = find(holder, key)
            known = tuple(declared.entries) if isinstance(declared, MapNode) else ()
            uses = re.compile(_DECLARED[key].replace("NAME", re.escape(name)))
            if name in known or any(
                uses.search(one.text) for one in scalars(find(whole, *override.keys[:at]) or whole)
            ):
                break
            near = nearest(name, known)
            remedy = f"did you mean `{near}`?" if near else "declare it in the job, or use it in its command"
            faults.add(override.mark, f"the job has no `{key}.{shown(name)}`", remedy=remedy)
            break
    return changed


def _put(node: Node, keys: tuple[str, ...], override: Override, faults: Faults) -> Node:
    if not keys:
        return override.node
    key, rest = keys[0], keys[1:]
    done = _dotted(override.keys[: len(override.keys) - len(keys)])
    if isinstance(node, ScalarNode) and node.kind == "null":
        node = MapNode(mark=override.mark, entries={})
    if isinstance(node, MapNode):
        old = node.entries.get(key)
        mark = old.mark if old is not None and rest else override.mark
        below = old.node if old is not None else MapNode(mark=override.mark, entries={})
        entry = Entry(mark=mark, node=_put(below, rest, override, faults))
        return replace(node, entries={**node.entries, key: entry})
    if isinstance(node, ListNode):
        if not re.fullmatch(r"[0-9]{1,6}", key) or int(key) > len(node.items):
            last = len(node.items)
            faults.add(
                override.mark,
                f"`{done}` is a list and has no item `{shown(key)}`",
                remedy=f"write a number from 0 to {last}",
            )
            return node
        items = list(node.items)
        index = int(key)
        below = items[index] if index < len(items) else MapNode(mark=override.mark, entries={})
        items[index : index + 1] = [_put(below, rest, override, faults)]
        return replace(node, items=tuple(items))
    faults.add(
        override.mark, f"`{done}` is a single value and has no key `{shown(key)}`", remedy=f"set `{done}` itself"
    )
    return node
