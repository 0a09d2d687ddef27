"""A report as one HTML file that needs nothing else. Pure.

All names and texts are foreign: Jinja escapes every one of them, control characters become visible, and the file's policy (CSP) allows
neither scripts nor a request: only the style sheet, by its hash, and images in the file itself.
"""

from __future__ import annotations

import base64
import hashlib
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from aml_train.core.answers import Number
from aml_train.core.text import duration, lines_of, size
from aml_train.core.version import __version__
from aml_train.report.charts import draw
from aml_train.report.values import Difference, Image, Picture, Report, Step, Table, fitted

if TYPE_CHECKING:
    from jinja2 import Template

MOST_HTML: Final = 2_000_000
"""The most of a report as HTML, in bytes."""

_TEMPLATES: Final = Path(__file__).with_name("templates")
_LINK: Final = re.compile(r"https?://[A-Za-z0-9.-]+(:\d+)?(/[A-Za-z0-9._~%/?&=:@+,;#!-]*)?")
_COLOURS: Final[Mapping[str, str]] = {
    "passed": "good",
    "completed": "good",
    "promoted": "good",
    "skipped": "warn",
    "running": "warn",
    "cancelled": "warn",
    "canceled": "warn",
    "timed-out": "warn",
}
_VERDICTS: Final = {"met": "good", "missed": "bad", "warned": "warn", "skipped": "muted"}
_STATES: Final = {"verified": "good", "recorded": "muted", "unknown": "warn", "broken": "bad"}
_SHADES: Final = 8
_DEEPEST: Final = 12
"""Levels of a lineage that are shown; those of aml-train have five."""

_SECTIONS: Final[tuple[tuple[str, str, tuple[str, ...], tuple[str, ...]], ...]] = (
    # identifier, title, fields that it shows, parts whose missing values it reports
    ("gate", "Gate", ("gate", "rules"), ("gate",)),
    ("baseline", "Compared with the baseline", ("baseline", "others"), ("baseline",)),
    ("curves", "Curves", ("curves",), ("curves",)),
    ("metrics", "Metrics", ("metrics",), ("metrics",)),
    ("nodes", "Nodes", ("nodes",), ("nodes",)),
    ("trials", "Trials", ("trials",), ("trials",)),
    ("tables", "Logged tables", ("tables",), ("tables",)),
    ("pictures", "Images that the job wrote", ("pictures",), ("pictures",)),
    ("parameters", "Data and parameters", ("data", "parameters", "logged", "variables"), ("parameters",)),
    ("lineage", "Lineage", ("model", "lineage"), ("model", "lineage")),
    ("environment", "Environment", ("images", "tests", "checks", "packages"), ("images", "packages")),
    ("run", "Run and cost", ("cost", "attempts", "stages"), ("attempts", "cost")),
    ("logs", "Last lines of the logs", ("logs",), ("logs",)),
    ("reproduce", "The same again", ("reproduce",), ()),
    ("notices", "Remarks", ("notices", "left_out"), ()),
)


def render_html(report: Report, *, most: int = MOST_HTML) -> bytes:
    """Return *report* as HTML of at most *most* bytes.

    The least important parts of a larger one are left out, and it says which.

    Raises:
        ValueError: the verdict, the rules and the comparison alone are larger.
    """
    return fitted(report, _render, most=most)


def _render(report: Report) -> bytes:
    if report.lineage is not None:
        report = msgspec.structs.replace(report, lineage=shallow(report.lineage))
    charts = [chart for curve in report.curves if (chart := draw(curve)) is not None]
    style = (_TEMPLATES / "report.css").read_text(encoding="utf-8")
    word, colour = verdict_of(report)
    text: str = _template().render(
        report=report,
        word=word,
        colour=colour,
        version=__version__,
        policy=policy_of(style),
        style=_safe(style),
        facts=[(name, value) for name, value in facts_of(report) if value],
        contents=list(_contents(report)),
        charts=charts,
        hyperparameters=list(dict.fromkeys(name for trial in report.trials for name in trial.parameters)),
        verdicts=_VERDICTS,
        states=_STATES,
    )
    return text.encode()


def shallow(step: Step, depth: int = _DEEPEST) -> Step:
    """Return a lineage without the steps below *depth* levels."""
    parts = tuple(shallow(part, depth - 1) for part in step.parts) if depth > 1 else ()
    return msgspec.structs.replace(step, parts=parts)


def policy_of(style: str) -> str:
    """Return the Content Security Policy of a file with that style sheet."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def verdict_of(report: Report) -> tuple[str, str]:
    """Return the report's verdict in a word, and its colour."""
    word = report.status
    if word == "job":
        word = report.job.status if report.job is not None else "unknown"
        if report.gate:
            word = {"passed": "gate passed", "failed": "gate failed", "skipped": "gate skipped"}[report.gate]
    failed = "failed" in word.lower() or report.exit_code not in (0, 7)
    key = word.lower().removeprefix("gate ")
    return word, "bad" if failed else _COLOURS.get(key, "muted")


def _contents(report: Report) -> Iterator[tuple[str, str]]:
    absent = {one.part for one in report.missing}
    for ident, title, fields, parts in _SECTIONS:
        shown = any(getattr(report, name) for name in fields) or absent & set(parts)
        if shown or (ident == "run" and report.job is not None and report.job.error):
            yield ident, title


def facts_of(report: Report) -> Iterator[tuple[str, str]]:
    """Yield the facts on the job and its origin; empty if unknown."""
    job, source = report.job, report.source
    if job is not None:
        yield "job", job.name
        yield "status", f"{job.status}{', a ' + job.kind + ' job' if job.kind not in ('', 'command') else ''}"
        yield "experiment", job.experiment
        yield "compute", job.compute
        yield "created", job.created.strftime("%Y-%m-%d %H:%M:%S %Z") if job.created is not None else ""
        yield "ran for", duration(job.seconds) if job.seconds is not None else ""
    yield "configuration", report.configuration
    yield "target", report.target
    yield "repository", source.repository
    yield "commit", source.commit
    yield "branch", source.branch
    yield "pull request", f"{source.pull_request}" if source.pull_request is not None else ""


def _safe(text: str) -> Any:
    return Markup(text)  # noqa: S704 - the style sheet is ours


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
        "number": number_text,
        "numbers": lambda metrics: [(name, number_text(value)) for name, value in metrics.items()],
        "duration": duration,
        "size": size,
        "is_link": lambda url: _LINK.fullmatch(url) is not None,
        "data_url": _data_url,
        "shaded": shaded,
        "rows_of": _rows_of,
        "changes": _changes,
        "node_rows": lambda nodes: [
            (
                one.name,
                f"{one.status or 'not run'}{', reused' if one.reused else ''}",
                ", ".join(one.needs),
                one.environment,
                "" if one.seconds is None else duration(one.seconds),
                one.error,
            )
            for one in nodes
        ],
        "test_rows": lambda tests: [
            (
                one.image_name or "image",
                *("" if count is None else count for count in (one.passed, one.failed, one.skipped)),
                f"{'' if one.seconds is None else duration(one.seconds)}{', recorded earlier' if one.cached else ''}",
            )
            for one in tests
        ],
        "check_rows": lambda checks: [(one.level, one.check, one.what, one.why, one.remedy) for one in checks],
        "package_rows": lambda packages: [(one.name, one.version, one.kind) for one in packages],
        "attempt_rows": lambda attempts: [(one.attempt, one.job, one.status, one.ending) for one in attempts],
        "stage_rows": lambda stages: [
            (
                one.name,
                "skipped" if one.skipped else "not finished" if one.seconds is None else duration(one.seconds),
                one.summary,
            )
            for one in stages
        ],
    }
    return environment.get_template("report.html.j2")


def number_text(value: Number) -> str:
    """Return a number of a report for people: six digits, or its name."""
    return value if isinstance(value, str) else f"{value:.6g}"


def _data_url(picture: Picture) -> str:
    return f"data:{picture.type};base64,{base64.b64encode(picture.data).decode()}"


def _rows_of(rows: Sequence[Difference]) -> list[tuple[str, str, str, str]]:
    return [(one.name, one.left, one.right, one.difference) for one in rows]


def _changes(image: Image) -> list[tuple[str, str, str, str]]:
    return [(one.name, one.kind, one.before or "missing", one.after or "missing") for one in image.changes]


def shaded(table: Table) -> list[list[tuple[str, int]]]:
    """Return the cells of a confusion matrix, each with the depth of its shade.

    A cell is as deep as its share of its row: of the elements of a class that are predicted as such.
    """
    found = []
    for row in table.rows:
        values = [_value(cell) for cell in row[1:]]
        total = sum(values)
        shades = [math.ceil(value / total * _SHADES) if 0 < total < math.inf else 0 for value in values]
        found.append([*((cell, 0) for cell in row[:1]), *zip(row[1:], shades, strict=True)])
    return found


def _value(cell: str) -> float:
    try:
        value = float(cell)
    except ValueError:
        return 0.0
    return value if math.isfinite(value) and value > 0 else 0.0
