"""Parts of a text of Markdown, cut until they have room. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(kw_only=True)
class Section:
    """A part of a text; rows are cut from the end, without rows it is omitted.

    Attributes:
        name: what it is called where it is left out.
        importance: the greater, the later it is cut.
        tail: what closes the part.
    """

    name: str
    importance: int
    head: str = ""
    rows: list[str] = field(default_factory=list)
    tail: str = ""
    cut: int = 0

    def render(self) -> str:
        """Return the section."""
        if not self.rows:
            return ""
        more = [f"\n… and {self.cut} more."] if self.cut else []
        tail = [self.tail] if self.tail else []
        return "\n".join([*([self.head] if self.head else []), *self.rows, *more, *tail]) + "\n"


def fit(sections: Sequence[Section], limit: int) -> None:
    """Cut rows, those of the least important sections first, until all fit.

    *limit* is in bytes of UTF-8.
    """
    total = sum(count_bytes(section.render()) + 1 for section in sections)
    for section in sorted(sections, key=lambda one: one.importance):
        while total > limit and section.rows:
            # In steps, so that a great many rows do not take quadratic time.
            dropped = section.rows[-max(1, len(section.rows) // 8) :]
            del section.rows[-len(dropped) :]
            section.cut += len(dropped)
            total -= sum(count_bytes(row) + 1 for row in dropped)


def left_out(sections: Sequence[Section]) -> list[str]:
    """Return the names of the sections that were cut as a whole."""
    return [section.name for section in sections if section.cut and not section.rows]


def count_bytes(text: str) -> int:
    """Return the length of *text* in UTF-8."""
    return len(text.encode("utf-8"))
