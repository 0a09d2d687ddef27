"""Shapes of values with parts: lists, mappings, and alternatives."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aml_train.config.yaml.nodes import Faults, ListNode, MapNode, Mark, Node, ScalarNode, is_null, join, plain
from aml_train.config.yaml.shapes import BAD, Choice, Shape, Text, mismatch, nearest

_NAME: Final = Text(noun="a name")


@dataclass(frozen=True, kw_only=True)
class Items:
    """A list of like values; *least* of them at least."""

    item: Shape
    noun: str
    least: int = 0

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ListNode):
            remedy = "start each item on a separate line with `- `, or write [a, b]"
            return mismatch(node, name, self.noun, faults, remedy=remedy)
        if len(node.items) < self.least:
            faults.add(node.mark, f"`{name}` is empty", remedy=f"give it {self.noun}, or delete the line")
            return BAD
        values = [self.item.check(item, f"{name}.{index}", faults) for index, item in enumerate(node.items)]
        return [value for value in values if value is not BAD]

    def schema(self) -> dict[str, Any]:
        least = {"minItems": self.least} if self.least else {}
        return {"type": "array", "items": self.item.schema(), **least}


@dataclass(frozen=True)
class Key:
    """One key of a :class:`Record`: its shape and its line in the documentation."""

    shape: Shape
    text: str
    required: bool = field(default=False, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class Table:
    """A mapping whose keys the user chooses, *least* of them and *most* at most.

    *special* are keys with fixed names.
    """

    value: Shape
    noun: str
    key: Text = _NAME
    least: int = 0
    most: int | None = None
    special: Mapping[str, Key] = field(default_factory=dict)

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, MapNode):
            return mismatch(node, name, self.noun, faults, remedy="write it as indented `key: value` lines")
        if len(node.entries) < self.least:
            faults.add(node.mark, f"`{name}` is empty", remedy=f"give it {self.noun}, or delete the line")
            return BAD
        if self.most is not None and len(node.entries) > self.most:
            faults.add(node.mark, f"`{name}` has {len(node.entries)} entries, and at most {self.most} are possible")
            return BAD
        values: dict[str, Any] = {}
        for key, entry in node.entries.items():
            full = join(name, key)
            good = key if key in self.special else self.key.check_text(key, entry.mark, f"the key `{full}`", faults)
            shape = self.special[key].shape if key in self.special else self.value
            value = shape.check(_at(entry.node, entry.mark), full, faults)
            if good is not BAD and value is not BAD:
                values[good] = value
        return values

    def schema(self) -> dict[str, Any]:
        schema: dict[str, Any] = {"type": "object", "additionalProperties": self.value.schema()}
        if self.special:
            schema["properties"] = {
                key: {**({"description": spec.text} if spec.text else {}), **spec.shape.schema()}
                for key, spec in self.special.items()
            }
        names = {k: v for k, v in self.key.schema().items() if k != "type"}
        bounds = {"minProperties": self.least or None, "maxProperties": self.most}
        return {
            **schema,
            "propertyNames": names,
            **{key: value for key, value in bounds.items() if value is not None},
        }


@dataclass(frozen=True, kw_only=True)
class Record:
    """A mapping with known keys.

    Attributes:
        keys: the keys in the order of the documentation.
        noun: what it is.
        hints: what to say of keys that people look for here.
        ignored: keys that the service writes and azure-ai-ml ignores.
        one_of: exactly one of these keys must be there.
        lenient: azure-ai-ml passes unknown keys on, and so do we, with a remark.
        nullable: a key that is not required may be null; its value is None.
        section: the dataclass that its values make; see :mod:`aml_train.config.section`.
    """

    keys: Mapping[str, Key]
    noun: str
    hints: Mapping[str, str] = field(default_factory=dict)
    ignored: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    lenient: bool = False
    nullable: bool = False
    section: type | None = None

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, MapNode):
            return mismatch(node, name, self.noun, faults, remedy="write it as indented `key: value` lines")
        values: dict[str, Any] = {}
        for key, entry in node.entries.items():
            full = join(name, key)
            if self.lenient and key not in self.keys:
                near = nearest(key, tuple(self.keys))
                meant = f" Did you mean `{near}`?" if near else ""
                faults.remark(entry.mark, f"`{full}` is not known, and is passed on as it is.{meant}")
                values[key] = plain(entry.node)
            elif self.nullable and key in self.keys and not self.keys[key].required and is_null(entry.node):
                values[key] = None
            elif key in self.keys:
                value = self.keys[key].shape.check(_at(entry.node, entry.mark), full, faults)
                if value is not BAD:
                    values[key] = value
            elif key not in self.ignored:
                self.unknown(key, full, entry.mark, faults)
        of = f" of `{name}`" if name else ""
        for key, spec in self.keys.items():
            if spec.required and key not in node.entries and key not in node.apart:
                faults.add(node.mark, f"the key `{key}`{of} is missing", remedy=f"give it {spec.shape.noun}")
        if self.one_of:
            given = [key for key in self.one_of if key in node.entries]
            words = " or ".join(f"`{key}`" for key in self.one_of)
            if not given:
                faults.add(node.mark, f"{words}{of} is missing", remedy="give one of them")
            elif len(given) > 1:
                mark = node.entries[given[1]].mark
                faults.add(
                    mark, f"{' and '.join(f'`{key}`' for key in given)}{of} exclude each other", remedy="keep one"
                )
        return values

    def unknown(self, key: str, full: str, mark: Mark, faults: Faults) -> None:
        if key in self.hints:
            faults.add(mark, f"unknown key `{full}`", remedy=self.hints[key])
        else:
            near = None if faults.full else nearest(key, tuple(self.keys))
            known = ", ".join(f"`{known}`" for known in self.keys)
            faults.add(
                mark, f"unknown key `{full}`", remedy=f"did you mean `{near}`?" if near else f"known are {known}"
            )

    def schema(self) -> dict[str, Any]:
        properties = {key: {"description": spec.text, **spec.shape.schema()} for key, spec in self.keys.items()}
        schema: dict[str, Any] = {
            "type": "object",
            "additionalProperties": self.lenient,
            "properties": {**properties, **{key: {} for key in self.ignored}},
        }
        required = [key for key, spec in self.keys.items() if spec.required]
        if required:
            schema["required"] = required
        if self.one_of:
            schema["oneOf"] = [{"required": [key]} for key in self.one_of]
        return schema


@dataclass(frozen=True, kw_only=True)
class Variants:
    """A mapping whose key ``type`` selects its record.

    Attributes:
        records: the record for each type.
        noun: what it is.
        fold: maps the spelling of a type to that in *records*.
        untyped: the record without ``type``; None if it is required.
        marker: a key that selects its record, whatever the type.
        remedy: what to write instead of an unknown type.
    """

    records: Mapping[str, Record]
    noun: str
    fold: Callable[[str], str]
    untyped: Record | None = None
    marker: tuple[str, Record] | None = None
    remedy: str = ""

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, MapNode):
            return mismatch(node, name, self.noun, faults, remedy="write it as indented `key: value` lines")
        if self.marker and self.marker[0] in node.entries:
            return self.marker[1].check(node, name, faults)
        entry = node.entries.get("type")
        if entry is None:
            if self.untyped is not None:
                return self.untyped.check(node, name, faults)
            listed = ", ".join(f"`{word}`" for word in self.records)
            faults.add(node.mark, f"the key `type` of `{name}` is missing", remedy=f"give it one of {listed}")
            return BAD
        value = entry.node
        kind = self.fold(value.text) if isinstance(value, ScalarNode) and value.kind == "text" else ""
        record = self.records.get(kind)
        if record is not None:
            return record.check(node, name, faults)
        choice = Choice(words=tuple(self.records), fold=self.fold, remedy=self.remedy)
        return choice.check(value, f"{name}.type", faults)

    def schema(self) -> dict[str, Any]:
        records = [*self.records.values(), self.untyped, self.marker[1] if self.marker else None]
        options: list[dict[str, Any]] = []
        for record in records:
            schema = record.schema() if record is not None else None
            if schema is not None and schema not in options:
                options.append(schema)
        return {"anyOf": options}


@dataclass(frozen=True, kw_only=True)
class Either:
    """Different shapes for a single value, a list, a mapping and an absent value.

    *short* is the key of the mapping that a single value stands for; the value of both is a mapping then.
    """

    noun: str
    scalar: Shape | None = None
    items: Shape | None = None
    keys: Shape | None = None
    nothing: bool = False
    short: str = ""

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if self.nothing and is_null(node):
            return None
        of_parts = self.keys if isinstance(node, MapNode) else self.items
        shape = self.scalar if isinstance(node, ScalarNode) else of_parts
        empty = isinstance(node, ScalarNode) and node.kind == "null" and not node.text
        if shape is None or empty:
            return mismatch(node, name, self.noun, faults)
        value = shape.check(node, name, faults)
        return {self.short: value} if self.short and isinstance(node, ScalarNode) and value is not BAD else value

    def schema(self) -> dict[str, Any]:
        schemas = [shape.schema() for shape in (self.scalar, self.items, self.keys) if shape is not None]
        return {"anyOf": [*schemas, {"type": "null"}] if self.nothing else schemas}


def _at(node: Node, mark: Mark) -> Node:
    """Give a block the place of its key, for faults; a scalar keeps its own."""
    if isinstance(node, MapNode | ListNode):
        return replace(node, mark=mark)
    if node.kind == "null" and not node.text:
        return ScalarNode(mark=mark, text="", kind="null", value=None)
    return node
