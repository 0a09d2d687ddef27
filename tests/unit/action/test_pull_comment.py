"""The comment: its parts, its size, and foreign text without effect."""

from __future__ import annotations

import html
import math
import re

import pytest
from markdown_it import MarkdownIt

from aml_train.core.checks import Finding
from aml_train.core.comparison import Row
from aml_train.core.events import CostCounted, GraphNode, ImageReady, TestFailure, TestsFinished
from aml_train.report import values as report
from aml_train_action.pulls.comment import Marker, key_of, read_marker, render_comment
from tests.support.github_stand_in import HEAD
from tests.unit.action.pull_world import failing, passing, rule, subject

MARKDOWN = MarkdownIt("commonmark", {"html": True, "linkify": False}).enable(["table", "strikethrough"])
TAGS = {
    "h3",
    "h4",
    "p",
    "table",
    "thead",
    "tbody",
    "tr",
    "th",
    "td",
    "code",
    "pre",
    "details",
    "summary",
    "a",
    "blockquote",
    "ul",
    "li",
}
MARKUP = (
    "@everyone", "@octo/team", "#1", "octo/digits#1", "GH-1", HEAD, "https://evil.example/x.png", "www.evil.example",
    "![x](https://evil.example/track.png)", "[click](https://evil.example)", "<img src=https://evil.example/x>", "<script>alert(1)</script>",
    "a | b |\n|---|---|\n| c", "`code`", "```\nfence\n```", "</code></td></table><h1>Approved</h1>", "</details>", "</pre>", "-->", "<!-- x",
    "<!-- aml-train:report:1 " + "0" * 32 + " 1 1 " + HEAD + " -->", "# heading", "> quote", "- item", "\\", "&lt;b&gt;", "&#64;everyone", ":tada:",
    "**bold**", "~~gone~~", "\u202etxt.exe", "\u2028# x", "\x00", "\x1b[31m", "\U000e0041", "$x^2$", "[^1]: note", "mailto:a@b.example",
)  # fmt: skip


def everywhere(text: str) -> report.Report:
    """Return a report that has *text* wherever it may have any."""
    return failing(
        title=text, configuration=text, target=text, status=text, message=text, hint=text, reproduce=text,
        source=report.Source(repository=text, commit=text, branch=text, run_url=text),
        job=report.Job(name=text, status=text, url=text),
        rules=(rule(text, verdict="missed", rule=text, reason=text, where=text, value=math.nan),),
        baseline=report.Baseline(title=text, rows=tuple(Row(kind=kind, name=text, left=text, right=text, difference=text) for kind in ("metric", "data", "fact"))),
        metrics={text: 1.0},
        curves=(report.Curve(metric=text, series=(report.Series(title=text, role="job", points=((1, 0.1), (2, 0.2))),), limits=(0.5,)),),
        images=(ImageReady(reference=text, digest=text, address=text, how="built", image_name=text),),
        tests=(TestsFinished(image_name=text, passed=0, failed=1, skipped=0, seconds=1.0, cached=False, failures=(TestFailure(name=text, file=text, line=1, message=text),)),),
        checks=(Finding(check=text, level="error", what=text, remedy=text),),
        data={text: text}, nodes=(GraphNode(name=text, status=text),), model=report.Model(name=text, version=text),
        cost=CostCounted(text=text, node_hours=0.1, gpu_hours=None, cost=None, currency=text, unknown=text), notices=(text,), left_out=(text,),
    )  # fmt: skip


def outside_code(body: str) -> str:
    """Return the visible text that GitHub searches for mentions, references and links."""
    rendered = MARKDOWN.render(body)
    return html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<(code|pre)\b.*?</\1>", " ", rendered, flags=re.S)))


def tags(body: str) -> set[str]:
    return set(re.findall(r"<([a-z][a-z0-9]*)", MARKDOWN.render(body)))


def links(body: str) -> set[str]:
    return set(re.findall(r'href="([^"]*)"', MARKDOWN.render(body)))


@pytest.mark.parametrize("text", MARKUP)
def test_foreign_text_has_no_effect(text: str) -> None:
    harmless = render_comment(everywhere("plain"), subject())
    body = render_comment(everywhere(text), subject())
    assert tags(body) <= TAGS
    assert links(body) == links(harmless)
    for sign in ("@", "#", "://", "evil", "www.", ":tada:", "GH-1", HEAD):
        assert sign not in outside_code(body)
    shape, plain = (re.findall(r"</?(?:table|tr|details|h\d)\b", MARKDOWN.render(one)) for one in (body, harmless))
    assert shape == plain
    assert body.count("<!--") == 1


def test_the_gate_is_shown_with_baseline_and_difference() -> None:
    body = render_comment(passing(), subject())
    wanted = "| ✅ met | <code>val&#47;accuracy</code> | <code>&#62;&#61; 0&#46;95</code> | 0.97 | 0.95 | <code>0&#46;96</code> | <code>&#43;0&#46;01 &#40;&#43;1&#46;04 &#37;&#41;</code> | <code>0&#46;97&#44; wanted 0&#46;95</code> |"
    assert wanted in body
    assert MARKDOWN.render(body).count("<td") >= 7


@pytest.mark.parametrize(
    ("url", "linked"),
    [
        ("https://ml.azure.com/runs/a?wsid=/subscriptions/1", True),
        ("https://ml.azure.us/runs/a", True),
        ("https://evil.example/runs/a", False),
        ("https://ml.azure.com.evil.example/", False),
        ("https://ml.azure.com@evil.example/", False),
        ("javascript:alert(1)", False),
        ("http://ml.azure.com/", False),
    ],
)
def test_only_the_studio_is_linked(url: str, linked: bool) -> None:
    body = render_comment(passing(job=report.Job(name="j", url=url)), subject())
    assert ("open the job" in body) == linked
    assert ("evil" in body) is False


@pytest.mark.parametrize(
    "body",
    ["", "x", " <!-- aml-train:report:1 " + "0" * 32 + f" 1 1 {HEAD} -->", f"<!-- aml-train:report:1 {'0' * 32} 0 1 {HEAD} -->",
     f"<!-- aml-train:report:1 {'0' * 32} 1 1 {HEAD} --> and more", f"<!-- aml-train:report:2 {'0' * 32} 1 1 {HEAD} -->",
     f"<!-- aml-train:report:1 {'0' * 32} {'9' * 30} 1 {HEAD} -->", f"<!-- aml-train:report:1 {'0' * 32} 1 1 main -->"],
)  # fmt: skip
def test_what_is_no_marker(body: str) -> None:
    assert read_marker(body) is None


def test_a_marker_is_read_as_it_was_written_also_with_the_line_ends_of_forms() -> None:
    made = Marker(key=key_of("a", "b"), run=5, attempt=2, commit=HEAD)
    assert read_marker(f"{made}\r\nmore") == read_marker(f"{made}\nmore") == read_marker(str(made)) == made
