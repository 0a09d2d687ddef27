"""What azureml-core logged in forms of its own, as tables of Markdown. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from aml_train.core.tables import Table, grouped
from aml_train_action.report.markdown import code, escape
from aml_train_action.report.record import Record


def tables_of(record: Record) -> list[str]:
    """Return each table as Markdown of its own: texts together, then lists, then the others."""
    texts, lists, others = grouped(record.tables)
    found = []
    if texts:
        rows = [[code(one.name, most=200), escape(one.value), escape(one.more)] for one in texts]
        found.append(_table(("logged", "value", ""), rows, numbers=False))
    if lists:
        rows = [[code(one.name, most=200), *map(escape, one.rows[0]), escape(one.more)] for one in lists]
        found.append(_table(("list", *lists[0].head, ""), rows, numbers=True))
    found += map(_one, others)
    return found


def _one(table: Table) -> str:
    """Return a table under its name; the first column of a matrix holds the labels."""
    rows = [
        [f"**{escape(row[0])}**", *map(escape, row[1:])] if table.kind == "matrix" else list(map(escape, row))
        for row in table.rows
    ]
    more = f"\n{escape(table.more)}\n" if table.more else ""
    title = "Confusion matrix " if table.kind == "matrix" else "Table "
    return f"{title}{code(table.name, most=200)}\n\n{_table(table.head, rows, numbers=table.kind == 'matrix')}{more}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool) -> str:
    return "\n".join(_lines(head, rows, numbers=numbers)) + "\n"


def _lines(head: Sequence[str], rows: Sequence[Sequence[str]], *, numbers: bool) -> Iterator[str]:
    yield f"| {' | '.join(map(escape, head))} |"
    yield "|" + "|".join("---:" if numbers and place else "---" for place in range(len(head))) + "|"
    for row in rows:
        yield f"| {' | '.join(row)} |"
