"""Show that a training resumes: run it undisturbed and preempted once, and compare."""

from __future__ import annotations

import itertools
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from aml_train.config.sections.watch import RetryConfig
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import AmlTrainError, GateFailedError, InvalidError
from aml_train.core.events import Event, JobSubmitted, Listener
from aml_train.core.masking import Masker
from aml_train.gate.history import MetricPoint, last_value, series_of
from aml_train.jobs.attempts import resumed_from
from aml_train.jobs.metrics import settle_metrics
from aml_train.jobs.workspace import Workspace
from aml_train.pipeline.execute import run_prepared
from aml_train.pipeline.prepare import PreparedRun
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.target import open_workspace

_LOOKS: Final = 0.2
"""Seconds between two looks at the metric of a job that is to be preempted."""
_OPTIONS: Final = RunOptions(fresh=True, register=False, decide=False)


@dataclass(frozen=True, kw_only=True)
class ResumeCheck:
    """What two trainings of one job showed, of which one was preempted.

    Attributes:
        undisturbed: the job that was left alone.
        attempts: the attempts of the other one: that which was preempted, and that which followed.
        source: the attempt whose checkpoints the last one was given; None for none.
        every: how many steps may be lost; None for any number.
        tolerance: the relative difference of metrics that counts as none.
        progress: the history of the metric of ``resume``: undisturbed, preempted, resumed.
        metrics: the histories of the metrics that must agree, by name: undisturbed, preempted, resumed.
    """

    undisturbed: str
    attempts: tuple[str, str]
    source: str | None
    every: int | None
    tolerance: float
    progress: tuple[Sequence[MetricPoint], Sequence[MetricPoint], Sequence[MetricPoint]]
    metrics: Mapping[str, tuple[Sequence[MetricPoint], Sequence[MetricPoint], Sequence[MetricPoint]]]

    @property
    def repeated(self) -> int | None:
        """How many steps the second attempt did again; None if that is not known."""
        _, before, after = self.progress
        return max(0, _steps(before)[-1] - _steps(after)[0] + 1) if before and after else None

    @property
    def problems(self) -> tuple[str, ...]:
        """Why the contract does not hold; nothing if it does."""
        whole, before, after = (_steps(points) for points in self.progress)
        if self.source is None:
            return (f"{self.attempts[0]} left no checkpoints",)
        if not before or not after:
            return (f"{self.attempts[0 if not before else 1]} did not log the metric of `resume`",)
        found = []
        first, last = after[0], before[-1]
        stride = max((two - one for one, two in itertools.pairwise(whole)), default=1)
        if first <= before[0]:
            found.append(f"the second attempt starts from the beginning, at step {first}")
        elif self.every is not None and first < last - self.every:
            found.append(f"the second attempt starts at step {first}, and the first one had logged step {last}")
        if first > last + stride:
            found.append(f"the second attempt starts at step {first}, and leaves out those after {last}")
        written = [point.step for point in sorted(self.progress[2], key=lambda one: one.timestamp)]
        if back := next((two for one, two in itertools.pairwise(written) if two < one), None):
            found.append(f"the steps of the second attempt fall back, to {back}")
        for name, (alone, _, resumed) in self.metrics.items():
            if not resumed:
                found.append(f"the second attempt did not log {name}")
            elif not _agree(one := last_value(alone), two := last_value(resumed), self.tolerance):
                found.append(f"{name} is {two:.6g}, and {one:.6g} undisturbed")
        return tuple(found)

    def facts(self) -> dict[str, Any]:
        """Return it as plain values, for JSON."""
        return {
            "undisturbed": self.undisturbed,
            "attempts": list(self.attempts),
            "resumed_from": self.source,
            "repeated_steps": self.repeated,
            "problems": list(self.problems),
            "metrics": {
                name: series_of({"undisturbed": alone, "preempted": before, "resumed": after})
                for name, (alone, before, after) in self.metrics.items()
            },
        }

    def require(self) -> None:
        """Raise GateFailedError unless the contract holds."""
        if problems := self.problems:
            raise GateFailedError(
                f"The training does not resume as `resume` says: {'; '.join(problems)}",
                hint="Load the newest checkpoint from the folder in AZURE_ML_INPUT_resume, and go on at its step: docs/resume.md.",
            )


def _steps(points: Sequence[MetricPoint]) -> list[int]:
    return sorted({point.step for point in points})


def _agree(left: float, right: float, tolerance: float) -> bool:
    return math.isclose(left, right, rel_tol=tolerance) or (math.isnan(left) and math.isnan(right))


class _Preemption:
    """Listens to a run, and preempts its first job at a step of a metric."""

    def __init__(self, service: Workspace, metric: str, step: int, preempt: Callable[[str], object]) -> None:
        self._service, self._metric, self._step, self._preempt = service, metric, step, preempt
        self._over = threading.Event()
        self._thread: threading.Thread | None = None
        self.done = False
        self.error: AmlTrainError | None = None

    def __call__(self, event: Event) -> None:
        """Begin to look at the job once it is submitted."""
        if isinstance(event, JobSubmitted) and self._thread is None:
            self._thread = threading.Thread(target=self._watch, args=(event.job,), name="preemption", daemon=True)
            self._thread.start()

    def _watch(self, job: str) -> None:
        try:
            while not self.done and not self._over.wait(_LOOKS):
                if any(one.step >= self._step for one in self._service.metric_history(job, self._metric)):
                    self._preempt(job)
                    self.done = True
        except AmlTrainError as error:
            self.error = error

    def end(self) -> None:
        """Look no more."""
        self._over.set()
        if self._thread is not None:
            self._thread.join()


def check_resume(
    prepared: PreparedRun,
    *,
    preempt: Callable[[str], object],
    step: int | None,
    tolerance: float,
    listener: Listener,
    masker: Masker | None = None,
) -> ResumeCheck:
    """Train twice, preempt the second training once, and return what both showed.

    Nothing is gated or registered.

    Args:
        prepared: the plan.
        preempt: takes the nodes of a job away, so that it fails with PreemptionError.
        step: at which step of the metric of ``resume``; half of the undisturbed training's if None.
        tolerance: the relative difference of metrics that counts as none.
        listener: receives what happens in both runs.
        masker: knows the secrets that the logs must not show.

    Raises:
        InvalidError: the configuration has no ``resume``, the job logs no steps, or it ended before *step*.
        AmlTrainError: one of the trainings failed otherwise.
    """
    config = prepared.plan.config
    if (resume := config.resume) is None:
        raise InvalidError(
            "The configuration has no `resume`: there is nothing to check.",
            hint="Add it: resume: {path: outputs/checkpoints, metric: loss}",
        )
    config = replace(config, retry=RetryConfig(preempted=1))
    prepared = replace(prepared, plan=replace(prepared.plan, config=config))
    alone = _ended(run_prepared(prepared, _OPTIONS, listeners=(listener,), masker=masker))
    service = open_workspace(prepared.host, config.target, config.directory, listener).service
    names = list(dict.fromkeys(rule.metric for rule in config.gate if rule.source is None)) or [resume.metric]

    def read(job: str) -> Mapping[str, Sequence[MetricPoint]]:
        return settle_metrics(service, job, [*names, resume.metric], clock=SYSTEM_CLOCK)[1]

    whole = read(alone)
    steps = _steps(whole.get(resume.metric, ()))
    at = step if step is not None or not steps else steps[len(steps) // 2]
    if at is None or len(steps) < 2 or at >= steps[-1]:
        shown = f"the steps {steps[0]} to {steps[-1]}" if steps else "nothing"
        raise InvalidError(
            f"{alone} logged {shown} of {resume.metric}: it cannot be preempted at a step before the last.",
            hint="`resume.metric` is a metric that is logged with a step: mlflow.log_metric(NAME, VALUE, step=STEP).",
        )
    preemption = _Preemption(service, resume.metric, at, preempt)
    try:
        result = run_prepared(prepared, _OPTIONS, listeners=(listener, preemption), masker=masker)
    finally:
        preemption.end()
    if preemption.error is not None:
        raise preemption.error
    resumed = _ended(result)
    if not preemption.done or len(result.attempts) != 2:
        raise InvalidError(f"{resumed} ended before it was preempted at step {at}.", hint="Choose a lower --step.")
    view = service.find(resumed)
    first, second = read(result.attempts[0].job), read(resumed)
    histories = {name: (whole[name], first.get(name, ()), second.get(name, ())) for name in whole}
    return ResumeCheck(
        undisturbed=alone,
        attempts=(result.attempts[0].job, resumed),
        source=None if view is None else resumed_from(view),
        every=resume.every,
        tolerance=tolerance,
        progress=histories[resume.metric],
        metrics={name: histories[name] for name in names if name in histories},
    )


def _ended(result: RunResult) -> str:
    """Return the job of a run that ended well; raise what it ended with otherwise."""
    result.raise_for_status()
    return result.job.name if result.job is not None else ""
