"""What a job logged beside its numbers, as lines of plain text for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from aml_train.cli.table import table
from aml_train.core.tables import Table, grouped

_INDENT: Final = "  "


def lines_of(tables: Sequence[Table], more: int) -> Iterator[str]:
    """Yield the lines; nothing in them commands the terminal.

    Args:
        tables: what is shown.
        more: how many others there are.
    """
    texts, lists, others = grouped(tables)
    if texts:
        rows = [(one.name, one.value, one.more) for one in texts]
        yield from table(("LOGGED", "VALUE", ""), rows)
    if lists:
        summaries = [(one.name, *one.rows[0], one.more) for one in lists]
        yield from table(("LIST", *(title.upper() for title in lists[0].head), ""), summaries)
    for one in others:
        yield from table((_line(one.name),), [])
        for line in table(tuple(map(_line, one.head)), one.rows):
            yield _INDENT + line
        if one.more:
            yield _INDENT + one.more
    if more:
        yield f"and {more} more that the job logged"


def _line(text: str) -> str:
    from aml_train.cli.console import printable

    return printable(" ".join(text.split()))
