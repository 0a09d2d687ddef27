"""Tables, facts and curves for notebooks: HTML without scripts, Markdown, text.

Pure. All of it may be foreign text. In HTML it is escaped by :mod:`markupsafe`; nothing is loaded from elsewhere, and the colours are those
of the page, so that it can be read in light and dark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from markupsafe import Markup

from aml_train.core.series import History, by_step, columns_of, plot
from aml_train.core.text import printable_line

_WIDTH: Final = 320
_HEIGHT: Final = 120
_EDGE: Final = 6
_POINTS: Final = 240
_TABLE: Final = "border-collapse:collapse;font-variant-numeric:tabular-nums"
_CELL: Final = "text-align:left;padding:.15em .8em .15em 0;vertical-align:top"
#: Of the sign before a text, each with the colour of its meaning, readable in light and dark.
_COLORS: Final[Mapping[str, str]] = {"✓": "#2e8540", "✗": "#d13438", "!": "#b06f00", "·": "#6e7781", "▸": "#3a76d8"}


@dataclass(frozen=True, kw_only=True)
class Grid:
    """A table; *title* may be empty. Cells are text."""

    head: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric over steps; *other* is the curve that it is compared with."""

    name: str
    points: History
    other: History = ()
    labels: tuple[str, str] = ("this job", "baseline")


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """The contents of one object for people.

    Attributes:
        title: its name.
        sign: the sign of its state: ``✓``, ``✗``, ``!``, ``·`` or ``▸``.
        text: a sentence below the title; may have several lines.
        facts: names and values.
        grids: tables.
        curves: metrics over steps.
    """

    title: str
    sign: str = ""
    text: str = ""
    facts: Mapping[str, str] = field(default_factory=dict)
    grids: tuple[Grid, ...] = ()
    curves: tuple[Curve, ...] = ()

    def html(self) -> str:
        """Return it as HTML without scripts."""
        parts = [_title(self.sign, self.title)]
        if self.text:
            parts.append(Markup('<div style="white-space:pre-wrap">{}</div>').format(self.text))
        if self.facts:
            parts.append(_html_table((), [(name, value) for name, value in self.facts.items()]))
        for grid in self.grids:
            if grid.title:
                parts.append(Markup('<div style="margin-top:.6em"><b>{}</b></div>').format(grid.title))
            parts.append(_html_table(grid.head, grid.rows))
        drawn = [one for curve in self.curves if (one := _svg(curve))]
        if drawn:
            parts.append(
                Markup('<div style="display:flex;flex-wrap:wrap;gap:1em;margin-top:.6em">{}</div>').format(
                    Markup("").join(drawn)
                )
            )
        return str(Markup('<div class="aml-train">{}</div>').format(Markup("").join(parts)))

    def markdown(self) -> str:
        """Return it as Markdown, for readers that show no HTML."""
        blocks = [f"**{_escaped(f'{self.sign} {self.title}'.strip())}**"]
        if self.text:
            blocks.append("\n".join(_escaped(line) for line in self.text.splitlines()))
        if self.facts:
            blocks.append(_markdown_table(("", ""), [(name, value) for name, value in self.facts.items()]))
        for grid in self.grids:
            blocks += [f"**{_escaped(grid.title)}**"] if grid.title else []
            blocks.append(_markdown_table(grid.head, grid.rows))
        return "\n\n".join(blocks) + "\n"

    def plain(self) -> str:
        """Return it as text for a terminal, curves drawn in letters."""
        lines = [printable_line(f"{self.sign} {self.title}".strip())]
        lines += [printable_line(line) for line in self.text.splitlines()]
        lines += _columns([(name, value) for name, value in self.facts.items()])
        for grid in self.grids:
            lines += ["", printable_line(grid.title)] if grid.title else [""]
            lines += _columns([grid.head, *grid.rows] if any(grid.head) else grid.rows)
        for curve in self.curves:
            if drawn := plot(curve.points, curve.other):
                left, right = map(printable_line, curve.labels)
                marks = f"   ● {left}   ○ {right}" if curve.other else ""
                lines += ["", f"{printable_line(curve.name)} over steps{marks}", *drawn]
        return "\n".join(lines)


class Displayed(ABC):
    """An object that notebooks show as a sheet."""

    @abstractmethod
    def _sheet(self) -> Sheet:
        """Return its contents."""

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _repr_markdown_(self) -> str:
        return self._sheet().markdown()


def number(value: float | None) -> str:
    """Return a number as it is shown; nothing for None."""
    return "" if value is None else f"{value:.6g}"


def _title(sign: str, title: str) -> Markup:
    mark = Markup('<span style="color:{}">{}</span> ').format(_COLORS.get(sign, "inherit"), sign) if sign else ""
    return Markup("<div><b>{}{}</b></div>").format(mark, title)


def _html_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> Markup:
    def cell(text: str) -> Markup:
        return Markup('<td style="{}">{}</td>').format(_CELL, text)

    def title(text: str) -> Markup:
        return Markup('<th scope="col" style="{}">{}</th>').format(_CELL, text)

    top = Markup("")
    if any(head):
        top = Markup("<thead><tr>{}</tr></thead>").format(Markup("").join(title(text) for text in head))
    body = Markup("").join(Markup("<tr>{}</tr>").format(Markup("").join(cell(text) for text in row)) for row in rows)
    return Markup('<table style="{}">{}<tbody>{}</tbody></table>').format(_TABLE, top, body)


def _svg(curve: Curve) -> Markup | None:
    """Return both curves on one scale; None if there is nothing to draw."""
    sides = [by_step(curve.points), by_step(curve.other)]
    if max(map(len, sides)) < 2:
        return None
    steps = [step for side in sides for step in side]
    values = [value for side in sides for value in side.values()]
    first, last, low, high = min(steps), max(steps), min(values), max(values)
    span = (high - low) or 1.0
    count = min(_POINTS, last - first + 1)
    lines = []
    for side, color, dashes in zip(sides, ("#3a76d8", "#8a8886"), ("none", "4 3"), strict=True):
        points = []
        for column, found in enumerate(columns_of(side, first, last, max(count, 2))):
            x = _EDGE + column / (max(count, 2) - 1) * (_WIDTH - 2 * _EDGE)
            points += [
                f"{x:.1f},{_EDGE + (high - value) / span * (_HEIGHT - 2 * _EDGE):.1f}"
                for value in dict.fromkeys((min(found), max(found)) if found else ())
            ]
        if points:
            lines.append(
                Markup(
                    '<polyline fill="none" stroke-width="1.5" stroke="{}" stroke-dasharray="{}" points="{}"/>'
                ).format(color, dashes, " ".join(points))
            )
    both = f" ({curve.labels[0]}; dashed: {curve.labels[1]})" if sides[1] else ""
    label = f"{curve.name}: {number(low)} to {number(high)}, steps {first} to {last}{both}"
    return Markup(
        '<figure style="margin:0"><svg width="{}" height="{}" viewBox="0 0 {} {}" role="img" aria-label="{}">{}</svg>'
        "<figcaption>{}</figcaption></figure>"
    ).format(_WIDTH, _HEIGHT, _WIDTH, _HEIGHT, label, Markup("").join(lines), label)


def _columns(rows: Sequence[Sequence[str]]) -> list[str]:
    shown = [[printable_line(text) for text in row] for row in rows]
    widths = [max(len(row[column]) for row in shown) for column in range(max(map(len, shown), default=0))]
    return ["  ".join(text.ljust(width) for text, width in zip(row, widths, strict=False)).rstrip() for row in shown]


def _escaped(text: str) -> str:
    """Return *text* so that Markdown shows it as it is, on one line."""
    return "".join(f"\\{sign}" if sign in r"\`*_{}[]<>()#+-!|~&$" else sign for sign in printable_line(text))


def _markdown_table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = ["| " + " | ".join(_escaped(text) for text in head) + " |", "|" + " --- |" * len(head)]
    lines += ["| " + " | ".join(_escaped(text) for text in row) + " |" for row in rows]
    return "\n".join(lines)
