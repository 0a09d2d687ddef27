"""Foreign text in Markdown and HTML: nothing in it is read as markup, link, mention or diagram. Pure."""

from __future__ import annotations

import html
import re
from typing import Final

from aml_train_action.report.text import harmless, lines_of

#: Every sign of ASCII that Markdown, HTML or GitHub (links, mentions, issue numbers) may give a meaning.
_SIGNS: Final = re.compile(r"[!-/:-@\[-`{-~]")
_NOT_A_LABEL: Final = re.compile(r"[^A-Za-z0-9 _./()-]")


def escape(text: str, *, most: int = 500) -> str:
    """Return *text* as one line of Markdown that shows exactly it; longer ones end with an ellipsis."""
    line = " ".join(lines_of(text))
    if len(line) > most:
        line = line[:most] + "…"
    return _SIGNS.sub(lambda match: f"&#{ord(match[0])};", line)


def code(text: str, *, most: int = 500) -> str:
    """Return *text* in the type of code, also inside a table."""
    return f"<code>{escape(text, most=most)}</code>"


def block(text: str, *, most: int) -> str:
    """Return several lines as they are, as a block of HTML; the end of a longer text is kept."""
    lines = "\n".join(lines_of(text))
    shown = "…" + lines[-most:] if len(lines) > most else lines
    # As entities, so that the whole block is one line of Markdown: an empty line could end it.
    return "<pre>" + html.escape(shown, quote=True).replace("\n", "&#10;") + "</pre>"


def link(text: str, url: str) -> str:
    """Return a link to *url* where that is an https address; else the text and the address as text."""
    if re.fullmatch(r"https://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~%/?&=:@+,;#-]*)?", url):
        return f'<a href="{html.escape(url, quote=True)}">{escape(text)}</a>'
    return f"{escape(text)}: {escape(url)}"


def label(text: str) -> str:
    """Return *text* as a label of a Mermaid diagram, inside double quotes."""
    return _NOT_A_LABEL.sub("_", harmless(text))[:80] or "_"
