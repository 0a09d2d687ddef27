"""A report as a check of its commit, with annotations. Pure.

Source: https://docs.github.com/rest/checks/runs (50 annotations a request, those of later ones are added; 64 KB of details).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, Final

from aml_train.core.text import lines_of
from aml_train.pipeline.report import Report
from aml_train_action.pulls.comment import render_body
from aml_train_action.pulls.marker import key_of
from aml_train_action.pulls.subject import Subject, Word, verdict

AT_ONCE: Final = 50
_MOST: Final = 200
_TEXT: Final = 60_000
_MESSAGE: Final = 4_000
_PATH: Final = re.compile(r"(?!/)(?!.*(?:^|/)\.\.?(?:/|$))[^\x00-\x1f\x7f\\:]{1,500}")
_WHERE: Final = re.compile(r"(?P<file>.+):(?P<line>[1-9][0-9]{0,6})")
_CONCLUSIONS: Final[dict[Word, str]] = {
    "passed": "success",
    "failed": "failure",
    "cancelled": "cancelled",
    "unconfirmed": "failure",
}
_TITLES: Final[dict[Word, str]] = {
    "passed": "The run passed",
    "failed": "The run failed",
    "cancelled": "The run was cancelled",
    "unconfirmed": "Not confirmed by the workflow's conclusion",
}


def check_of(report: Report, subject: Subject) -> dict[str, Any]:
    """Return the body of the request that makes the check, without annotations."""
    word = verdict(report, subject)
    met = sum(rule.verdict == "met" for rule in report.rules)
    missed = sum(rule.verdict == "missed" for rule in report.rules)
    counts = f"{met} rules met, {missed} missed" if report.rules else "no rule was decided"
    origin = " The report is a fork's own." if subject.forked else ""
    return {
        "name": check_name(report),
        "head_sha": subject.commit,
        "status": "completed",
        "conclusion": _CONCLUSIONS[word],
        "external_id": f"aml-train:{key_of(report.configuration, report.target)}:{subject.run}:{subject.attempt}",
        "details_url": subject.run_url,
        "output": {
            "title": f"{_TITLES[word]}: {counts}",
            "summary": f"{_TITLES[word]}: {counts}.{origin}",
            "text": render_body(report, subject, limit=_TEXT),
        },
    }


def check_name(report: Report) -> str:
    """Return the name of the check: that of the configuration, with plain characters."""
    words = [_plain(one) for one in (report.configuration, report.target) if one]
    return " ".join(["aml-train", *words])[:100]


def _plain(text: str) -> str:
    return re.sub(r"[^A-Za-z0-9 _./-]", "_", text)[:60]


def annotations_of(report: Report, subject: Subject) -> list[list[dict[str, Any]]]:
    """Return the annotations, those of one request together; failures come first."""
    order = {"failure": 0, "warning": 1, "notice": 2}
    found = sorted(_annotations(report, subject), key=lambda one: order[one["annotation_level"]])[:_MOST]
    return [found[start : start + AT_ONCE] for start in range(0, len(found), AT_ONCE)]


def _annotations(report: Report, subject: Subject) -> Iterator[dict[str, Any]]:
    for tests in report.tests:
        for failure in tests.failures:
            if place := _place(failure.file, failure.line):
                yield _annotation(*place, "failure", f"Test failed: {failure.name}", failure.message or "failed")
    levels = {"missed": "failure", "warned": "warning"}
    for rule in report.rules:
        where = _WHERE.fullmatch(rule.where)
        place = _place(where["file"], int(where["line"])) if where else None
        if place is None:
            continue
        title = f"Gate: {rule.metric} {rule.rule}"
        if level := levels.get(rule.verdict):
            yield _annotation(*place, level, title, rule.reason)
        elif rule.verdict == "met" and verdict(report, subject) == "passed":
            yield _annotation(*place, "notice", title, rule.reason or "met")


def _place(file: str, line: int | None) -> tuple[str, int] | None:
    """Return a place in the repository; None for any other path."""
    return (file, line) if line is not None and 0 < line < 10**7 and _PATH.fullmatch(file) else None


def _annotation(file: str, line: int, level: str, title: str, message: str) -> dict[str, Any]:
    return {
        "path": file,
        "start_line": line,
        "end_line": line,
        "annotation_level": level,
        "title": " ".join(lines_of(title))[:200],
        "message": "\n".join(lines_of(message))[:_MESSAGE] or "missed",
    }
