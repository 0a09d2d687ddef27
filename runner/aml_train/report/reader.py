"""Read the parts of a job's report, each with what is missing in it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import msgspec

from aml_train.config.model import Config
from aml_train.config.sections.watch import CostConfig
from aml_train.core.events import Event, Notice
from aml_train.core.git import Origin
from aml_train.core.tags import TAG_GATE
from aml_train.gate.decide import GateResult
from aml_train.gate.history import MetricPoint
from aml_train.jobs.attempts import attempt_of, earlier_attempts
from aml_train.jobs.composed import ChildView
from aml_train.jobs.cost import Spending
from aml_train.jobs.metrics import tables_of_job
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, ModelView
from aml_train.models.lineage import Tracer
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.evaluate import evaluate
from aml_train.report import images, parts, values
from aml_train.report.convert import Gaps, Other, ReportSources, rule_value, step_value, table_value


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
        if decided is not None:
            rules = [rule_value(one, others) for one in decided.decision.rules]
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
            rules = []
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
            "tables": tuple(map(table_value, tables)),
            "curves": self._curves(view, metrics, rules, others),
            "read_metrics": metrics,
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
        rules: Sequence[values.Rule],
        others: Sequence[Other],
    ) -> tuple[values.Curve, ...]:
        self._sources.progress("curves")
        gated = [rule.metric for rule in rules]
        limits: dict[str, list[float]] = {}
        for rule in rules:
            if isinstance(rule.limit, float | int):
                limits.setdefault(rule.metric, []).append(float(rule.limit))
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
        sources = self._sources
        image = self._gaps.read("images", lambda: images.image_of(view, sources.catalogue), None)
        if image is None:
            return {}
        none: Mapping[str, str] = {}
        packages = self._gaps.read("packages", lambda: images.read_packages_of(sources.registry, image), none)
        tests = self._gaps.read("images", lambda: images.read_tests(sources.registry, image, view), None)
        compared = image
        if baseline is not None and baseline.has_curves and packages:
            compared = self._gaps.read("packages", lambda: self._against(image, packages, baseline), image)
        return {
            "images": (compared, *images.further_images(view.tags)),
            "packages": images.packages_of(packages),
            "tests": (tests,) if tests is not None else (),
        }

    def _against(self, image: values.Image, packages: Mapping[str, str], baseline: Other) -> values.Image:
        """Return *image* with the packages that differ from the baseline's image."""
        view = self._service.find(baseline.side.job or "")
        before = images.image_of(view, self._sources.catalogue) if view is not None else None
        if view is None or before is None or not before.digest:
            return image
        if before.digest == image.digest:
            return msgspec.structs.replace(image, against=before.digest)
        theirs = images.read_packages_of(self._sources.registry, before)
        changes, more = images.changed_packages(theirs, packages)
        return msgspec.structs.replace(image, against=before.digest, changes=changes, more_changes=more)

    def lineage(self, view: JobView, model: ModelView | None) -> Mapping[str, Any]:
        """Trace the lineage of the model, or of a job that wrote none."""
        self._sources.progress("lineage")
        sources = self._sources
        tracer = Tracer(service=sources.service, catalogue=sources.catalogue, registry=sources.registry)
        step = self._gaps.read(
            "lineage", lambda: tracer.trace_job(view) if model is None else tracer.trace(model), None
        )
        return {} if step is None else {"lineage": step_value(step)}

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

        def read() -> list[values.Log]:
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
        cost = self._gaps.read("cost", lambda: self._cost(view, config), None)
        none: list[JobView] = []
        attempts = self._gaps.read("attempts", lambda: [*earlier_attempts(self._service, view)], none)
        ended = [attempt_of(one) for one in (*reversed(attempts), view) if one.status.final]
        return {
            "cost": cost,
            "attempts": tuple(
                values.Attempt(job=one.job, attempt=one.attempt, status=one.status, ending=one.ending)
                for one in ended
            ),
        }

    def _cost(self, view: JobView, config: Config | None) -> values.Cost | None:
        given = config.cost if config is not None else CostConfig()
        # Bounds were kept while the job ran; here only the prices count.
        prices = replace(given, max_cost=None, max_node_hours=None)
        spending = Spending(prices, self._service)
        spending.begin(view)
        spending.ended(view, parts.seconds_so_far(view, self._sources.now()) or 0.0)
        cost = spending.cost()
        if cost is None:
            return None
        return values.Cost(
            text=cost.text,
            node_hours=cost.node_hours,
            gpu_hours=cost.gpu_hours,
            amount=cost.cost,
            currency=cost.currency if cost.cost is not None else "",
            unknown=cost.unknown,
        )
