"""A report as one comment of a pull request. Pure.

GitHub refuses a body that is too long as a whole: older servers count 65,536 characters, github.com 262,144 bytes. A comment of at
most 65,536 bytes passes however it is counted. The least important parts are cut first, and the comment names them.
"""

from __future__ import annotations

import math
from typing import Final

from aml_train.core.text import duration, size
from aml_train.pipeline.report import Report, Rule, chart
from aml_train_action.pulls.marker import marker_of
from aml_train_action.pulls.markup import head, lines, literal, message, own_link, row, studio
from aml_train_action.pulls.subject import Subject, Word, verdict
from aml_train_action.report import Section, fit, left_out

LIMIT: Final = 65_536
_RESERVE: Final = 2_048
_CHARTS: Final = 12
_SIGNS: Final[dict[Word, str]] = {"passed": "✅", "failed": "❌", "cancelled": "⚪", "unconfirmed": "❌"}
_VERDICTS: Final = {"met": "✅", "missed": "❌", "warned": "⚠️", "skipped": "⏭️"}
_LEVELS: Final = {"error": "❌", "warning": "⚠️", "info": "ℹ️"}
#: Ending → what to do next. A word that is not here is shown, and nothing is advised.
_NEXT: Final = {
    "passed": "The gate is met. After the merge, the run of the default branch finds this job and registers its model.",
    "submitted": "The job runs. A step with <code>command: attach</code> gates it once it has ended.",
    "valid": "The configuration is valid. Nothing was trained.",
    "planned": "This is a plan. Nothing was trained.",
    "checked": "The set-up is complete. Nothing was trained.",
    "gate-failed": "Compare the missed rules with the baseline below; change the training or, with a reason, the rule.",
    "tests-failed": "The tests failed in the very image that would train: run them with the command at the end.",
    "job-failed": "The workflow's summary has the traceback of the job, and the ends of its logs.",
    "image-failed": "The workflow's log has the output of the build.",
    "invalid": "Correct the configuration; nothing was built or submitted.",
    "cancelled": "Run the workflow again: what was built and tested is found again.",
    "timed-out": "Raise <code>timeout</code>, or train for fewer steps.",
    "preempted": "Run the workflow again, or use a compute that is not preempted.",
    "not-responding": "AzureML lost contact with the node: run the workflow again.",
    "service-error": "A service refused or did not answer: the message has its words. Run the workflow again after an outage.",
    "not-verified": "The passport of the model could not be issued: the message has the reason.",
    "error": "This is a fault of aml-train: please report it with the traceback in the workflow's log.",
}


def render_comment(report: Report, subject: Subject, *, limit: int = LIMIT) -> str:
    """Return the comment, with its marker, in at most *limit* bytes."""
    marker = str(marker_of(report.configuration, report.target, subject)) + "\n"
    return marker + render_body(report, subject, limit=limit - len(marker))


def render_body(report: Report, subject: Subject, *, limit: int = LIMIT) -> str:
    """Return the report without the marker, in at most *limit* bytes of UTF-8."""
    sections = [
        _verdict(report, subject),
        _trust(report, subject),
        _message(report),
        _gate(report),
        _failures(report),
        _moved(report),
        _differences(report),
        _facts(report),
        *_packages(report),
        _charts(report),
        _nodes(report),
        _checks(report),
        _metrics(report),
        _notices(report),
        _reproduce(report),
    ]
    present = [section for section in sections if section.rows]
    fit(present, limit - _RESERVE)
    parts = [section.render() for section in present if section.rows]
    if gone := left_out(present):
        parts.append(f"Left out for lack of room: {', '.join(gone)}. The summary of the workflow has them.\n")
    if report.left_out:
        parts.append(f"Not in the report: {literal('; '.join(report.left_out), most=300)}.\n")
    return "\n".join(parts)


def _verdict(report: Report, subject: Subject) -> Section:
    word = verdict(report, subject)
    shown = "not confirmed" if word == "unconfirmed" else literal(report.status, most=40)
    exit_code = f" (exit code {report.exit_code})" if report.exit_code else ""
    place = " · ".join(
        part
        for part in (
            f"Commit {literal(subject.commit[:12])}",
            own_link("the workflow's run", subject.run_url),
            f"configuration {literal(report.configuration, most=200)}" if report.configuration else "",
            f"target {literal(report.target, most=100)}" if report.target else "",
        )
        if part
    )
    return Section(
        name="the verdict",
        importance=10,
        rows=[f"### {_SIGNS[word]} {literal(report.title, most=100) or 'aml-train'}: {shown}{exit_code}\n", place],
    )


def _trust(report: Report, subject: Subject) -> Section:
    """Say what the trusted side does not vouch for."""
    rows = []
    if verdict(report, subject) == "unconfirmed":
        ended = subject.conclusion or "without a conclusion"
        rows.append(
            f"> The report says {literal(report.status, most=40)}, and GitHub that the workflow ended with "
            f"{literal(ended, most=40)}: this commit has not passed.\n"
        )
    if subject.forked:
        rows.append(
            f"> The commit is from the fork {literal(subject.head_repository, most=200)}, whose own code made this report: "
            "its numbers are the fork's word. The conclusion of the workflow is GitHub's.\n"
        )
    if not subject.present:
        rows.append(f"> The pull request has a newer commit, {literal(subject.head[:12])}.\n")
    return Section(name="remarks on the origin", importance=10, rows=rows)


def _message(report: Report) -> Section:
    rows = []
    if report.message:
        rows.append(message(report.message) + "\n")
    if report.hint:
        rows.append(message(report.hint, most=1500) + "\n")
    if advice := _NEXT.get(report.status):
        rows.append(f"Next: {advice}\n")
    return Section(name="the message", importance=9, rows=rows)


def _number(value: float | str | None, missing: str = "") -> str:
    if value is None:
        return missing
    return value if isinstance(value, str) else f"{value:.6g}"


def _difference(rule: Rule) -> str:
    """Return the rule's value less the baseline's, as text; empty without both."""
    if not isinstance(rule.value, float | int) or not isinstance(rule.baseline, float | int):
        return ""
    from aml_train.core.comparison import metric_difference

    found = metric_difference(float(rule.value), float(rule.baseline))
    if found.difference is None or not math.isfinite(found.difference):
        return ""
    percent = "" if found.percent is None else f" ({found.percent:+.3g} %)"
    return f"{found.difference:+.6g}{percent}"


def _gate(report: Report) -> Section:
    rows = [
        row(
            _VERDICTS[rule.verdict],
            literal(rule.metric, most=200),
            literal(rule.rule, most=100),
            _number(rule.value, "missing"),
            _number(rule.baseline),
            _difference(rule),
            literal(rule.reason, most=300),
        )
        for rule in sorted(report.rules, key=lambda one: one.verdict != "missed")
    ]
    against = f"\n\nThe baseline is {literal(report.baseline.title, most=200)}." if report.baseline else ""
    titles = head("", "metric", "wanted", "value", "baseline", "difference", "", numbers=(3, 4, 5))
    return Section(name="the gate's rules", importance=8, head=f"#### Gate{against}\n\n{titles}", rows=rows)


def _failures(report: Report) -> Section:
    rows = []
    for tests in report.tests:
        for failure in tests.failures:
            place = f"{failure.file}:{failure.line}" if failure.file and failure.line else failure.file
            rows.append(row(literal(failure.name, most=200), literal(place), literal(failure.message)))
    return Section(
        name="failed tests", importance=7, head=f"#### Failed tests\n\n{head('test', 'at', '')}", rows=rows
    )


def _moved(report: Report) -> Section:
    """The metrics that differ from the baseline's, without those of the gate."""
    gated = {rule.metric for rule in report.rules}
    rows = [
        row(literal(one.name, most=200), literal(one.left), literal(one.right), literal(one.difference))
        for one in (report.baseline.rows if report.baseline else ())
        if one.kind == "metric" and not one.same and one.name not in gated
    ]
    titles = head("metric", "this job", "baseline", "difference", numbers=(1, 2, 3))
    return Section(
        name="other metrics that moved", importance=6, head=f"#### Other metrics that moved\n\n{titles}", rows=rows
    )


def _differences(report: Report) -> Section:
    """Data, parameters and facts that differ from the baseline's."""
    shown = ("fact", "data", "parameter", "logged", "variable")
    rows = [
        row(literal(one.name, most=200), literal(one.left, most=200), literal(one.right, most=200))
        for one in (report.baseline.rows if report.baseline else ())
        if one.kind in shown and not one.same
    ]
    titles = head("", "this job", "baseline")
    return Section(
        name="what differs from the baseline", importance=6, head=f"#### What differs\n\n{titles}", rows=rows
    )


def _facts(report: Report) -> Section:
    rows = []
    for image in report.images:
        extra = f", {size(image.compressed_bytes)} compressed" if image.compressed_bytes else ""
        name = f"image {literal(image.name, most=100)}" if image.name else "image"
        rows.append(row(name, f"{literal(image.reference, most=400)} ({image.how or 'given'}{extra})"))
    for tests in report.tests:
        name = f"tests in {literal(tests.image_name, most=100)}" if tests.image_name else "tests"
        counts = "no counts: they wrote no JUnit report"
        if tests.passed is not None:
            counts = f"{tests.passed} passed, {tests.failed or 0} failed, {tests.skipped or 0} skipped"
        took = "" if tests.seconds is None else f" in {duration(tests.seconds)}"
        rows.append(row(name, f"{counts}{took}{', recorded earlier in this very image' if tests.cached else ''}"))
    if job := report.job:
        words = [literal(job.name), literal(job.status, most=60), "attached" if job.attached else "", studio(job.url)]
        rows.append(row("job", " · ".join(word for word in words if word)))
    rows += [row(f"data {literal(name, most=100)}", literal(place)) for name, place in report.data.items()]
    if report.cost:
        rows.append(row("cost", literal(report.cost.text, most=200)))
    if model := report.model:
        rows.append(row("model", f"{literal(model.name)} version {literal(model.version, most=60)}"))
    return Section(name="image, tests, job and data", importance=8, head=f"#### Run\n\n{head('', '')}", rows=rows)


def _packages(report: Report) -> list[Section]:
    """The packages that changed in each image, folded."""
    sections = []
    for image in report.images:
        rows = [
            row(literal(one.name, most=200), literal(one.kind, most=60), literal(one.before), literal(one.after))
            for one in image.changes
        ]
        count = len(image.changes) + max(image.more_changes, 0)
        title = f"Changes in the image {literal(image.name, most=100)}".strip()
        start = f"<details><summary>{title}: {count} packages</summary>\n\n"
        sections.append(
            Section(
                name="packages that changed",
                importance=5,
                head=start + head("package", "", "before", "after"),
                rows=rows,
                tail="\n</details>",
                cut=max(image.more_changes, 0) if rows else 0,
            )
        )
    return sections


def _charts(report: Report) -> Section:
    drawn = []
    for curve in report.curves[:_CHARTS]:
        series = [one.points for one in curve.series[:2]]
        if picture := chart(curve.metric, series[0] if series else (), curve.limits[:5], *series[1:2]):
            drawn.append(
                f"<details><summary>{literal(curve.metric, most=200)}</summary>\n\n{picture}\n\n</details>\n"
            )
    second = " The second line is the baseline's." if any(len(one.series) > 1 for one in report.curves) else ""
    return Section(
        name="curves", importance=4, head=f"#### Metrics over steps\n\nFlat lines are limits.{second}\n", rows=drawn
    )


def _nodes(report: Report) -> Section:
    rows = [
        row(literal(node.name, most=200), literal(node.status or "not run", most=60), "reused" if node.reused else "")
        for node in report.nodes
    ]
    return Section(name="the nodes", importance=5, head=f"#### Nodes\n\n{head('node', 'status', '')}", rows=rows)


def _checks(report: Report) -> Section:
    rows = [
        row(_LEVELS[one.level], literal(one.check, most=60), literal(one.what), literal(one.remedy or one.why))
        for one in report.checks
        if one.level != "info"
    ]
    return Section(
        name="checks of the image",
        importance=4,
        head=f"#### Checks of the image\n\n{head('', 'check', 'found', '')}",
        rows=rows,
    )


def _metrics(report: Report) -> Section:
    shown = {rule.metric for rule in report.rules}
    shown |= {one.name for one in (report.baseline.rows if report.baseline else ()) if one.kind == "metric"}
    rows = [
        row(literal(name, most=200), _number(value)) for name, value in report.metrics.items() if name not in shown
    ]
    start = "<details><summary>Other metrics</summary>\n\n"
    return Section(
        name="other metrics",
        importance=2,
        head=start + head("metric", "last value", numbers=(1,)),
        rows=rows,
        tail="\n</details>",
    )


def _notices(report: Report) -> Section:
    rows = [f"- {literal(notice)}" for notice in report.notices if notice.strip()]
    start = "<details><summary>Notices</summary>\n"
    return Section(name="notices", importance=1, head=start, rows=rows, tail="\n</details>")


def _reproduce(report: Report) -> Section:
    rows = [lines(report.reproduce, most=2000)] if report.reproduce else []
    return Section(name="the command", importance=7, head="The same elsewhere:\n", rows=rows)
