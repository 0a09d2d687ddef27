"""Shapes of values: one definition checks a file and gives the JSON Schema.

Why not pydantic: each of its errors would need a translation and a look-up of its line; a YAML value that was read as
something unexpected (``no``, ``1.10``, ``1:30``) has lost its text by then; and its import and model building take longer
than everything that ``aml-train validate`` does. The grammar here needs a dozen small shapes.

A shape's ``check`` takes a node, its dotted name and the collector of faults. It returns the Python value, or
:data:`BAD` after a fault; lists and mappings leave bad parts out, so that one fault never hides another.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from aml_train.config.yaml.nodes import (
    Faults,
    ListNode,
    MapNode,
    Mark,
    Node,
    ScalarNode,
    plain,
    reading,
    shown,
    surprise,
)

BAD: Final[Any] = object()
"""The value of a node with a fault."""


class Shape(Protocol):
    """The shape of a value."""

    @property
    def noun(self) -> str:
        """A noun for messages: ``a list of package names``."""
        ...

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        """Return the value, or :data:`BAD` after a fault."""
        ...

    def schema(self) -> dict[str, Any]:
        """Return the JSON Schema of the same rule."""
        ...


def kind_word(node: Node) -> str:
    """Name what a node is: ``a list``, ``the number 1.1 …``."""
    if isinstance(node, MapNode):
        return "a mapping" if node.entries else "an empty mapping"
    if isinstance(node, ListNode):
        return "a list"
    return {"null": "empty", "bool": "a boolean", "int": "a number", "float": "a number", "date": "a date"}.get(
        node.kind, "text"
    )


def mismatch(node: Node, name: str, noun: str, faults: Faults, *, remedy: str = "", secret: bool = False) -> Any:
    """Add the fault that *node* is no *noun*; return :data:`BAD`."""
    if isinstance(node, ScalarNode) and node.kind == "broken":
        return BAD
    if isinstance(node, ScalarNode) and node.kind == "null":
        why = f"YAML reads {reading(node)}" if node.text else ""
        faults.add(node.mark, f"`{name}` has no value", why=why, remedy=f"give it {noun}, or delete the line")
        return BAD
    why = f"it is {kind_word(node)}"
    if isinstance(node, ScalarNode) and not secret:
        why = f"it is `{shown(node.text)}`"
    faults.add(node.mark, f"`{name}` must be {noun}", why=why, remedy=remedy)
    return BAD


@dataclass(frozen=True, kw_only=True)
class Text:
    """Text, perhaps of a given form.

    Attributes:
        noun: what it is.
        pattern: a regular expression that the whole text matches; it is part of the JSON Schema.
        remedy: what to write instead.
        rule: raises ValueError with a message for text that is not right.
        convert: makes the value of the text.
        secret: the value may be a secret and is never repeated.
        blank: the text may be empty.
    """

    noun: str = "text"
    blank: bool = False
    pattern: str | None = None
    remedy: str = ""
    rule: Callable[[str], object] | None = None
    convert: Callable[[str], Any] = str
    secret: bool = False

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode) or node.kind == "null":
            return mismatch(node, name, self.noun, faults, remedy=self.remedy)
        if node.kind != "text":
            return needs_quotes(node, name, self.noun, faults, secret=self.secret, remedy=self.remedy)
        return self.check_text(node.text, node.mark, f"`{name}`", faults)

    def check_text(self, text: str, mark: Mark, label: str, faults: Faults) -> Any:
        """Check the text itself; *label* is its name in faults."""
        if not text.strip() and not (self.secret or self.blank):
            faults.add(mark, f"{label} is empty", remedy=f"give it {self.noun}, or delete the line")
            return BAD
        if "\0" in text:
            faults.add(mark, f"{label} holds a NUL character", remedy="delete it")
            return BAD
        if self.pattern and not re.fullmatch(self.pattern, text):
            why = "" if self.secret else f"it is `{shown(text)}`"
            faults.add(mark, f"{label} must be {self.noun}", why=why, remedy=self.remedy)
            return BAD
        if self.rule:
            try:
                self.rule(text)
            except ValueError as error:
                faults.add(mark, f"{label} must be {self.noun}", why=shown(str(error), 300))
                return BAD
        return self.convert(text)

    def schema(self) -> dict[str, Any]:
        pattern = {"pattern": f"^(?:{self.pattern})$"} if self.pattern else {}
        return {"type": "string", **({} if self.secret or self.blank else {"minLength": 1}), **pattern}


def needs_quotes(
    node: ScalarNode, name: str, noun: str, faults: Faults, *, secret: bool = False, remedy: str = ""
) -> Any:
    """Add the fault that an unquoted value is no text for YAML."""
    if node.kind == "broken":
        return BAD
    why = f"YAML reads it as {kind_word(node)}" if secret else f"YAML reads {reading(node)}"
    remedy = remedy or ("write it in quotes" if secret else f'write it in quotes: "{shown(node.text)}"')
    faults.add(node.mark, f"`{name}` must be {noun}", why=why, remedy=remedy)
    return BAD


@dataclass(frozen=True, kw_only=True)
class Choice:
    """One of a few words; *fold* maps a spelling to its word, as azure-ai-ml does."""

    words: tuple[str, ...]
    fold: Callable[[str], str] = str
    aliases: tuple[str, ...] = ()
    remedy: str = ""

    @property
    def noun(self) -> str:
        words = [f"`{word}`" for word in self.words]
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode) or node.kind in ("null", "broken"):
            return mismatch(node, name, self.noun, faults)
        if node.kind == "text" and self.fold(node.text) in self.words + self.aliases:
            return node.text
        near = None if faults.full else nearest(node.text, self.words)
        remedy = f"did you mean `{near}`?" if near else self.remedy
        faults.add(node.mark, f"`{name}` must be {self.noun}", why=f"it is `{shown(node.text)}`", remedy=remedy)
        return BAD

    def schema(self) -> dict[str, Any]:
        if self.fold is str:
            return {"enum": [*self.words, *self.aliases]}
        return {"type": "string", "examples": list(self.words)}


@dataclass(frozen=True, kw_only=True)
class Number:
    """A number within bounds.

    *digits* also takes whole numbers as text, as azure-ai-ml does.
    """

    noun: str
    whole: bool = True
    minimum: float | None = None
    maximum: float | None = None
    digits: bool = False

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode):
            return mismatch(node, name, self.noun, faults)
        value = node.value
        if self.digits and node.kind == "text" and re.fullmatch(r"[0-9]{1,15}", node.text):
            value = int(node.text)
        elif node.kind not in (("int",) if self.whole else ("int", "float")):
            quoted = node.kind == "text" and node.text.strip().isdecimal()
            return mismatch(node, name, self.noun, faults, remedy="write it without quotes" if quoted else "")
        odd = surprise(node)
        if odd:
            faults.add(node.mark, f"`{name}` must be {self.noun}", why=odd, remedy="write a plain decimal number")
            return BAD
        low = self.minimum is not None and value < self.minimum
        if low or (self.maximum is not None and value > self.maximum):
            bound = f"at least {self.minimum:g}" if low else f"at most {self.maximum:g}"
            faults.add(node.mark, f"`{name}` must be {bound}", why=f"it is {shown(node.text)}")
            return BAD
        return value

    def schema(self) -> dict[str, Any]:
        bounds = {"minimum": self.minimum, "maximum": self.maximum}
        number = {"type": "integer" if self.whole else "number", **{k: v for k, v in bounds.items() if v is not None}}
        return {"anyOf": [number, {"type": "string", "pattern": "^[0-9]{1,15}$"}]} if self.digits else number


@dataclass(frozen=True, kw_only=True)
class Flag:
    """true or false. *words* also takes them as text, as azure-ai-ml does."""

    words: bool = False
    noun: str = "true or false"

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if isinstance(node, ScalarNode) and node.kind == "bool":
            return node.value
        if self.words and isinstance(node, ScalarNode) and node.text.lower() in ("true", "false", "yes", "no"):
            return node.text.lower() in ("true", "yes")
        return mismatch(node, name, self.noun, faults, remedy="write true or false, without quotes")

    def schema(self) -> dict[str, Any]:
        words = {"type": "string", "pattern": "^(?:[tT]rue|[fF]alse|[yY]es|[nN]o)$"}
        return {"anyOf": [{"type": "boolean"}, words]} if self.words else {"type": "boolean"}


@dataclass(frozen=True, kw_only=True)
class Anything:
    """Any data; for values that neither azure-ai-ml nor the service checks."""

    noun: str = "a value"

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        return plain(node)

    def schema(self) -> dict[str, Any]:
        return {}


@dataclass(frozen=True, kw_only=True)
class Literal:
    """A single value that keeps its type: a literal input of a job."""

    noun: str = "text, a number or a boolean"

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode) or node.kind in ("null", "date", "broken"):
            if isinstance(node, ScalarNode) and node.kind == "date":
                return needs_quotes(node, name, self.noun, faults)
            return mismatch(node, name, self.noun, faults)
        odd = surprise(node)
        if odd:
            remedy = f'write "{shown(node.text)}" in quotes for the text, or the plain value'
            faults.add(node.mark, f"`{name}` is ambiguous", why=odd, remedy=remedy)
            return BAD
        if node.kind == "text" and "\0" in node.text:
            faults.add(node.mark, f"`{name}` holds a NUL character", remedy="delete it")
            return BAD
        return node.value

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number", "boolean"]}


@dataclass(frozen=True, kw_only=True)
class Variable:
    """Text, or a number whose digits are the text, as for an environment variable.

    *secret* values are never repeated in faults.
    """

    noun: str = "text"
    secret: bool = True
    fractions: bool = True

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        kinds = ("int", "float") if self.fractions else ("int",)
        if isinstance(node, ScalarNode) and node.kind in kinds and str(node.value) == node.text:
            return node.text
        return Text(noun=self.noun, secret=self.secret).check(node, name, faults)

    def schema(self) -> dict[str, Any]:
        return {"type": ["string", "number" if self.fractions else "integer"]}


@dataclass(frozen=True, kw_only=True)
class Duration:
    """A time in seconds, or with units as in ``1h30m``; the value is in seconds."""

    noun: str = "a time in seconds, or such as `90s`, `30m`, `1h30m`"
    maximum: float = 30 * 24 * 3600.0

    def check(self, node: Node, name: str, faults: Faults) -> Any:
        if not isinstance(node, ScalarNode) or node.kind not in ("int", "float", "text"):
            return mismatch(node, name, self.noun, faults)
        odd = surprise(node)
        if odd:
            faults.add(node.mark, f"`{name}` must be {self.noun}", why=odd, remedy="write such as 90s or 30m")
            return BAD
        seconds = self.seconds(node.text) if node.kind == "text" else float(node.value)
        if seconds is None:
            return mismatch(node, name, self.noun, faults)
        if not (math.isfinite(seconds) and 0 < seconds <= self.maximum):
            why = f"it is {shown(node.text)}"
            faults.add(node.mark, f"`{name}` must be more than 0 and at most {self.maximum / 86400:g} days", why=why)
            return BAD
        return seconds

    @staticmethod
    def seconds(text: str) -> float | None:
        match = re.fullmatch(r"(?=\d)(?:(\d{1,6})d)?(?:(\d{1,6})h)?(?:(\d{1,6})m)?(?:(\d{1,9})s?)?", text)
        if match is None:
            return None
        days, hours, minutes, seconds = (int(part or 0) for part in match.groups())
        return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)

    def schema(self) -> dict[str, Any]:
        number = {"type": "number", "exclusiveMinimum": 0, "maximum": self.maximum}
        return {"anyOf": [number, {"type": "string", "pattern": r"^(?=\d)(\d+d)?(\d+h)?(\d+m)?(\d+s?)?$"}]}


def nearest(word: str, known: tuple[str, ...]) -> str | None:
    """Return the known word that *word* is most likely a typo of, or None."""

    plain_word = word.lower().replace("_", "-")
    same = {key.lower().replace("_", "-"): key for key in known[:200]}
    matches = difflib.get_close_matches(plain_word[:60], same, n=1, cutoff=0.6)
    return same[matches[0]] if matches else None
