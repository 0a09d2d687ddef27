"""The job summary in GitHub's Markdown: image, tests, job, gate, model. Pure.

GitHub refuses a step's summary of more than 1 MiB as a whole: this one stays below whatever comes in, the least important parts
are cut first, and it says what is missing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from aml_train.core.events import TestsFinished, rank_label
from aml_train.core.text import duration, size, slowest
from aml_train.jobs import headline
from aml_train.pipeline.report import block, chart, code, escape, flowchart, link, logged_tables
from aml_train_action.report.outputs import choose_metrics
from aml_train_action.report.record import Record
from aml_train_action.report.sections import Section, fit, left_out

_LINEAGE_SIGNS: Final = {"verified": "✅", "recorded": "📝", "unknown": "❔", "broken": "❌"}
LIMIT: Final = 1_048_576
#: What the notes about left-out parts may take.
_RESERVE: Final = 8_192
_CHARTS: Final = 8
_MESSAGE: Final = 20_000
_VERDICTS: Final = {"met": "✅", "missed": "❌", "warned": "⚠️", "skipped": "⏭️"}
_OUTPUT: Final = 6000
_DRAWN: Final = 100
"""Nodes of a drawn graph; GitHub's Mermaid refuses very large ones."""

_SIGNS: Final = {
    "passed": "✅",
    "submitted": "🕓",
    "valid": "✅",
    "planned": "📋",
    "checked": "✅",
    "promoted": "✅",
    "rolled-back": "↩️",
    "unchanged": "✅",
    "dry-run": "📋",
    "reported": "✅",
    "accepted": "🚀",
    "refused": "👎",
    "ignored": "⏭️",
    "cancelled": "⚪",
    "timed-out": "⚪",
}

_LINEAGE: Final = "### Where the version comes from\n\n| | | | |\n|---|---|---|---|"
_FINDINGS: Final = {"error": "❌", "warning": "⚠️"}


def render_summary(record: Record, *, title: str, reproduce: str, text: str = "", limit: int = LIMIT) -> str:
    """Return the summary, in less than *limit* bytes of UTF-8.

    Args:
        record: what the run has come to.
        title: the project's name.
        reproduce: the command line that does the same elsewhere.
        text: what a command printed that is no run, such as the plan.
        limit: bytes.
    """
    sections = [
        _verdict(record, title),
        _message(record, text),
        Section(name="the promotion", importance=9, head="| | |\n|---|---|", rows=_promotion_rows(record)),
        _gate(record),
        _baseline(record),
        _failures(record),
        _outputs(record),
        _checks(record),
        _facts(record),
        _graph(record),
        *_logs(record),
        Section(name="the lineage", importance=5, head=_LINEAGE, rows=_lineage_rows(record)),
        _charts(record),
        _metrics(record),
        _logged(record),
        _stages(record),
        _notices(record),
        Section(
            name="the command", importance=8, head="**The same elsewhere**\n", rows=[block(reproduce, most=4000)]
        ),
    ]
    fit([section for section in sections if section.rows], limit - _RESERVE)
    parts = [section.render() for section in sections if section.rows]
    if gone := left_out(sections):
        parts.append(
            f"_Left out, because a summary has room for {limit // 1024} KiB: {', '.join(gone)}. The log has them._\n"
        )
    return "\n".join(part for part in parts if part)


def _verdict(record: Record, title: str) -> Section:
    sign = _SIGNS.get(record.status, "❌")
    tail = "" if record.exit_code == 0 else f" (exit code {record.exit_code})"
    return Section(
        name="the verdict",
        importance=10,
        rows=[f"## {sign} {escape(title, most=100)}: {escape(record.status, most=40)}{tail}\n"],
    )


def _message(record: Record, text: str) -> Section:
    rows = []
    # The job's logs have separate sections.
    message = headline(record.message) if record.logs is not None else record.message
    if message:
        rows.append(block(message, most=_MESSAGE) if "\n" in message else escape(message, most=_MESSAGE) + "\n")
    if record.hint:
        rows.append(escape(record.hint, most=2000) + "\n")
    if text:
        rows.append(block(text, most=200_000))
    return Section(name="the message", importance=9, rows=rows)


def _gate(record: Record) -> Section:
    rows = [
        f"| {_VERDICTS[rule.verdict]} | {code(rule.metric, most=200)} | {code(rule.rule, most=100)} | "
        f"{'missing' if rule.value is None else f'{rule.value:.6g}'} | {escape(rule.reason)} |"
        for rule in sorted(record.rules, key=lambda one: one.met)
    ]
    head = "### Gate\n\n| | metric | wanted | value | |\n|---|---|---|---:|---|"
    return Section(name="the gate's rules", importance=7, head=head, rows=rows)


def _baseline(record: Record) -> Section:
    """The comparison with the baseline: data, parameters that differ, metrics."""
    if record.comparison is None:
        return Section(name="the baseline", importance=6)
    rows = []
    for row in record.comparison.rows():
        wrap = escape if row.kind == "metric" or row.name in ("status", "ran for") else _code_or_nothing
        name = (
            code(row.name, most=200)
            if row.kind in ("metric", "parameter", "logged", "variable")
            else escape(row.name, most=200)
        )
        rows.append(f"| {name} | {wrap(row.left)} | {wrap(row.right)} | {escape(row.difference)} |")
    head = f"### Compared with the baseline, {escape(record.comparison.right.title, most=200)}\n\n"
    return Section(
        name="the baseline",
        importance=6,
        head=head + "| | this job | baseline | difference |\n|---|---:|---:|---|",
        rows=rows,
    )


def _code_or_nothing(text: str) -> str:
    return code(text, most=200) if text else ""


def _tests_of(record: Record) -> list[tuple[str, TestsFinished]]:
    """Return the tests of each image with its name; that of ``image`` is empty."""
    return [*([("", record.tests)] if record.tests else []), *record.tests_of_images.items()]


def _failures(record: Record) -> Section:
    failures = [failure for _, tests in _tests_of(record) for failure in tests.failures]
    rows = []
    for failure in failures:
        place = f"{failure.file}:{failure.line}" if failure.file and failure.line else failure.file or ""
        rows.append(
            f"| {code(failure.name, most=200)} | {code(place, most=200) if place else ''} | {escape(failure.message, most=300)} |"
        )
    return Section(
        name="failed tests", importance=6, head="### Failed tests\n\n| test | at | |\n|---|---|---|", rows=rows
    )


def _outputs(record: Record) -> Section:
    """The output of the failed tests, folded."""
    failures = [failure for _, tests in _tests_of(record) for failure in tests.failures]
    rows = [
        f"<details><summary>{code(failure.name, most=200)}</summary>{block(failure.output, most=_OUTPUT)}</details>"
        for failure in failures
        if failure.output
    ]
    return Section(name="output of failed tests", importance=3, head="### Output of failed tests\n", rows=rows)


def _logs(record: Record) -> list[Section]:
    """The tracebacks of a failed job, and the last lines of each rank, folded."""
    logs = record.logs
    if logs is None or (record.status in _SIGNS and record.exit_code == 0):
        return []
    tracebacks = [
        f"<details{' open' if number == 0 else ''}><summary>{_whose(one.origin, one.rank)}: {escape(one.message, most=300)}</summary>"
        f"{block(one.text, most=_OUTPUT)}</details>"
        for number, one in enumerate(logs.tracebacks)
    ]
    first = logs.tracebacks[0].origin if logs.tracebacks else None
    tails = [
        f"<details><summary>{_whose(tail.origin, tail.rank)}, {size(tail.size)}</summary>"
        f"{block(chr(10).join(tail.lines), most=_OUTPUT)}</details>"
        for tail in sorted(logs.tails, key=lambda tail: tail.origin != first)
    ]
    return [
        Section(name="the job's tracebacks", importance=6, head="### Tracebacks of the job\n", rows=tracebacks),
        Section(name="the last lines of the logs", importance=3, head="### Last lines of the logs\n", rows=tails),
    ]


def _whose(origin: str, rank: str) -> str:
    return f"{escape(rank_label(rank), most=100)} ({code(origin, most=200)})" if rank else code(origin, most=200)


def _checks(record: Record) -> Section:
    """Errors and warnings of the readiness checks; one more row has the rest."""
    findings = record.checks.findings if record.checks else ()
    rows = [
        f"| {_FINDINGS[one.counts_as]} | {code(one.check)} | {escape(one.what)} | {escape('; '.join(part for part in (one.why, one.remedy) if part), most=1000)} |"
        for one in findings
        if one.counts_as != "info"
    ]
    good = "; ".join(str(one) for one in findings if one.counts_as == "info")
    if good:
        rows.append(f"| ℹ️ | | {escape(good, most=3000)} | |")
    head = "### Checks of the image\n\n| | check | found | why, and what to do |\n|---|---|---|---|"
    return Section(name="checks of the image", importance=6, head=head, rows=rows)


def _facts(record: Record) -> Section:
    rows = []
    if record.image:
        image = record.image
        extra = f", {size(image.compressed_bytes)} compressed" if image.compressed_bytes else ""
        rows.append(f"| image | {code(image.reference)} |")
        rows.append(f"| digest | {code(image.digest)} ({image.how}{extra}) |")
    elif record.job:
        rows.append("| image | the job's own environment: given, not tested |")
    for name, image in record.images.items():
        rows.append(f"| image {code(name)} | {code(image.reference)} ({image.how}) |")
    for name, tests in _tests_of(record):
        counts = "no counts: they wrote no JUnit report"
        if tests.passed is not None:
            counts = f"{tests.passed} passed, {tests.failed} failed, {tests.skipped} skipped"
        earlier = ", recorded earlier in this very image" if tests.cached else ""
        label = f"tests in {code(name)}" if name else "tests"
        rows.append(f"| {label} | {counts} in {duration(tests.seconds)}{earlier} |")
        if slow := slowest(tests.slowest):
            rows.append(f"| slowest tests | {escape(slow)} |")
    if record.job:
        attached = " (attached: it had been submitted before)" if record.job.attached else ""
        rows.append(f"| job | {code(record.job.job)}{attached} |")
        if record.job_status:
            rows.append(f"| job status | {escape(record.job_status, most=100)} |")
        if record.job.studio_url:
            rows.append(f"| studio | {link('open the job', record.job.studio_url)} |")
    if len(record.attempts) > 1:
        rows += [
            f"| attempt {one.attempt} | {code(one.job)} {escape(one.ending, most=100)} |" for one in record.attempts
        ]
    if record.cost:
        rows.append(f"| cost | {escape(record.cost.text, most=200)} |")
    if record.model:
        earlier = " (registered earlier)" if record.model.found else ""
        rows.append(
            f"| model | {code(record.model.model)} version {escape(record.model.version, most=100)}{earlier} |"
        )
    return Section(name="image, tests, job and model", importance=8, head="| | |\n|---|---|", rows=rows)


def _graph(record: Record) -> Section:
    """Return the nodes of a pipeline, or trials of a sweep, as drawing and table."""
    names = [node.name for node in record.graph] or list(record.nodes)
    planned = {node.name: node for node in record.graph}
    rows = [flowchart(record.graph, record.nodes) + "\n"] if 0 < len(record.graph) <= _DRAWN else []
    if names:
        rows.append("| node | status | environment |\n|---|---|---|")
    for name in names:
        seen = record.nodes.get(name)
        status = "not run" if seen is None else f"{seen.status}{', reused' if seen.reused else ''}"
        environment = planned[name].environment if name in planned else ""
        word, _, image = environment.partition(" ")
        shown = f"the tested image {code(image)}" if image else "the tested image"
        if word != "image":
            shown = escape(environment, most=200)
        rows.append(f"| {code(name, most=200)} | {escape(status, most=100)} | {shown} |")
    return Section(name="the nodes", importance=7, head="### Nodes\n", rows=rows)


def _stages(record: Record) -> Section:
    rows = []
    for stage, title in record.started.items():
        done = record.finished.get(stage)
        took = ("skipped" if done.skipped else duration(done.seconds)) if done else "not finished"
        rows.append(f"| {stage} | {took} | {escape(done.summary if done else title, most=300)} |")
    return Section(name="durations", importance=5, head="### Stages\n\n| stage | took | |\n|---|---:|---|", rows=rows)


def _charts(record: Record) -> Section:
    drawn = []
    for metric in list(dict.fromkeys(rule.metric for rule in record.rules))[:_CHARTS]:
        limits = [rule.limit for rule in record.rules if rule.metric == metric and rule.limit is not None]
        drawn.append(chart(metric, record.histories.get(metric, ()), limits, record.baseline.get(metric, ())))
    gated = {rule.metric for rule in record.rules}
    courses = [(one.name, one.course) for one in record.tables if one.kind == "list" and one.name not in gated]
    drawn += [chart(name, course) for name, course in courses[: _CHARTS - len(drawn)]]
    head = "### Metrics over steps\n"
    if any(record.baseline.get(rule.metric) for rule in record.rules):
        head += "\nThe second line is the baseline's.\n"
    return Section(name="charts", importance=4, head=head, rows=[one + "\n" for one in drawn if one])


def _metrics(record: Record) -> Section:
    gated = {rule.metric for rule in record.rules}
    others = {name: value for name, value in choose_metrics(record).items() if name not in gated}
    rows = [f"| {code(name, most=200)} | {value:.6g} |" for name, value in others.items()]
    left = len(record.metrics or {}) - len(choose_metrics(record))
    head = "### Other metrics\n\n| metric | last value |\n|---|---:|"
    return Section(name="other metrics", importance=2, head=head, rows=rows, cut=left if rows else 0)


def _logged(record: Record) -> Section:
    """Tables that azureml-core logged; each is kept or cut as a whole."""
    rows, more = logged_tables(record.tables), record.more_tables
    return Section(
        name="other logged values", importance=2, head="### Other logged values\n", rows=rows, cut=more if rows else 0
    )


def _notices(record: Record) -> Section:
    rows = [f"- {escape(notice)}" for notice in record.notices]
    return Section(name="notices", importance=3, head="### Notices\n", rows=rows)


def _promotion_rows(record: Record) -> list[str]:
    """Return the rows of the stage's table; none without a promotion."""
    facts = record.facts
    if "promotion" not in facts:
        return []
    would = facts["promotion"] == "dry-run"
    model, previous = str(facts["model"]), facts.get("previous_version")
    rows = [
        f"| stage | {code(str(facts['stage']))} |",
        f"| {'would be in it' if would else 'in it now'} | {code(model)} version {escape(str(facts['promoted_version']))} |",
    ]
    if previous:
        word = "would be archived" if would else "archived"
        rows.append(f"| {word} | {code(model)} version {escape(str(previous))} |")
    if record.promoted:
        rows.append(f"| asked for by | {escape(record.promoted.actor, most=200)} |")
    if record.reason:
        rows.append(f"| why | {escape(record.reason, most=500)} |")
    return rows


def _lineage_rows(record: Record) -> list[str]:
    """Return the rows of the version's lineage."""
    lineage = record.facts.get("lineage")
    if not isinstance(lineage, Mapping):
        return []
    return [
        f"| {_LINEAGE_SIGNS.get(str(step['state']), '')} {escape(str(step['state']))} | {'&nbsp;&nbsp;' * depth}{escape(str(step['kind']))} |"
        f" {code(str(step['name']), most=300)} | {escape(str(step['detail']), most=500)} |"
        for step, depth in _walk(lineage, 0)
    ]


def _walk(step: Mapping[str, Any], depth: int) -> Iterator[tuple[Mapping[str, Any], int]]:
    yield step, depth
    for part in step["parts"]:
        yield from _walk(part, depth + 1)
