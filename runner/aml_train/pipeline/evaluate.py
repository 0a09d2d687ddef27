"""Evaluate a job: read its metrics and the baseline's, and let the gate decide."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from aml_train.config.sections.gate import BaselineConfig, GateRule, JsonValue
from aml_train.config.sections.replicates import ReplicatesConfig
from aml_train.core.clock import Clock
from aml_train.core.comparison import Comparison, Side
from aml_train.core.errors import GateFailedError, InvalidError, ServiceError
from aml_train.core.events import ReplicateChanged
from aml_train.gate.baseline import FoundBaseline, RunBaseline, read_value
from aml_train.gate.decide import Evidence, GateResult, decide_gate, needs_baseline
from aml_train.gate.history import MetricPoint, last_value
from aml_train.gate.logged import LoggedSet, columns_of, problem_of
from aml_train.gate.recompute import decide_data
from aml_train.gate.replicates import decide_replicates
from aml_train.jobs.attempts import replicates_of
from aml_train.jobs.composed import ambiguous
from aml_train.jobs.metrics import counted_histories, read_tables, settle_logged, settle_metrics
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView, Workspace
from aml_train.pipeline.baselines import BaselineLookup, find_baseline, side_of_job, with_replicates
from aml_train.pipeline.branch_verdicts import Prover

#: Seconds between two readings of the metrics of a job that may have just ended: its last values may still arrive.
METRIC_PAUSE: Final = 0.3
#: Bytes of a file that a value is read from.
_MOST: Final = 16 << 20
_MOST_CHILDREN: Final = 20
_DOUBTED: Final = (
    "`baseline.proof: recorded` takes verdicts as they are recorded: docs/gate.md says what that rests on."
)
_BOOTSTRAP: Final = "`baseline.bootstrap: true` lets the first model pass; `no-baseline: skip` does for one rule."


@dataclass(frozen=True, kw_only=True)
class _Metrics:
    """The metrics of a job, as rules use them.

    Attributes:
        last: every metric's last value.
        histories: all values of the metrics that rules name.
        problems: why a name has no values, if more is known than that it is missing.
        logged: what the job logged other than numbers.
        remark: why that is not known; empty if it is.
    """

    last: Mapping[str, float]
    histories: Mapping[str, Sequence[MetricPoint]]
    problems: Mapping[str, str]
    logged: LoggedSet
    remark: str


@dataclass(frozen=True, kw_only=True)
class Replicated:
    """The replicates of a job that have completed: the first ones of *config*, in the order of its values.

    *read* keeps their metrics from one look to the next.
    """

    config: ReplicatesConfig
    jobs: tuple[str, ...]
    read: dict[str, _Metrics] = field(default_factory=dict)

    def judged(self, rules: Sequence[GateRule]) -> tuple[ReplicateChanged, ...]:
        """Return each with the last values of the metrics that *rules* name, once they are read."""
        gated = sorted({rule.metric for rule in rules})
        return tuple(
            ReplicateChanged(
                replicate=self.config.label(place),
                job=name,
                status=JobStatus.COMPLETED.value,
                metrics={one: self.read[name].last[one] for one in gated if one in self.read[name].last},
            )
            for place, name in enumerate(self.jobs)
        )


def find_replicates(
    service: Workspace, view: JobView, config: ReplicatesConfig, *, completed: bool = True
) -> list[JobView | None]:
    """Return the replicate of *view* for each value of *config*, by default of those that have completed; None where there is none.

    Raises:
        ServiceError: the service does not answer.
    """
    found = replicates_of(service, view, completed=completed)
    known = {one.parameters.get(config.input, "").casefold(): one for one in found}
    return [known.get(str(value).casefold()) for value in config.values]


def find_replicated(service: Workspace, view: JobView, config: ReplicatesConfig) -> Replicated:
    """Return the replicates of *view* that a run judges: the first ones that have completed; itself alone if it is none of them.

    Raises:
        ServiceError: the service does not answer.
    """
    found = itertools.takewhile(lambda one: one is not None, find_replicates(service, view, config))
    names = tuple(one.name for one in found if one is not None)
    return Replicated(config=config, jobs=names if view.name in names else (view.name,))


def evaluate(
    service: Workspace,
    job: str,
    rules: Sequence[GateRule],
    baseline: BaselineConfig | None,
    *,
    clock: Clock,
    pause: float = METRIC_PAUSE,
    prover: Prover | None = None,
    earlier: str = "",
    replicated: Replicated | None = None,
) -> GateResult:
    """Wait until the metrics of an ended job settle, and decide every rule.

    Args:
        service: the workspace.
        job: the job's name.
        rules: the gate.
        baseline: what its rules compare with, as it is now.
        clock: time.
        pause: seconds between two readings of the metrics.
        prover: proves verdicts, for the baseline of a branch.
        earlier: what the baseline was before the job ended; empty for none. If it is gone by now, ``bootstrap`` does not hold.
        replicated: the replicates that are judged together, of which *job* is the first; None for it alone.

    Raises:
        ServiceError: the service does not answer.
        InvalidError: the baseline's file cannot be used.
    """
    read: dict[str, _Metrics] = {} if replicated is None else replicated.read
    names = (job,) if replicated is None else replicated.jobs
    for name in names:
        read[name] = read.get(name) or _read_metrics(service, name, rules, clock=clock, pause=pause)
    metrics = read[job]
    looked_up = _look_up(service, rules, baseline, prover, job)
    found, why = looked_up.found, looked_up.why
    if replicated is not None and found is not None:
        found = with_replicates(service, found, sorted(set(needs_baseline(rules))))
    bootstrap = baseline is not None and baseline.bootstrap and found is None
    if bootstrap and looked_up.doubted:
        bootstrap = False
        why += "; `bootstrap` is for a first model"
    elif bootstrap and earlier:
        bootstrap = False
        why += f"; {earlier}, and `bootstrap` is for a first model"
    candidate = _candidate(service, job, metrics.last) if baseline is not None else None
    data = None
    if baseline is not None and candidate is not None and baseline.file is None and baseline.data != "ignore":
        right = None if found is None else found.side
        data = decide_data(candidate, right, why, baseline.data, baseline.where, bootstrap=bootstrap)
    evidence = [
        Evidence(
            histories=dict.fromkeys(read[name].last, ()) | dict(read[name].histories),
            problems=read[name].problems,
            baseline=None if found is None else found.values,
            no_baseline=why,
            replicate="" if replicated is None else replicated.config.label(place),
        )
        for place, name in enumerate(names)
    ]
    if replicated is None:
        decision = decide_gate(rules, evidence[0], data=data, bootstrap=bootstrap)
    else:
        of_baseline = () if found is None else found.replicates
        sampling = replicated.config.sampling
        decision = decide_replicates(rules, evidence, of_baseline, sampling, data=data, bootstrap=bootstrap)
    tables, more, unread = read_tables(service, job, metrics.logged)
    return GateResult(
        decision=decision,
        metrics=metrics.last,
        histories=metrics.histories,
        comparison=Comparison(left=candidate, right=found.side) if found and candidate else None,
        baseline_histories=found.values.histories if found and isinstance(found.values, RunBaseline) else {},
        tables=tables,
        more_tables=more,
        remark=metrics.remark or unread,
        replicates=() if replicated is None else replicated.judged(rules),
    )


def check_baseline(
    service: Workspace,
    rules: Sequence[GateRule],
    baseline: BaselineConfig | None,
    *,
    prover: Prover | None = None,
    data: Mapping[str, str] | None = None,
    submitted: bool = False,
) -> FoundBaseline | None:
    """Check before the training that the gate can be met, and return the baseline; of a job that is *submitted*, only look it up.

    A missing baseline fails the gate whatever the metrics are, and so do different data if ``baseline.data`` is ``fail``. With
    ``bootstrap`` neither does; the baseline is looked up all the same, for one that is deleted later existed.

    Args:
        service: the workspace.
        rules: the gate.
        baseline: what its rules compare with.
        prover: proves verdicts, for the baseline of a branch.
        data: the data that the job will read, by input; None if that is not known.

    Raises:
        GateFailedError: rules need a baseline, and there is none; or the data must be the baseline's, and are not.
        ServiceError: the service does not answer.
        InvalidError: the baseline's file cannot be used.
    """
    strict = [rule for rule in rules if needs_baseline([rule], strictly=True)]
    of_data = baseline is not None and baseline.data == "fail" and baseline.file is None
    needed = of_data or (needs_baseline(rules) if submitted else strict)
    if not needed or (submitted and not (baseline is not None and baseline.bootstrap)):
        return None
    looked_up = find_baseline(service, [], baseline, prover=prover)
    found, why = looked_up.found, looked_up.why
    if submitted:
        return found
    bootstrap = baseline is not None and baseline.bootstrap and not looked_up.doubted
    if found is None and strict and not bootstrap:
        raise GateFailedError(
            f"The gate cannot be met: {why}, and {strict[0].metric} is compared with it ({strict[0].where}).",
            hint=f"Nothing was submitted. {_DOUBTED if looked_up.doubted else _BOOTSTRAP}",
        )
    if baseline is not None and of_data and data is not None:
        job = Side(title="this job", data=data)
        right = None if found is None else found.side
        decision = decide_data(job, right, why, "fail", baseline.where, bootstrap=bootstrap)
        if decision is not None and decision.verdict == "missed":
            raise GateFailedError(
                f"The gate cannot be met: {decision.reason} ({decision.where}).",
                hint="Nothing was submitted. `baseline.data: warn` only reports different data.",
            )
    return found


def _read_metrics(service: Workspace, job: str, rules: Sequence[GateRule], *, clock: Clock, pause: float) -> _Metrics:
    """Read what the job logged, once it settles.

    That is metrics, columns of tables that rules name, and values of files.
    """
    in_files = {rule.metric: rule.source for rule in rules if rule.source is not None}
    wanted = sorted({name for rule in rules for name in (rule.metric, *rule.rule.metrics)} - set(in_files))
    logged, read = settle_metrics(service, job, wanted, clock=clock, pause=pause)
    counted = counted_histories(service, job, read, others=logged)
    gone = {name for name, points in counted.items() if not points}
    known = {**logged, **{name: last_value(points) for name, points in counted.items() if points}}
    logged = {name: value for name, value in known.items() if name not in gone}
    unknown = [name for name in wanted if name not in known]
    others, remark = LoggedSet(), ""
    try:
        others = settle_logged(service, job, known=known, wanted=unknown, clock=clock, pause=pause)
    except ServiceError as error:
        if unknown:
            raise
        remark = f"Tables and lists that the job logged are not shown: {error.message}"
    columns = columns_of(others)
    named = {name: columns.series[name] for name in unknown if columns.series.get(name)}
    values, problems = _read_values(service, job, in_files)
    problems |= dict.fromkeys(gone, "only an attempt before AzureML restarted the job logged it")
    problems |= {name: why for name in unknown if name not in named and (why := problem_of(name, columns))}
    for name in unknown:
        if name not in named and len(meant := ambiguous(name, logged)) > 1:
            problems[name] = f"several nodes log it: {', '.join(meant[:5])}"
    missing = [name for name in unknown if name not in named and name not in problems]
    # This only says more of what is missing: that a service does not answer it changes no verdict.
    with contextlib.suppress(ServiceError):
        problems |= _in_children(service, job, missing) if missing else {}
    last = {name: value for name, value in logged.items() if name not in in_files} | values
    last |= {name: last_value(points) for name, points in named.items()}
    of_files = {name: (MetricPoint(step=0, value=one, timestamp=0),) for name, one in values.items()}
    histories: dict[str, Sequence[MetricPoint]] = {**{name: counted[name] for name in read}, **named, **of_files}
    return _Metrics(last=last, histories=histories, problems=problems, logged=others, remark=remark)


def _in_children(service: Workspace, job: str, missing: Sequence[str]) -> dict[str, str]:
    """Return which of the metrics a child run logged, such as a nested run of MLflow, and which one."""
    found: dict[str, str] = {}
    for child in service.children(job)[:_MOST_CHILDREN]:
        for name in service.last_metrics(child.source).keys() & missing:
            found.setdefault(name, f"only the child run {child.node} logged it; log it in the job's own run")
    return found


def _read_values(
    service: Workspace, job: str, sources: Mapping[str, JsonValue]
) -> tuple[dict[str, float], dict[str, str]]:
    """Return the values that files of the job have, and why others have none.

    Both by the name of the metric.
    """
    contents = {file: service.read_artifact(job, file, most=_MOST) for file in {one.file for one in sources.values()}}
    values: dict[str, float] = {}
    problems: dict[str, str] = {}
    for name, source in sources.items():
        content = contents[source.file]
        if content is None:
            problems[name] = f"the job wrote no {source.file}"
        elif len(content) > _MOST:
            problems[name] = f"{source.file} has more than {_MOST} bytes"
        else:
            try:
                values[name] = read_value(content, source.pointer)
            except ValueError as error:
                problems[name] = f"{source.file}: {error}"
    return values, problems


def _look_up(
    service: Workspace,
    rules: Sequence[GateRule],
    config: BaselineConfig | None,
    prover: Prover | None,
    candidate: str | None,
) -> BaselineLookup:
    """Return the baseline, or why there is none.

    A file that cannot be used only matters if a rule needs it.
    """
    needed = sorted(set(needs_baseline(rules)))
    try:
        return find_baseline(service, needed, config, prover=prover, candidate=candidate)
    except InvalidError as error:
        if needed:
            raise
        return BaselineLookup(why=error.message)


def _candidate(service: Workspace, job: str, last: Mapping[str, float]) -> Side:
    view = service.find(job)
    if view is None:
        return Side(title=f"the job {job}", job=job, metrics=last)
    return replace(side_of_job(view, f"the job {job}"), metrics=last, logged=service.logged_parameters(job))
