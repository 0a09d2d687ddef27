"""Texts, lists, tables and confusion matrices that a job logged, for display.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Literal

TableKind = Literal["text", "list", "table", "matrix", "file"]

#: The most that is kept of one table, and how many tables.
MOST_ROWS: Final = 20
MOST_COLUMNS: Final = 20
MOST_TABLES: Final = 20
MOST_CHARACTERS: Final = 80


@dataclass(frozen=True, kw_only=True)
class Table:
    """A logged value, cut to the size of a report. All of it is foreign text.

    Attributes:
        name: what it was logged as.
        kind: ``text`` is one value that is no number, ``list`` a summary of numbers, ``table`` rows and columns, ``matrix`` a confusion
            matrix with the actual classes in the first column, ``file`` a value in a file of the job.
        head: the columns' titles; none of a text and of a file.
        rows: the first rows, a text for each column of *head*; of a text and of a file the one value.
        total: how many rows there are.
        columns: how many columns there are.
        note: a sentence that must be read with it; empty where there is none.
    """

    name: str
    kind: TableKind
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    total: int = 1
    columns: int = 1
    note: str = ""

    @property
    def value(self) -> str:
        """The one value of a text or of a file."""
        return self.rows[0][0] if self.rows and self.rows[0] else ""

    def facts(self) -> dict[str, object]:
        """Return it as plain values, for JSON; what is empty is left out."""
        fields: dict[str, object] = {"name": self.name, "kind": self.kind}
        match self.kind:
            case "text" | "file":
                fields |= {"value": self.value}
            case "list":
                fields |= dict(zip(self.head, self.rows[0], strict=True))
            case _:
                fields |= {"columns": list(self.head), "rows": [list(row) for row in self.rows]}
                fields |= {"total_rows": self.total, "total_columns": self.columns}
        return {key: value for key, value in (fields | {"note": self.note}).items() if value != ""}

    @property
    def more(self) -> str:
        """The note, and how much is not in *rows*; empty if there is nothing to say."""
        left = []
        if self.kind not in ("text", "file", "list"):
            if self.total > len(self.rows):
                left.append(f"{self.total - len(self.rows)} more rows")
            if self.columns > len(self.head):
                left.append(f"{self.columns - len(self.head)} more columns")
        parts = [f"and {' and '.join(left)}"] if left else []
        return "; ".join([*parts, *([self.note] if self.note else [])])


def grouped(tables: Iterable[Table]) -> tuple[list[Table], list[Table], list[Table]]:
    """Return texts and files (one value each), lists (same columns), and other tables."""
    texts: list[Table] = []
    lists: list[Table] = []
    others: list[Table] = []
    for table in tables:
        (texts if table.kind in ("text", "file") else lists if table.kind == "list" else others).append(table)
    return texts, lists, others


def text(value: object) -> str:
    """Return a value of JSON as one short line: six digits, nothing for null."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6g}"
    line = " ".join(str(value).split())
    return line if len(line) <= MOST_CHARACTERS else line[: MOST_CHARACTERS - 1] + "…"
