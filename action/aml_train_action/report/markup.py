"""Foreign text in comments: shown literally, without mentions and links. Pure.

GitHub makes mentions, references and links of the text that readers see, after entities are decoded, and never within ``code`` and ``pre``:
all foreign text is in one of them. Source: https://github.com/gjtorikian/html-pipeline (``IGNORE_PARENTS`` of the filters).
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence
from typing import Final

from aml_train.pipeline.report.pieces import block, code

_ADDRESS: Final = re.compile(r"https://(?P<host>[A-Za-z0-9.-]+)(:\d+)?(/[A-Za-z0-9._~%/?&=:@+,;#-]*)?")
#: The studio of AzureML, in each cloud.
_STUDIOS: Final = frozenset({"ml.azure.com", "ml.azure.us", "studio.ml.azure.cn"})
_TURNING: Final = re.compile(r"[\u061c\u180e\u115f\u1160\u3164\uffa0\U000e0000-\U000e0fff]")


def literal(text: str, *, most: int = 300) -> str:
    """Return *text* as one line in the type of code; empty for none."""
    return code(_TURNING.sub("�", text), most=most) if text.strip() else ""


def lines(text: str, *, most: int) -> str:
    """Return several lines of foreign text."""
    return block(_TURNING.sub("�", text), most=most)


def message(text: str, *, most: int = 4000) -> str:
    """Return a foreign message, of one line or of several."""
    return lines(text, most=most) if "\n" in text.strip() else literal(text, most=most)


def own_link(text: str, url: str) -> str:
    """Return a link of ours to an address that GitHub has given; *text* is ours."""
    return f'<a href="{html.escape(url, quote=True)}">{text}</a>' if _ADDRESS.fullmatch(url) else text


def studio(url: str) -> str:
    """Return a link to the job in AzureML's studio; empty for any other address."""
    found = _ADDRESS.fullmatch(url)
    return own_link("open the job", url) if found and found["host"].lower() in _STUDIOS else ""


def row(*cells: str) -> str:
    """Return a row of a table; the cells are Markdown of ours."""
    return f"| {' | '.join(cells)} |"


def head(*titles: str, numbers: Sequence[int] = ()) -> str:
    """Return the head of a table; the columns at *numbers* are aligned to the right."""
    rules = "|".join("---:" if place in numbers else "---" for place in range(len(titles)))
    return f"{row(*titles)}\n|{rules}|"
