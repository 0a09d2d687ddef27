"""The report as HTML: foreign text stays text, nothing is fetched, and the size is bounded."""

from __future__ import annotations

import base64
import hashlib
import math
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from aml_train.core.events import GraphNode, LogTail, StageFinished
from aml_train.report import values as report
from aml_train.report.html import render_html
from aml_train.report.sections import verdict_of
from aml_train.report.values import tidy
from tests.unit.report.test_values import FULL, small

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "'; background: url(https://evil.example/x)",
    "</style><script>alert(1)</script>",
    "</title></desc></svg><iframe src=//evil.example>",
    "{{ 7 * 7 }}{% raw %}<b>",
    "javascript:alert(1)",
    "\u202etxt.exe\x00\x1b[31m",
    "]]><!-- -->",
    "&lt;script&gt;",
)

EVERYTHING = replace(
    FULL,
    message="two\nlines",
    hint="a hint",
    others=(report.Baseline(title="another", job="other-1", rows=FULL.baseline.rows if FULL.baseline else ()),),
    logged={"lr": "0.1"},
    parameters={"epochs": "3"},
    variables={"SEED": "1"},
    data={"train": "digits:4"},
    packages={"pip:torch": "2.6"},
    logs=(LogTail(origin="user_logs/std_log.txt", rank="0", size=10, lines=("one", "two")),),
    stages=(StageFinished(stage="image", summary="built", seconds=3.0),),
    notices=("a notice",),
    missing=(report.Missing(part="lineage", reason="no permission"), report.Missing(part="cost", reason="unknown")),
    reproduce="aml-train model reproduce digits:3",
    left_out=("pictures",),
    nodes=(
        GraphNode(name="prepare", status="Completed"),
        GraphNode(name="train", needs=("prepare",), status="Failed", error="boom", environment="image"),
    ),
)


class Structure(HTMLParser):
    """The elements of a page with the names of their attributes, and what they name."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, tuple[str, ...]]] = []
        self.targets: list[str] = []
        self.comments = 0
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, tuple(name for name, _ in attrs)))
        self.targets += [value or "" for name, value in attrs if name in ("src", "href", "action", "data", "srcdoc")]

    def handle_comment(self, data: str) -> None:
        self.comments += 1


def rendered(value: report.Report) -> str:
    return render_html(value).decode()


def everywhere(text: str) -> report.Report:
    """Return a report in which every text is *text*."""
    return tidy(EVERYTHING, lambda _before: text)


@settings(max_examples=60, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60).filter(lambda text: text.strip()))
@example(HOSTILE[0])
@example(HOSTILE[1])
@example(HOSTILE[3])
@example(HOSTILE[4])
def test_foreign_text_adds_no_element_and_no_attribute(text: str) -> None:
    found = Structure(rendered(everywhere(text)))
    shape = "two\nlines" if "\n" in text else "plain"
    expected = Structure(rendered(everywhere(shape)))
    # Numbers among the cells of a matrix change a class, and no element.
    assert found.elements == expected.elements
    assert found.comments == 0


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_is_named_that_would_be_fetched_or_run(text: str) -> None:
    page = rendered(everywhere(text))
    found = Structure(page)
    assert all(one.startswith(("#", "data:image/", "data:,")) for one in found.targets)
    names = {name for _, attributes in found.elements for name in attributes}
    assert not {name for name in names if name.startswith("on")}
    assert "style" not in names
    assert not {tag for tag, _ in found.elements} & {"script", "iframe", "object", "embed", "form", "base"}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e]", page)


def test_the_policy_allows_the_style_sheet_by_its_hash_and_nothing_else() -> None:
    page = rendered(EVERYTHING)
    styles = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    (policy,) = re.findall(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    assert len(styles) == 1
    digest = base64.b64encode(hashlib.sha256(styles[0].encode()).digest()).decode()
    assert policy.replace("&#39;", "'") == (
        f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"
    )


def test_a_report_says_what_is_missing_in_its_place() -> None:
    page = rendered(small(missing=(report.Missing(part="packages", reason="the image was deleted"),)))
    section = page.partition('<h2 id="packages">')[2].partition("</section>")[0]
    assert "Not known:</span> the image was deleted" in section


def test_a_small_report_has_no_empty_sections() -> None:
    assert re.findall(r'<h2 id="([a-z]+)">', rendered(small(metrics={"loss": 0.5}))) == ["metrics"]


def curves(count: int, lines: int = 3) -> tuple[report.Curve, ...]:
    return tuple(
        report.Curve(
            metric=f"metric-{number}",
            series=tuple(
                report.Series(
                    title=f"the job digits-{line}",
                    role="other" if line else "job",
                    points=tuple((step, math.exp(-step / 90) * (line + 1.123456)) for step in range(300)),
                )
                for line in range(lines)
            ),
            limits=(0.25,),
        )
        for number in range(count)
    )


def test_a_report_that_is_too_large_leaves_out_pictures_first_and_says_so() -> None:
    pictures = (report.Picture(name="p", type="image/png", data=bytes(500_000)),) * 5
    page = rendered(replace(EVERYTHING, pictures=pictures, left_out=()))
    assert page.count("data:image/png") == 2
    assert "Left out for lack of room, in whole or in part: pictures" in page
    with pytest.raises(ValueError, match="of which 1000 are allowed"):
        render_html(EVERYTHING, most=1000)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"status": "passed"}, ("passed", "good")),
        ({"status": "gate-failed", "exit_code": 6}, ("gate-failed", "bad")),
        ({"status": "cancelled", "exit_code": 7}, ("cancelled", "warn")),
        ({"status": "image-failed", "exit_code": 3}, ("image-failed", "bad")),
        ({"status": "service-error", "exit_code": 8}, ("service-error", "bad")),
        ({"status": "job"}, ("unknown", "muted")),
        ({"status": "job", "job": report.Job(name="j", status="Completed")}, ("Completed", "good")),
        ({"status": "job", "job": report.Job(name="j", status="Failed")}, ("Failed", "bad")),
        (
            {"status": "job", "job": report.Job(name="j", status="Completed"), "gate": "failed"},
            ("gate failed", "bad"),
        ),
        ({"status": "job", "gate": "passed"}, ("gate passed", "good")),
        ({"status": "job", "gate": "skipped"}, ("gate skipped", "warn")),
    ],
)
def test_the_verdict_has_a_word_and_a_colour(fields: dict[str, object], expected: tuple[str, str]) -> None:
    assert verdict_of(small(**fields)) == expected
