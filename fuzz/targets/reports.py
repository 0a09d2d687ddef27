"""Reports as JSON, which a fork may have written, and their renderings."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html.parser import HTMLParser

from aml_train.core.errors import InvalidError
from aml_train.pipeline.report import decode, encode, render_html, render_markdown
from aml_train_action.pulls.check import annotations_of, check_of
from aml_train_action.pulls.comment import render_comment
from fuzz.target import Target, as_bytes, require
from tests.unit.action.pull_world import failing, passing, rule, subject

_LIMIT = 65_536


def seeds() -> Sequence[str]:
    """Return reports."""
    made = [passing(), failing(), passing(rules=(rule(), rule("a|b`<x>", verdict="skipped", value=None)))]
    return [encode(one).decode() for one in made]


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.odd: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        active = [name for name, _ in attrs if name.startswith("on")]
        links = [value or "" for name, value in attrs if name in ("href", "src")]
        strange = [
            link for link in links if not link.startswith(("https://", "http://", "#", "data:image/", "data:,"))
        ]
        if tag in ("script", "iframe", "object", "embed", "form", "base") or active or strange:
            self.odd.append(f"<{tag} {active or strange}>")


def check(text: str) -> None:
    """Decode a report; render it."""
    try:
        report = decode(as_bytes(text), origin="x")
    except (InvalidError, ValueError) as error:
        require(str(error), "a refusal says nothing")
        return
    again = encode(report)
    require(encode(decode(again, origin="x")) == again, "a report is another one if it is written again")
    about = subject()
    comment = render_comment(report, about)
    require(len(comment.encode()) <= _LIMIT, f"a comment of {len(comment.encode())} bytes")
    require("<script" not in comment.lower(), "a comment has a script")
    json.dumps([check_of(report, about), annotations_of(report, about)], allow_nan=False).encode()
    render_markdown(report)
    page = _Page()
    page.feed(render_html(report).decode())
    require(not page.odd, f"the page has {page.odd[:3]}")


TARGET = Target(
    kind="text",
    reads=(
        "aml_train.pipeline.report.values",
        "aml_train.pipeline.report.html",
        "aml_train.pipeline.report.pieces",
        "aml_train_action.pulls.check",
        "aml_train_action.pulls.comment",
    ),
    seeds=seeds,
    check=check,
    words=(
        *(
            '"rules"',
            '"curves"',
            '"pictures"',
            '"tests"',
            '"job"',
            '"model"',
            '"missing"',
            '"nodes"',
            '"trials"',
            "null",
            "1e308",
        ),
        *(
            "javascript:1",
            "<script>alert(1)</script>",
            "https://ml.azure.com/x",
            "|",
            "`",
            "\\u202e",
            "\\n",
            "<!--",
            "](",
        ),
    ),
    mutate=lambda mutator, text: mutator.json(text),
)
