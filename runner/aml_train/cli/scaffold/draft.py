"""The configuration that is proposed, as lines with their reasons. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import yaml

from aml_train.config import Mark

Value = str | int | float | bool


@dataclass(frozen=True, kw_only=True)
class Item:
    """One key of the configuration.

    Attributes:
        key: its name.
        value: a scalar, a list of scalars, or further keys.
        why: why it was chosen.
        origin: where it was read; None where it is a default.
        proposed: written as a comment, because only the user can say whether and what.
    """

    key: str
    value: Value | Sequence[Value] | Sequence[Item]
    why: str = ""
    origin: Mark | None = None
    proposed: bool = False

    @property
    def reason(self) -> str:
        """Origin and reason in one line."""
        where = self.origin.where if self.origin else ""
        return ": ".join(part for part in (where, self.why) if part)


@dataclass(kw_only=True)
class Draft:
    """What is proposed.

    Attributes:
        items: the keys, in their order.
        notes: what was found and not used, and what the user should look at.
    """

    items: list[Item] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line of the file that a guess stands in: its number, one-based, the dotted key, what was written, and why."""

    number: int
    key: str
    text: str
    reason: str


HEADER = """\
# A first configuration, written by `aml-train init` from what it found. Behind each guess stands where it comes from:
# look at them, and check with `aml-train validate`. docs/configuration.md has every key.
"""


def render(draft: Draft) -> tuple[str, list[Line]]:
    """Return the file's text, and its guesses by line."""
    lines = HEADER.splitlines()
    guesses: list[Line] = []
    for item in draft.items:
        _write(item, "", "", lines, guesses)
    return "\n".join(lines) + "\n", sorted(guesses, key=lambda line: line.number)


def _write(item: Item, indent: str, above: str, lines: list[str], guesses: list[Line]) -> None:
    name = f"{above}.{item.key}" if above else item.key
    start = len(lines)
    key = f"{indent}{scalar(item.key)}:"
    comment = f"   # {' '.join(item.reason.split())}" if item.reason else ""
    if isinstance(item.value, str | int | float | bool):
        shown = scalar(item.value)
        if "\n" in shown or (isinstance(item.value, str) and "\n" in item.value.strip("\n")):
            text = str(item.value).rstrip("\n")
            lines.append(f"{key} |{comment}")
            lines += [f"{indent}  {line}".rstrip() for line in text.splitlines()]
            shown = text.partition("\n")[0] + " …"
        else:
            lines.append(f"{key} {shown}{comment}")
    else:
        lines.append(f"{key}{comment}")
        shown = ""
        for inner in item.value:
            if isinstance(inner, Item):
                _write(inner, indent + "  ", name, lines, guesses)
            else:
                lines.append(f"{indent}  - {scalar(inner)}")
        if not any(isinstance(inner, Item) for inner in item.value):
            shown = ", ".join(str(inner) for inner in item.value if not isinstance(inner, Item))
    if item.reason:
        guesses.append(Line(number=start + 1, key=name, text=shown, reason=item.reason))
    if item.proposed:
        lines[start:] = [f"# {line}" for line in lines[start:]]


def scalar(value: Value) -> str:
    """Return a scalar as YAML on one line, quoted where YAML would take it for something else."""
    text: str = yaml.safe_dump(value, default_flow_style=True, width=1_000_000, allow_unicode=True)
    return text.removesuffix("\n").removesuffix("\n...")
