"""Tables of plain text: lists of jobs and models, what a job logged, comparisons.

The layout is ours and the widths are rich's: rich.table takes a millisecond for a row, and cuts cells to the terminal's width.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Final

from rich.cells import cell_len

from aml_train.cli.output import printable_line
from aml_train.core.comparison import Comparison
from aml_train.core.events import TagChange
from aml_train.core.tables import Table, grouped

_INDENT: Final = "  "
_WIDEST: Final = 60
_MOST_METRICS: Final = 6
#: Narrower cells of a comparison would cut its numbers.
_NARROWEST: Final = 12


def table(
    head: Sequence[str], rows: Sequence[Sequence[str]], *, right: Collection[tuple[int, int]] = ()
) -> Iterator[str]:
    """Yield the lines of a table; every cell is made printable, on one line.

    Args:
        head: the titles of the columns.
        rows: the cells.
        right: row and column of the cells that are aligned to the right.
    """
    lines = [tuple(head), *(tuple(map(printable_line, row)) for row in rows)]
    widths = [max(cell_len(line[column]) for line in lines) for column in range(len(head))]
    for number, line in enumerate(lines, start=-1):
        places = []
        for column, (text, width) in enumerate(zip(line, widths, strict=True)):
            pad = " " * (width - cell_len(text))
            places.append(pad + text if (number, column) in right else text + pad)
        yield "  ".join(places).rstrip()


def fitted_table(
    head: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, *, least: Mapping[str, int], right: str
) -> Iterator[str]:
    """Yield the lines of a table of at most *width* characters.

    Empty columns are left out. If it is too wide, cells are cut as far as their columns allow, then the last columns are left out. The first two stay.

    Args:
        head: the titles of the columns, the most important first.
        rows: the cells.
        width: of the terminal; None for no bound.
        least: the widths to which cells may be cut, by title; others are never cut.
        right: the column whose cells are aligned to the right.
    """
    lines = [tuple(map(printable_line, row)) for row in rows]
    kept = [at for at, _ in enumerate(head) if at < 2 or any(line[at] for line in lines)]
    natural = {at: max(cell_len(head[at]), *(cell_len(line[at]) for line in lines), 0) for at in kept}
    widths = dict(natural)
    while width is not None and kept:
        widths = {at: natural[at] for at in kept}
        excess = sum(widths.values()) + 2 * (len(kept) - 1) - width
        for at in reversed(kept):
            narrowest = max(least.get(head[at], natural[at]), cell_len(head[at]))
            cut = max(0, min(excess, natural[at] - narrowest))
            widths[at] -= cut
            excess -= cut
        if excess <= 0 or len(kept) <= 2:
            break
        kept.pop()
    cells = [tuple(_cut(line[at], widths[at]) for at in kept) for line in lines]
    places = {(number, kept.index(at)) for at in kept if head[at] == right for number in range(-1, len(cells))}
    yield from table([head[at] for at in kept], cells, right=places)


def metric_cell(values: Mapping[str, float], names: Sequence[str] = ()) -> str:
    """Return metrics in a cell: those of *names* in their order, else the first few."""
    shown = [name for name in names if name in values] if names else sorted(values)[:_MOST_METRICS]
    return " ".join(f"{name}={values[name]:.6g}" for name in shown)


def _cut(text: str, width: int) -> str:
    """Return *text*, ended by an ellipsis where it is wider than *width* cells."""
    if cell_len(text) <= width:
        return text
    kept = text
    while kept and cell_len(kept) >= width:
        kept = kept[:-1]
    return f"{kept.rstrip()}…"


def logged_tables(tables: Sequence[Table], more: int) -> Iterator[str]:
    """Yield the lines of what a job logged next to its metrics.

    Args:
        tables: the tables that are shown.
        more: how many others there are.
    """
    texts, lists, others = grouped(tables)
    if texts:
        yield from table(("LOGGED", "VALUE", ""), [(one.name, one.value, one.more) for one in texts])
    if lists:
        head = ("LIST", *(title.upper() for title in lists[0].head), "")
        yield from table(head, [(one.name, *one.rows[0], one.more) for one in lists])
    for one in others:
        yield printable_line(one.name)
        for line in table(tuple(map(printable_line, one.head)), one.rows):
            yield _INDENT + line
        if one.more:
            yield _INDENT + one.more
    if more:
        yield f"and {more} more that the job logged"


def comparison_table(
    comparison: Comparison, *, head: Sequence[str], most: int | None = None, width: int | None = None
) -> Iterator[str]:
    """Yield the lines of a comparison, numbers to the right.

    Args:
        comparison: the two sides.
        head: the titles of the four columns.
        most: the number of metrics shown; None for all. A last line counts the others.
        width: of the terminal, to which the texts of both sides are cut; None for no bound. Numbers and differences are never cut.
    """
    rows = comparison.rows()
    metrics = [row for row in rows if row.kind == "metric"]
    shown = [row for row in rows if row.kind != "metric"] + metrics[:most]
    cells = [tuple(map(_shortened, (row.name, row.left, row.right, row.difference))) for row in shown]
    if width is not None and cells:
        outer = sum(max(cell_len(text) for text in (head[at], *(cell[at] for cell in cells))) for at in (0, 3))
        side = max(_NARROWEST, (width - outer - 3 * len(_INDENT)) // 2)
        cells = [(name, _shortened(left, side), _shortened(right, side), end) for name, left, right, end in cells]
    numbers = {(at, column) for at, row in enumerate(shown) if row.kind == "metric" for column in (1, 2)}
    yield from table(head, cells, right=numbers)
    if most is not None and len(metrics) > most:
        yield f"and {len(metrics) - most} more metrics"


def tag_table(changes: Sequence[TagChange]) -> Iterator[str]:
    """Yield the lines of a table of tags that change; ``-`` is none."""
    rows = [
        (one.version if at == 0 or changes[at - 1].version != one.version else "", one.tag, one.before, one.after)
        for at, one in enumerate(changes)
    ]
    cells = [tuple("-" if text is None else _shortened(text) for text in row) for row in rows]
    yield from table(("VERSION", "TAG", "NOW", "THEN"), cells)


def _shortened(text: str, widest: int = _WIDEST) -> str:
    """Return *text* on one line, cut in its middle if it is too wide.

    Both ends of an address are informative.
    """
    line = printable_line(text)
    if len(line) <= widest:
        return line
    return f"{line[: widest // 2]}…{line[1 + widest // 2 - widest :]}"
