"""What logs say of events, in the terminal and in GitHub: lines as they happen, and facts for the end. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from aml_train.core import events
from aml_train.core.text import duration, size, slowest
from aml_train.jobs.states import JobStatus

SIGNS: Final = {"error": "✗", "warning": "!", "info": "·"}
"""Level of a finding → its sign."""

_RULES: Final = {"met": "✓", "missed": "✗", "warned": "!", "skipped": "·"}
_NODES: Final = {JobStatus.COMPLETED: "✓", JobStatus.FAILED: "✗"}


def lines_of(event: events.Event) -> Iterator[tuple[str, str, str]]:
    """Yield what is said when *event* happens: a sign (``✓``, ``✗``, ``!`` or ``·``), what it is about, and a text of any origin."""
    match event:
        case events.StageFinished():
            yield "✓", event.stage, f"{event.summary}  ({duration(event.seconds)})"
        case events.Notice():
            yield SIGNS[event.level], "", event.text
        case events.ImageChecked():
            for finding in event.findings:
                if finding.counts_as != "info" or not event.cached:
                    yield SIGNS[finding.counts_as], "check", str(finding)
        case events.TestsFinished():
            for failure in event.failures:
                yield "✗", "tests", str(failure)
            if slow := slowest(event.slowest):
                yield "·", "tests", f"slowest: {slow}"
        case events.JobStatusChanged():
            yield "·", "job", event.status
        case events.NodeChanged():
            sign = _NODES.get(JobStatus(event.status), "·")
            yield sign, "node", f"{event.node}: {event.status}{', reused' if event.reused else ''}"
        case events.ReplicateChanged():
            values = ", ".join(f"{name} {value:.6g}" for name, value in event.metrics.items())
            yield (
                _NODES.get(JobStatus(event.status), "·"),
                "job",
                f"{event.replicate}: {values or event.status}",
            )
        case events.RuleVerdict():
            yield _RULES[event.verdict], "gate", event.reason
        case events.StopFound() if event.node_hours is None:
            yield "!", "stop", f"{event.rule.reason} ({event.rule.where}); {event.effect}"
        case events.CostCounted() if event.unknown:
            yield "·", "", event.unknown


def facts_of(event: events.Event) -> Iterator[tuple[str, str]]:
    """Yield what *event* adds to the facts of a run: name and text. A later fact of the same name replaces the earlier one."""
    match event:
        case events.ImageReady():
            yield f"image {event.image_name}".rstrip(), f"{event.reference} ({event.origin})"
        case events.TestsFinished():
            earlier = " (recorded earlier in this image)" if event.cached else ""
            yield f"tests {event.image_name}".rstrip(), event.counts + earlier
        case events.JobSubmitted():
            yield "job", event.job + (" (attached)" if event.attached else "")
            if event.studio_url:
                yield "studio" if event.studio_url.startswith("https:") else "page", event.studio_url
        case events.AttemptEnded() if event.again is not None or event.attempt > 1:
            yield f"attempt {event.attempt}", f"{event.job}  {event.how}"
        case events.LogsEnded() if len(event.tails) > 1:
            yield "logs", f"{len(event.tails)} logs, {size(sum(tail.size for tail in event.tails))}"
        case events.CostCounted():
            yield "cost", event.text
        case events.StopFound() if event.node_hours is not None:
            yield f"stop {event.label}", event.effect
        case events.ModelRegistered():
            earlier = " (registered earlier)" if event.found else ""
            yield "model", f"{event.model} version {event.version}{earlier}"
        case events.ModelPromoted():
            after = f", and version {event.previous} is archived" if event.previous else ""
            there = f" of the workspace {event.workspace}" if event.workspace else ""
            yield event.stage, f"{event.model} version {event.version}{there}{after}"
