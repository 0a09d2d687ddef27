"""A report in GitHub's Markdown: for releases, the summary of the action's step and the comment of the pull request. Pure.

All names and texts are foreign: they are shown literally. Images are not in it, because Markdown cannot hold them.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Final

from aml_train.core.text import lines_of
from aml_train.core.version import __version__
from aml_train.jobs.states import headline
from aml_train.report import sections
from aml_train.report.mermaid import chart, flowchart
from aml_train.report.values import Curve, Report, fitted

MOST_MARKDOWN: Final = 120_000
"""The most of a report as Markdown, in bytes: a release's notes have room for 125,000 characters."""

#: Every sign of ASCII that Markdown, HTML or GitHub (links, mentions, issue numbers) may give a meaning.
_SIGNS: Final = re.compile(r"[!-/:-@\[-`{-~]")
_TURNING: Final = re.compile(r"[\u061c\u180e\u115f\u1160\u3164\uffa0\U000e0000-\U000e0fff]")
_ADDRESS: Final = re.compile(r"https://(?P<host>[A-Za-z0-9.-]+)(:\d+)?(/[A-Za-z0-9._~%/?&=:@+,;#-]*)?")
#: The studio of AzureML, in each cloud.
_STUDIOS: Final = frozenset({"ml.azure.com", "ml.azure.us", "studio.ml.azure.cn"})
_CHARTS: Final = 20
_OUTPUT: Final = 6_000
_ROWS: Final = 2_000
_DRAWN: Final = 100
"""Nodes of a drawn graph; GitHub's Mermaid refuses very large ones."""

_COLOURS: Final = {"good": "✅", "bad": "❌", "warn": "⚠️", "muted": "ℹ️"}
#: Endings whose colour does not say enough.
_ENDINGS: Final = {
    "submitted": "🕓",
    "valid": "✅",
    "planned": "📋",
    "checked": "✅",
    "rolled-back": "↩️",
    "unchanged": "✅",
    "dry-run": "📋",
    "reported": "✅",
    "cancelled": "⚪",
    "timed-out": "⚪",
}


def escape(text: str, *, most: int = 500) -> str:
    """Return *text* as one line of Markdown that shows it literally, cut if long."""
    line = " ".join(lines_of(_TURNING.sub("�", text)))
    if len(line) > most:
        line = line[:most] + "…"
    return _SIGNS.sub(lambda match: f"&#{ord(match[0])};", line)


def literal(text: str, *, most: int = 400) -> str:
    """Return *text* as one line in the type of code, also inside a table; empty for none."""
    return f"<code>{escape(text, most=most)}</code>" if text.strip() else ""


def block(text: str, *, most: int) -> str:
    """Return several lines literally, as a block of HTML; a long text keeps its end."""
    lines = "\n".join(lines_of(_TURNING.sub("�", text)))
    shown = "…" + lines[-most:] if len(lines) > most else lines
    # As entities, so that the whole block is one line of Markdown: an empty line could end it.
    return "<pre>" + html.escape(shown, quote=True).replace("\n", "&#10;") + "</pre>"


def message(text: str, *, most: int) -> str:
    """Return a foreign message, of one line or of several."""
    return block(text, most=most) if "\n" in text.strip() else literal(text, most=most)


def own_link(text: str, url: str) -> str:
    """Return a link of ours to an address that GitHub has given; *text* is ours."""
    return f'<a href="{html.escape(url, quote=True)}">{text}</a>' if _ADDRESS.fullmatch(url) else text


def render_markdown(report: Report, *, most: int = MOST_MARKDOWN, more: Sequence[str] = ()) -> bytes:
    """Return *report* as Markdown of at most *most* bytes of UTF-8; it says what has no room.

    Args:
        report: the report.
        most: bytes.
        more: Markdown of what is in no report, such as the plan; it has at most half of the room.
    """
    return fitted(report, lambda one: "\n".join(_render(one, most, more)).encode(), most=most)


def _render(report: Report, most: int, more: Sequence[str]) -> Iterator[str]:
    word, colour = sections.verdict_of(report)
    sign = _ENDINGS.get(report.status, _COLOURS[colour])
    tail = f" (exit code {report.exit_code})" if report.exit_code else ""
    yield f"## {sign} {escape(report.title, most=100)}: {escape(word, most=100)}{tail}\n"
    # The job's logs have separate sections.
    said = headline(report.message) if report.status == "job-failed" else report.message
    for text in filter(None, (said, report.hint)):
        yield message(text, most=min(20_000, most // 32)) + "\n"
    yield from more
    yield from map(render_section, sections.sections_of(report))
    yield f"_Made {report.created:%Y-%m-%d %H:%M %Z} by aml-train {escape(__version__)}._\n"


def render_section(section: sections.Section) -> str:
    """Return a section with its title."""
    return f"### {section.title}\n\n" + "\n".join(map(_block, section.blocks))


def _block(shown: sections.Block) -> str:
    match shown:
        case sections.Line():
            return " ".join(map(_cell, shown.cells)) + "\n"
        case sections.Table():
            return _table(shown)
        case sections.Pre():
            text = block(shown.text, most=_OUTPUT)
            if not shown.summary:
                return text + "\n"
            summary = ", ".join(map(_cell, shown.summary))
            return f"<details{' open' * shown.unfolded}><summary>{summary}</summary>{text}</details>\n"
        case sections.Graph():
            return flowchart(shown.nodes) + "\n" if len(shown.nodes) <= _DRAWN else ""
        case sections.Charts():
            drawn = filter(None, map(_chart, shown.curves[:_CHARTS]))
            second = " The second line is the baseline's." if any(len(one.series) > 1 for one in shown.curves) else ""
            return "\n".join([f"Flat lines are limits.{second}\n", *drawn])
        case sections.Tree():
            return "".join(f"{'  ' * depth}- {' '.join(map(_cell, cells))}\n" for depth, cells in shown.steps)
        case sections.Pictures():
            return f"{', '.join(literal(one.name) for one in shown.pictures)}: the report in HTML shows them.\n"


def _table(table: sections.Table) -> str:
    rules = ("---:" if place in table.numbers else "---" for place in range(len(table.head)))
    rows = [" | ".join(map(_cell, one)) for one in (table.head, *table.rows[:_ROWS])]
    text = "\n".join(f"| {one} |" for one in (rows[0], " | ".join(rules), *rows[1:])) + "\n"
    if len(table.rows) > _ROWS:
        text += f"\n… and {len(table.rows) - _ROWS} more.\n"
    return f"<details><summary>{table.title}</summary>\n\n{text}\n</details>\n" if table.folded else text


def _cell(cell: sections.Cell) -> str:
    match cell:
        case None:
            return ""
        case sections.Word():
            return f"{_COLOURS[cell.colour]} {cell.text}" if cell.colour else cell.text
        case sections.Link():
            found = _ADDRESS.fullmatch(cell.url)
            return own_link(cell.text, cell.url) if found and found["host"].lower() in _STUDIOS else ""
        case str():
            return literal(cell)
        case _:
            return sections.number_text(cell)


def _chart(curve: Curve) -> str:
    series = [one.points for one in curve.series[:2]]
    picture = chart(curve.metric, series[0] if series else (), curve.limits[:5], *series[1:2])
    return picture and f"<details><summary>{literal(curve.metric)}</summary>\n\n{picture}\n\n</details>\n"
