"""The report as Markdown: foreign text stays text, and the size is bounded."""

from __future__ import annotations

import re
from dataclasses import replace

from hypothesis import example, given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from aml_train.core.events import LogTail
from aml_train.core.tables import Table
from aml_train.report import values as report
from aml_train.report.markdown import render_markdown
from aml_train.report.values import tidy
from tests.unit.report.test_html import EVERYTHING, curves
from tests.unit.report.test_values import small


def rendered(value: report.Report) -> str:
    return render_markdown(value).decode()


def structure(markdown: str) -> list[str]:
    """Return the kinds of the blocks, and each piece of HTML without its text."""
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    found = []
    for token in parser.parse(markdown):
        found.append(token.type)
        for one in token.children or ():
            if one.type == "html_inline":
                found.append(one.content)
            elif one.type != "text":
                found.append(one.type)
        if token.type == "html_block":
            found += re.findall(r"<[^>]*>", token.content)
    return found


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(lambda text: text.strip()))
@example("| a | b |\n|---|---|")
@example("```\n# heading")
@example("</details><script>")
@example("@octocat #1 https://evil.example **bold** [a](b) ![](c)")
def test_foreign_text_has_no_meaning(text: str) -> None:
    shape = "two\nlines" if "\n" in text.strip() else "plain"
    found = structure(rendered(tidy(EVERYTHING, lambda _before: text)))
    assert found == structure(rendered(tidy(EVERYTHING, lambda _before: shape)))


def test_a_release_has_room_for_the_largest_report() -> None:
    large = replace(
        EVERYTHING,
        curves=curves(50),
        logs=tuple(LogTail(origin=f"log-{number}", rank="", size=9, lines=("x" * 2000,) * 40) for number in range(12)),
        tables=tuple(Table(name="t", kind="table", head=("a",) * 20, rows=(("y" * 80,) * 20,) * 20)
                     for _ in range(20)),
    )  # fmt: skip
    page = rendered(large)
    assert len(page.encode()) <= 120_000
    assert "Left out for lack of room" in page


def test_a_report_shows_its_parts() -> None:
    page = rendered(EVERYTHING)
    for heading in (
        "Gate",
        "Metrics over steps",
        "Nodes",
        "Trials",
        "Lineage",
        "Run",
        "Packages",
    ):
        assert f"### {heading}\n" in page
    assert "| ❌ missed | <code>val&#47;accuracy</code> | <code>&#62;&#61; 0&#46;9</code> | Infinity |" in page
    assert "n0 --> n1" in page
    assert "Not known: <code>no permission</code>" in page


def test_a_report_of_nothing_is_its_verdict() -> None:
    assert rendered(small()).splitlines()[0] == "## ✅ digits: passed"
    assert "###" not in rendered(small())
