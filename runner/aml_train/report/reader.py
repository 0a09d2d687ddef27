"""Read the parts of a job's report, each with what is missing in it."""

from __future__ import annotations

import datetime
import functools
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, get_args

from aml_train.comparison import Project
from aml_train.config.model import Config
from aml_train.config.sections.watch import CostConfig
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.comparison import Row, Side
from aml_train.core.errors import AmlTrainError, CancelledError
from aml_train.core.events import CostCounted, Event, ImageReady, LogTail, Notice, RuleVerdict
from aml_train.core.git import Origin
from aml_train.core.masking import Masker
from aml_train.core.tags import TAG_GATE
from aml_train.gate.decide import GateResult
from aml_train.gate.history import MetricPoint
from aml_train.jobs.attempts import attempt_of, earlier_attempts
from aml_train.jobs.composed import ChildView
from aml_train.jobs.cost import Spending
from aml_train.jobs.metrics import tables_of_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView, Workspace, seconds_of
from aml_train.models.catalogue import Catalogue
from aml_train.models.lineage import Tracer
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.evaluate import evaluate
from aml_train.report import images, parts, values

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry

_T = TypeVar("_T")
_ORDER: Final = {part: number for number, part in enumerate(get_args(values.Part))}


@dataclass(frozen=True, kw_only=True)
class ReportSources:
    """The services that a report is read from, and what it is made with.

    Attributes:
        service: the workspace's jobs.
        catalogue: its environments and data assets.
        registry: opens the registry of that host; None for one that is not reached.
        project: loads the project's configuration; None if there is none here.
        target: the name of the target, for the command that does the same again.
        masker: hides secrets in every text.
        clock: time.
        now: the time by the calendar.
        progress: receives the name of each part before it is read.
    """

    service: Workspace
    catalogue: Catalogue
    registry: Callable[[str], Registry | None]
    project: Callable[[], Project | None]
    target: str = ""
    masker: Masker = field(default_factory=Masker)
    clock: Clock = SYSTEM_CLOCK
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
    progress: Callable[[str], None] = lambda _part: None


@dataclass(frozen=True, kw_only=True)
class Other:
    """The baseline, or a further job."""

    side: Side
    role: Literal["baseline", "other"]

    @property
    def has_curves(self) -> bool:
        """Whether its job still exists; of one that is gone, last values are kept."""
        return self.side.job is not None and self.side.status is not None


class Gaps:
    """The missing parts, and remarks; a lock guards both from parallel readers."""

    def __init__(self) -> None:
        self._missing: list[values.Missing] = []
        self._notices: list[str] = []
        self._lock = threading.Lock()

    @property
    def missing(self) -> tuple[values.Missing, ...]:
        """The missing parts, in the order of the report."""
        return tuple(sorted(self._missing, key=lambda one: _ORDER[one.part]))

    @property
    def notices(self) -> tuple[str, ...]:
        """The remarks."""
        return tuple(self._notices)

    def read(self, part: values.Part, work: Callable[[], _T], otherwise: _T) -> _T:
        """Return the result of *work*; if it fails, *otherwise*, and note why."""
        try:
            return work()
        except CancelledError:
            raise
        except AmlTrainError as error:
            self.say(part, error.message)
            return otherwise

    def say(self, part: values.Part, reason: str) -> None:
        """Note what is missing in a part, and why; once."""
        missing = values.Missing(part=part, reason=reason)
        with self._lock:
            self._missing += [missing] if missing not in self._missing else []

    def note(self, text: str) -> None:
        """Add a remark."""
        with self._lock:
            self._notices.append(text)


class PartReader:
    """Reads the parts of one report; its methods may run in parallel."""

    def __init__(self, sources: ReportSources, gaps: Gaps) -> None:
        self._sources = sources
        self._service = sources.service
        self._gaps = gaps

    def gate_and_curves(
        self,
        view: JobView,
        config: Config | None,
        origin: Origin | None,
        model: ModelView | None,
        metrics: Mapping[str, float],
        others: Sequence[Other],
    ) -> Mapping[str, Any]:
        """Decide the gate, and read the tables and curves."""
        self._sources.progress("gate")
        decided = self._decided(view, config, origin)
        rules: Sequence[RuleVerdict] = ()
        if decided is not None:
            rules = decided.decision.rules
            word, tables = str(decided.decision.word), decided.tables
            metrics = {**metrics, **decided.metrics}
            before = view.tags.get(TAG_GATE)
            if before is not None and before != word:
                self._gaps.note(
                    f"The gate's verdict was {before!r} when the run ended; by the present rules and baseline it is {word!r}."
                )
            remark = decided.remark
        else:
            word = view.tags.get(TAG_GATE, "")
            history = functools.partial(self._service.metric_history, view.name)
            if model is not None:
                rules = self._gaps.read("gate", lambda: list(parts.recorded_rules(model, history)), [])
            tables, more, remark = tables_of_job(self._service, view.name, metrics)
            if more:
                self._gaps.note(f"{more} more logged tables are not shown.")
        if remark:
            self._gaps.say("tables", remark)
        return {
            "gate": word if word in ("passed", "failed", "skipped") else "",
            "rules": tuple(rules),
            "tables": tuple(tables),
            "curves": self._curves(view, metrics, rules, others),
            "metrics": metrics,
        }

    def _decided(self, view: JobView, config: Config | None, origin: Origin | None) -> GateResult | None:
        """Return the decision by the present rules; None if none apply."""
        if config is None or not config.gate:
            return None
        if view.status is not JobStatus.COMPLETED:
            self._gaps.note(f"The gate decides completed jobs only; this one is {view.status.value}.")
            return None
        service, clock = self._service, self._sources.clock
        return self._gaps.read(
            "gate",
            lambda: evaluate(
                service,
                view.name,
                config.gate,
                config.baseline,
                clock=clock,
                pause=0.0,
                prover=Recorded(origin=origin),
            ),
            None,
        )

    def _curves(
        self,
        view: JobView,
        metrics: Mapping[str, float],
        rules: Sequence[RuleVerdict],
        others: Sequence[Other],
    ) -> tuple[values.Curve, ...]:
        self._sources.progress("curves")
        gated = [rule.metric for rule in rules]
        limits: dict[str, list[float]] = {}
        for rule in rules:
            if rule.limit is not None:
                limits.setdefault(rule.metric, []).append(rule.limit)
        sides: list[parts.CurveSide] = [
            (f"the job {view.name}", "job", functools.partial(self._service.metric_history, view.name)),
            *((one.side.title, one.role, functools.partial(self._history, one)) for one in others if one.has_curves),
        ]
        read = functools.partial(parts.read_curves, parts.chosen_metrics(metrics, gated), sides, limits)
        none: tuple[list[values.Curve], int] = ([], 0)
        curves, more = self._gaps.read("curves", read, none)
        if more > 0:
            self._gaps.note(f"Up to {more} more curves are not drawn.")
        return tuple(curves)

    def _history(self, other: Other, metric: str) -> Sequence[MetricPoint]:
        """Return a metric of a further job; none if that is not known."""
        if other.side.job is None or metric not in other.side.metrics:
            return ()
        job = other.side.job
        return self._gaps.read("curves", lambda: self._service.metric_history(job, metric), ())

    def images(self, view: JobView, baseline: Other | None) -> Mapping[str, Any]:
        """Read the image, its packages and tests, and what differs from the baseline's."""
        self._sources.progress("packages")
        registry = self._sources.registry
        image = self._gaps.read("images", lambda: images.image_of(view, self._sources.catalogue), None)
        if image is None:
            return {}
        no_packages: Mapping[str, str] = {}
        packages = self._gaps.read("packages", lambda: images.read_packages_of(registry, image), no_packages)
        tests = self._gaps.read("packages", lambda: images.read_tests(registry, image, view), None)
        changes: tuple[Row, ...] = ()
        if baseline is not None and baseline.has_curves and packages:
            changes = self._gaps.read("packages", lambda: self._changes(image, packages, baseline), changes)
        return {
            "images": (image, *images.further_images(view.tags)),
            "packages": packages,
            "package_changes": changes,
            "tests": () if tests is None else (tests,),
        }

    def _changes(self, image: ImageReady, packages: Mapping[str, str], baseline: Other) -> tuple[Row, ...]:
        """Return the packages that differ from those of the baseline's image."""
        view = self._service.find(baseline.side.job or "")
        before = images.image_of(view, self._sources.catalogue) if view is not None else None
        if before is None or before.digest in ("", image.digest):
            return ()
        return images.changed_packages(images.read_packages_of(self._sources.registry, before), packages)

    def lineage(self, view: JobView, model: ModelView | None) -> Mapping[str, Any]:
        """Trace the lineage of the model, or of a job that wrote none."""
        self._sources.progress("lineage")
        sources = self._sources
        tracer = Tracer(service=sources.service, catalogue=sources.catalogue, registry=sources.registry)
        trace = functools.partial(tracer.trace_job, view) if model is None else functools.partial(tracer.trace, model)
        return {"lineage": self._gaps.read("lineage", trace, None)}

    def files(self, view: JobView, children: Sequence[ChildView]) -> Mapping[str, Any]:
        """Read the images that the job or its nodes wrote."""
        self._sources.progress("pictures")

        def read() -> tuple[list[values.Picture], list[str]]:
            return parts.read_pictures(self._service, parts.runs_with_files(self._service, view, children))

        none: tuple[list[values.Picture], list[str]] = ([], [])
        pictures, remarks = self._gaps.read("pictures", read, none)
        for remark in remarks:
            self._gaps.say("pictures", remark)
        return {"pictures": tuple(pictures)}

    def logs(self, view: JobView, children: Sequence[ChildView]) -> Mapping[str, Any]:
        """Read the last lines of the logs."""
        self._sources.progress("logs")

        def received(event: Event) -> None:
            if isinstance(event, Notice):
                self._gaps.say("logs", event.text)

        def read() -> list[LogTail]:
            runs = parts.runs_with_logs(self._service, view, children)
            return parts.read_logs(self._service, runs, self._sources.clock, self._sources.masker.mask, received)

        return {"logs": tuple(self._gaps.read("logs", read, []))}

    def parts(self, view: JobView, children: Sequence[ChildView], config: Config | None) -> Mapping[str, Any]:
        """Read the nodes of a pipeline, or the trials of a sweep."""
        if view.kind == "sweep":
            self._sources.progress("trials")
            no_trials: tuple[tuple[values.Trial, ...], int] = ((), 0)
            read = functools.partial(parts.read_trials, self._service, children, view.objective)
            trials, more = self._gaps.read("trials", read, no_trials)
            if more:
                self._gaps.note(f"{more} more trials are not shown.")
            return {"trials": trials, "objective": view.objective.metric if view.objective else ""}
        if view.kind == "pipeline":
            planned = {} if config is None else {node.name: node.needs for node in config.job.nodes}
            return {"nodes": tuple(parts.nodes_of(view, children, planned))}
        return {}

    def run(self, view: JobView, config: Config | None) -> Mapping[str, Any]:
        """Read the attempts and the cost."""
        self._sources.progress("cost")
        none: list[JobView] = []
        attempts = self._gaps.read("attempts", lambda: [*earlier_attempts(self._service, view)], none)
        return {
            "cost": self._gaps.read("cost", lambda: self._cost(view, config), None),
            "attempts": tuple(attempt_of(one) for one in (*reversed(attempts), view) if one.status.final),
        }

    def _cost(self, view: JobView, config: Config | None) -> CostCounted | None:
        given = config.cost if config is not None else CostConfig()
        # Bounds were kept while the job ran; here only the prices count.
        spending = Spending(replace(given, max_cost=None, max_node_hours=None), self._service)
        spending.begin(view)
        spending.ended(view, seconds_of(view, self._sources.now()) or 0.0)
        return spending.cost()
