"""The record of a run, from its events: the source of outputs and summary."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final, Literal

from aml_train.core.comparison import Comparison
from aml_train.core.events import (
    AttemptEnded,
    BaselineCompared,
    CostCounted,
    Event,
    GraphNode,
    GraphPlanned,
    ImageChecked,
    ImageReady,
    JobStatusChanged,
    JobSubmitted,
    LogsEnded,
    MetricsSettled,
    ModelPromoted,
    ModelRegistered,
    NodeChanged,
    Notice,
    RuleVerdict,
    RunFinished,
    StageFinished,
    TestsFinished,
)
from aml_train.core.masked_events import masked
from aml_train.core.tables import Table

_MOST_NOTICES: Final = 100
#: Computed names, in which a short secret may occur by chance, among the facts that a run reports at its end.
_COMPUTED_FACTS: Final = frozenset(
    {"experiment", "model", "promoted_version", "previous_version", "stage", "promotion"}
)


@dataclass(kw_only=True)
class Record:
    """A listener that keeps the latest state; fields without an event are empty.

    A run that ends early leaves the results until then. *facts* are its final ones; *reason* is that of a promotion.
    *directory* is the project folder, once it is known, *report_file* the file of the report, relative to the workspace.
    """

    directory: Path | None = None
    ended: bool = False
    status: str = "error"
    exit_code: int = 1
    message: str = ""
    hint: str | None = None
    finished: dict[str, StageFinished] = field(default_factory=dict)
    image: ImageReady | None = None
    checks: ImageChecked | None = None
    tests: TestsFinished | None = None
    images: dict[str, ImageReady] = field(default_factory=dict)
    tests_of_images: dict[str, TestsFinished] = field(default_factory=dict)
    job: JobSubmitted | None = None
    job_status: str | None = None
    graph: tuple[GraphNode, ...] = ()
    nodes: dict[str, NodeChanged] = field(default_factory=dict)
    attempts: list[AttemptEnded] = field(default_factory=list)
    cost: CostCounted | None = None
    metrics: Mapping[str, float] | None = None
    histories: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    more_tables: int = 0
    rules: list[RuleVerdict] = field(default_factory=list)
    comparison: Comparison | None = None
    baseline: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    model: ModelRegistered | None = None
    logs: LogsEnded | None = None
    promoted: ModelPromoted | None = None
    reason: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)
    notices: list[str] = field(default_factory=list)
    report_file: str = ""

    @property
    def gate(self) -> Literal["passed", "failed", "skipped", ""]:
        """Return ``passed``, ``failed`` or ``skipped``; empty if no rule was decided."""
        verdicts = {rule.verdict for rule in self.rules}
        if not verdicts:
            return ""
        return "failed" if "missed" in verdicts else "skipped" if verdicts == {"skipped"} else "passed"

    def end(self, status: str, exit_code: int, message: str, hint: str | None = None) -> None:
        """Record the end."""
        self.status, self.exit_code = status, exit_code
        self.message, self.hint = message, hint
        self.ended = True

    def masked(self, mask: Callable[[str], str], mask_name: Callable[[str], str]) -> Record:
        """Return a copy without secrets in its texts: escaped for Markdown or JSON, not every one would be found.

        *mask_name* replaces them in names that were computed.
        """
        computed = {name: fact for name, fact in self.facts.items() if name in _COMPUTED_FACTS}
        facts = {**masked(self.facts, mask, mask_name), **masked(computed, mask_name, mask_name)}
        shown = masked(self, mask, mask_name)
        return replace(shown, status=self.status, report_file=self.report_file, facts=facts)

    @property
    def experiment(self) -> str | None:
        """The job's experiment."""
        return self.facts.get("experiment")

    def __call__(self, event: Event) -> None:
        """Record one event."""
        match event:
            case StageFinished():
                self.finished[event.stage] = event
            case ImageReady() if event.image_name:
                self.images[event.image_name] = event
            case ImageReady():
                self.image = event
            case ImageChecked() if self.checks is not None:
                self.checks = replace(self.checks, findings=(*self.checks.findings, *event.findings))
            case ImageChecked():
                self.checks = event
            case TestsFinished() if event.image_name:
                self.tests_of_images[event.image_name] = event
            case TestsFinished():
                self.tests = event
            case JobSubmitted():
                self.job = event
            case JobStatusChanged():
                self.job_status = event.status
            case GraphPlanned():
                self.graph = event.nodes
            case NodeChanged():
                self.nodes[event.node] = event
            case LogsEnded():
                self.logs = event
            case AttemptEnded():
                self.attempts.append(event)
            case CostCounted():
                self.cost = event
            case MetricsSettled():
                self.metrics, self.histories = event.metrics, event.histories
                self.tables, self.more_tables = event.tables, event.more_tables
            case RuleVerdict():
                self.rules.append(event)
            case BaselineCompared():
                self.comparison, self.baseline = event.comparison, event.histories
            case ModelRegistered():
                self.model = event
            case ModelPromoted():
                self.promoted = event
            case Notice():
                if len(self.notices) < _MOST_NOTICES:
                    self.notices.append(event.text)
            case RunFinished():
                self.end(event.status, event.exit_code, event.message, event.hint)
                self.facts = event.facts
            case _:
                pass
