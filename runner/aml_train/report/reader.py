"""Read the parts of a job's report, each with what is missing in it."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeVar, get_args

from aml_train.comparison import Project, metric_points
from aml_train.config.model import Config
from aml_train.config.sections.watch import CostConfig
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.comparison import Row, Side
from aml_train.core.errors import AmlTrainError, CancelledError
from aml_train.core.events import CostCounted, Event, ImageReady, LogTail, Notice, RuleVerdict
from aml_train.core.git import Origin
from aml_train.core.masking import Masker
from aml_train.core.tags import Tag
from aml_train.gate.decide import GateResult
from aml_train.gate.history import MetricPoint
from aml_train.jobs.attempts import attempt_of, earlier_attempts
from aml_train.jobs.composed import ChildView
from aml_train.jobs.cost import Spending
from aml_train.jobs.metrics import tables_of_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView, seconds_of
from aml_train.models.lineage import Tracer
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.evaluate import evaluate, find_replicated
from aml_train.report import images, parts, values

_T = TypeVar("_T")
_ORDER: Final = {part: number for number, part in enumerate(get_args(values.Part))}


@dataclass(frozen=True, kw_only=True)
class ReportSources(Tracer):
    """The services that a report is read from, and what it is made with.

    Attributes:
        project: loads the project; asked as often as it is needed.
        target: the name of the target, for the command that does the same again.
        masker: hides secrets in every text.
        clock: time.
        now: the time by the calendar.
        progress: receives the name of each part before it is read.
    """

    project: Callable[[], Project]
    target: str = ""
    masker: Masker = field(default_factory=Masker)
    clock: Clock = SYSTEM_CLOCK
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
    progress: Callable[[str], None] = lambda _part: None


class Gaps:
    """The missing parts, and remarks; parallel readers add to both.

    Args:
        progress: receives the name of each part before it is read.
    """

    def __init__(self, progress: Callable[[str], object]) -> None:
        self._progress = progress
        self._begun: set[str] = set()
        self._missing: dict[values.Missing, None] = {}
        self.notices: list[str] = []

    @property
    def missing(self) -> tuple[values.Missing, ...]:
        """The missing parts, in the order of the report."""
        return tuple(sorted(self._missing, key=lambda one: _ORDER[one.part]))

    def read(self, part: values.Part, work: Callable[[], _T]) -> _T | None:
        """Return the result of *work*; if it fails, None, and note why."""
        if part not in self._begun:
            self._begun.add(part)
            self._progress(part)
        try:
            return work()
        except CancelledError:
            raise
        except AmlTrainError as error:
            self.say(part, error.message)
            return None

    def say(self, part: values.Part, reason: str) -> None:
        """Note what is missing in a part, and why; once."""
        self._missing[values.Missing(part=part, reason=reason)] = None


@dataclass(frozen=True, kw_only=True)
class PartReader:
    """Reads the parts of one report; its methods may run in parallel.

    Attributes:
        sources: where from.
        gaps: receives what is missing.
        view: the job.
        config: the configuration, if it is the job's.
        origin: of the checkout of *config*.
        children: the nodes or trials of the job.
        model: the version that the job wrote, if it is known.
        baseline: the other side of the comparison, if there is one.
    """

    sources: ReportSources
    gaps: Gaps
    view: JobView
    config: Config | None
    origin: Origin | None
    children: Sequence[ChildView]
    model: ModelView | None
    baseline: Side | None

    def gate_and_curves(self, metrics: Mapping[str, float], others: Sequence[Side]) -> Mapping[str, Any]:
        """Decide the gate, and read the tables and curves, those of *others* as well."""
        service, view, model, gaps = self.sources.service, self.view, self.model, self.gaps
        decided, before = self._decided(), view.tags.get(Tag.GATE, "")
        history = functools.partial(service.metric_history, view.name)
        rules: Sequence[RuleVerdict] = ()
        if decided is not None:
            rules, word = decided.decision.rules, str(decided.decision.word)
            tables, more, remark = decided.tables, decided.more_tables, decided.remark
            metrics = {**metrics, **decided.metrics}
            if before not in ("", word):
                gaps.notices.append(
                    f"The gate's verdict was {before!r} when the run ended; by the present rules and baseline it is {word!r}."
                )
        else:
            tags = view.tags if model is None else model.tags
            word = tags.get(Tag.GATE, "")
            rules = gaps.read("gate", lambda: list(parts.recorded_rules(tags, history))) or ()
            tables, more, remark = tables_of_job(service, view.name, metrics)
        if more:
            gaps.notices.append(f"{more} more logged tables are not shown.")
        if remark:
            gaps.say("tables", remark)
        limits: dict[str, list[float]] = {}
        for rule in rules:
            if rule.limit is not None:
                limits.setdefault(rule.metric, []).append(rule.limit)
        sides: list[parts.CurveSide] = [(f"the job {view.name}", "job", history)]
        sides += [(one.title, "baseline", self._history(one)) for one in (self.baseline,) if one is not None]
        sides += [(one.title, "other", self._history(one)) for one in others]
        names = parts.chosen_metrics(metrics, [rule.metric for rule in rules])
        curves, left = gaps.read("curves", lambda: parts.read_curves(names, sides, limits)) or ([], 0)
        if left > 0:
            gaps.notices.append(f"Up to {left} more curves are not drawn.")
        return {
            "gate": word if word in ("passed", "failed", "skipped") else "",
            "rules": tuple(rules),
            "replicates": () if decided is None else decided.replicates,
            "tables": tuple(tables),
            "curves": tuple(curves),
            "metrics": metrics,
        }

    def _decided(self) -> GateResult | None:
        """Return the decision by the present rules; None if none apply."""
        config, view = self.config, self.view
        if config is None or not config.gate:
            return None
        if view.status is not JobStatus.COMPLETED:
            self.gaps.notices.append(f"The gate decides completed jobs only; this one is {view.status.value}.")
            return None
        service, clock = self.sources.service, self.sources.clock
        decide = functools.partial(evaluate, service, view.name, config.gate, config.baseline, pause=0.0)
        prover = Recorded(origin=self.origin)

        def read() -> GateResult:
            replicated = None if config.replicates is None else find_replicated(service, view, config.replicates)
            return decide(clock=clock, prover=prover, replicated=replicated)

        return self.gaps.read("gate", read)

    def _history(self, side: Side) -> Callable[[str], Sequence[MetricPoint]]:
        def of(metric: str) -> Sequence[MetricPoint]:
            read = functools.partial(metric_points, lambda: self.sources.service, side, metric)
            return self.gaps.read("curves", read) or ()

        return of

    def images(self) -> Mapping[str, Any]:
        """Read the image, its packages and tests, and what differs from the baseline's."""
        sources, gaps, view = self.sources, self.gaps, self.view
        image = gaps.read("images", lambda: images.image_of(view, sources.catalogue))
        if image is None:
            return {}
        packages = gaps.read("packages", lambda: images.read_packages_of(sources, image)) or {}
        tests = gaps.read("packages", lambda: images.read_tests(sources, image, view))
        return {
            "images": (image, *images.further_images(view.tags)),
            "packages": packages,
            "package_changes": gaps.read("packages", lambda: self._changes(image, packages)) or (),
            "tests": () if tests is None else (tests,),
        }

    def _changes(self, image: ImageReady, packages: Mapping[str, str]) -> tuple[Row, ...]:
        """Return the packages that differ from those of the baseline's image."""
        baseline = self.baseline
        if baseline is None or baseline.job is None or not packages:
            return ()
        view = self.sources.service.find(baseline.job)
        before = images.image_of(view, self.sources.catalogue) if view is not None else None
        if before is None or before.digest in ("", image.digest):
            return ()
        return images.changed_packages(images.read_packages_of(self.sources, before), packages)

    def lineage(self) -> Mapping[str, Any]:
        """Trace the lineage of the model, or of a job that wrote none."""
        sources, model = self.sources, self.model
        trace = functools.partial(sources.trace_job, self.view) if model is None else lambda: sources.trace(model)
        return {"lineage": self.gaps.read("lineage", trace)}

    def files(self) -> Mapping[str, Any]:
        """Read the images that the job or its nodes wrote."""
        read = functools.partial(parts.read_pictures, self.sources.service, self.view, self.children)
        pictures, remarks = self.gaps.read("pictures", read) or ([], [])
        for remark in remarks:
            self.gaps.say("pictures", remark)
        return {"pictures": tuple(pictures)}

    def logs(self) -> Mapping[str, Any]:
        """Read the last lines of the logs."""
        sources = self.sources

        def received(event: Event) -> None:
            if isinstance(event, Notice):
                self.gaps.say("logs", event.text)

        def read() -> list[LogTail]:
            return parts.read_logs(sources.service, self.view, self.children, sources.masker.mask, received)

        return {"logs": tuple(self.gaps.read("logs", read) or ())}

    def nodes_or_trials(self) -> Mapping[str, Any]:
        """Read the nodes of a pipeline, or the trials of a sweep."""
        view, config = self.view, self.config
        if view.kind == "sweep":
            read = functools.partial(parts.read_trials, self.sources.service, self.children, view.objective)
            trials, more = self.gaps.read("trials", read) or ((), 0)
            if more:
                self.gaps.notices.append(f"{more} more trials are not shown.")
            return {"trials": trials, "objective": view.objective.metric if view.objective else ""}
        if view.kind == "pipeline":
            planned = {} if config is None else {node.name: node.needs for node in config.job.nodes}
            return {"nodes": tuple(parts.nodes_of(view, self.children, planned))}
        return {}

    def attempts_and_cost(self) -> Mapping[str, Any]:
        """Read the attempts and the cost."""
        earlier = self.gaps.read("attempts", lambda: [*earlier_attempts(self.sources.service, self.view)]) or []
        return {
            "cost": self.gaps.read("cost", self._cost),
            "attempts": tuple(attempt_of(one) for one in (*reversed(earlier), self.view) if one.status.final),
        }

    def _cost(self) -> CostCounted | None:
        given = self.config.cost if self.config is not None else CostConfig()
        # Bounds were kept while the job ran; here only the prices count.
        spending = Spending(replace(given, max_cost=None, max_node_hours=None), self.sources.service)
        spending.begin(self.view)
        spending.ended(self.view, seconds_of(self.view, self.sources.now()) or 0.0)
        return spending.cost()
