"""Tables of plain text, as commands that list things print them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """Yield the lines of a table; columns are as wide as they must be, and nothing commands the terminal."""
    from aml_train.cli.console import printable

    lines = [tuple(head), *(tuple(printable(" ".join(cell.split())) for cell in row) for row in rows)]
    widths = [max(len(line[column]) for line in lines) for column in range(len(head))]
    for line in lines:
        yield "  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip()
