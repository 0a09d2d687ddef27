"""A report as one HTML file that needs nothing else. Pure.

All names and texts are foreign: Jinja escapes every one of them, control characters become visible, and the file's policy (CSP) allows
neither scripts nor a request: only the style sheet, by its hash, and images in the file itself.
"""

from __future__ import annotations

import base64
import hashlib
import re
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aml_train.core.text import lines_of
from aml_train.core.version import __version__
from aml_train.report.charts import draw
from aml_train.report.sections import Cell, Link, Word, number_text, sections_of, verdict_of
from aml_train.report.values import Picture, Report, fitted

if TYPE_CHECKING:
    from jinja2 import Template

MOST_HTML: Final = 2_000_000
"""The most of a report as HTML, in bytes."""

_TEMPLATES: Final = Path(__file__).with_name("templates")
_LINK: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~%/?&=:@+,;#!-]*)?")


def render_html(report: Report, *, most: int = MOST_HTML) -> bytes:
    """Return *report* as HTML of at most *most* bytes.

    The least important parts of a larger one are left out, and it says which.

    Raises:
        ValueError: the verdict alone is larger.
    """
    return fitted(report, _render, most=most)


def _render(report: Report) -> bytes:
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    word, colour = verdict_of(report)
    text: str = _template().render(
        report=report,
        word=word,
        colour=colour,
        version=__version__,
        policy=policy_of(style),
        style=Markup(style),  # noqa: S704 - the style sheet is ours
        sections=sections_of(report),
    )
    return text.encode()


def policy_of(style: str) -> str:
    """Return the Content Security Policy of a file with that style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


@cache
def _template() -> Template:
    def visible(value: object) -> object:
        """Make control characters of foreign text visible, and keep its lines."""
        return "\n".join(lines_of(value)) if isinstance(value, str) and not isinstance(value, Markup) else value

    environment = Environment(
        loader=FileSystemLoader(_TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=visible,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    environment.filters |= {
        "cell": _cell,
        "data_url": _data_url,
        "draw": draw,
        "kind": lambda one: type(one).__name__.lower(),
    }
    return environment.get_template("report.html.j2")


def _cell(cell: Cell) -> Any:
    match cell:
        case None:
            return ""
        case Word():
            return Markup('<span class="{}">{}</span>').format(cell.colour, cell.text) if cell.colour else cell.text
        case Link():
            link = Markup('<a href="{}" rel="noopener noreferrer">{}</a>').format(cell.url, cell.text)
            return link if _LINK.fullmatch(cell.url) else cell.url
        case str():
            return cell
        case _:
            return number_text(cell)


def _data_url(picture: Picture) -> str:
    return f"data:{picture.type};base64,{base64.b64encode(picture.data).decode()}"
