"""Read an ended job's metrics and tables until two reads agree."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar

from aml_train.config.sections.gate import JsonValue
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.events import RuleVerdict
from aml_train.core.tables import Table
from aml_train.core.tags import Tag
from aml_train.core.threads import map_parallel
from aml_train.gate.baseline import read_value
from aml_train.gate.history import MetricPoint, continued, joined, of_attempts
from aml_train.gate.logged import MOST_BYTES, LoggedSet, columns_of, file_of, is_json, tables_of
from aml_train.gate.recompute import fault_of_rule, over_replicates
from aml_train.gate.replicates import fault_of_value
from aml_train.gate.rules import parse_rule
from aml_train.jobs.attempts import replicates_of, resumed_from
from aml_train.jobs.identity import identity_difference, may_resume
from aml_train.jobs.spec import earlier_names
from aml_train.jobs.workspace import Workspace

_READS: Final = 6
_MOST_FILES: Final = 10
_Found = TypeVar("_Found")


def settle_metrics(
    service: Workspace, name: str, metrics: Sequence[str], *, clock: Clock, pause: float = 0.5
) -> tuple[Mapping[str, float], Mapping[str, Sequence[MetricPoint]]]:
    """Read the metrics of an ended job until two reads agree, six times at most.

    Args:
        metrics: the names whose whole history is wanted.
        pause: seconds between two reads.

    Returns:
        every metric's last value, and the history of each one in *metrics* that exists.

    Raises:
        ServiceError: if the service does not answer.
    """

    def read() -> tuple[Mapping[str, float], Mapping[str, Sequence[MetricPoint]]]:
        last = service.last_metrics(name)
        known = [metric for metric in metrics if metric in last]
        values = map_parallel(functools.partial(service.metric_history, name), known, "metric-history")
        return last, dict(zip(known, values, strict=True))

    return _settled(read, lambda found: all(metric in found[0] for metric in metrics), clock, pause)


def counted_histories(
    service: Workspace, job: str, histories: Mapping[str, Sequence[MetricPoint]], *, others: Collection[str] = ()
) -> dict[str, Sequence[MetricPoint]]:
    """Return what counts of a job's values over its attempts; see :func:`aml_train.gate.history.of_attempts`.

    A job that was submitted again reads the checkpoints of an attempt that is a job of its own. If it continues from there, what that
    one logged before counts, too. Which one it was is in its definition, and that job must be the same but for this input.

    Args:
        service: the workspace.
        job: the job's name.
        histories: by metric.
        others: metrics whose values are read, too, if AzureML has restarted the job.

    Raises:
        ServiceError: the service does not answer.
    """
    view = service.find(job) if others or any(histories.values()) else None
    restarted = None if view is None else service.details(job).restarted
    if restarted is not None:
        histories = {**{name: service.metric_history(job, name) for name in others}, **histories}
    metric = None if view is None else view.properties.get(Tag.RESUME_METRIC)
    if view is None or metric is None:
        return dict(of_attempts(histories, None, restarted))
    progress = service.metric_history(job, metric)
    found: dict[str, Sequence[MetricPoint]] = dict(of_attempts(histories, progress, restarted))
    source = resumed_from(view)
    if source is None or source not in earlier_names(job):
        return found
    expected = may_resume(service.identity(source), job, view.properties)
    before = counted_histories(service, source, {metric: service.metric_history(source, metric)})[metric]
    if identity_difference(expected, service.identity(job)) or not continued(before, progress):
        return found
    logged = service.last_metrics(source)
    read = {name: service.metric_history(source, name) for name in histories if name in logged}
    earlier = counted_histories(service, source, read)
    return {name: joined(earlier.get(name, ()), points) for name, points in found.items()}


def settle_logged(
    service: Workspace,
    job: str,
    *,
    known: Collection[str],
    wanted: Sequence[str],
    clock: Clock,
    pause: float,
) -> LoggedSet:
    """Read what an ended job logged besides numbers until two reads agree.

    A job that logged none is read once, unless a rule waits for an unknown name.

    Args:
        known: the metrics that MLflow has.
        wanted: names that rules need and MLflow does not have.
        pause: seconds between two reads.

    Raises:
        ServiceError: the service does not answer.
    """
    first = service.logged(job, known=known, first=wanted)
    if not wanted and not first.metrics:
        return first
    reads = itertools.chain([first], iter(lambda: service.logged(job, known=known, first=wanted), None))

    def complete(found: LoggedSet) -> bool:
        series = columns_of(found).series
        return all(name in series for name in wanted)

    return _settled(lambda: next(reads), complete, clock, pause)


def _settled(read: Callable[[], _Found], complete: Callable[[_Found], bool], clock: Clock, pause: float) -> _Found:
    """Return what two reads agree on, or the last of six; what is not complete is read three times."""
    found = read()
    for attempt in range(1, _READS):
        clock.sleep(pause)
        # As text, in which NaN is like NaN.
        previous, found = repr(found), read()
        if repr(found) == previous and (attempt > 1 or complete(found)):
            break
    return found


def read_tables(service: Workspace, job: str, found: LoggedSet) -> tuple[tuple[Table, ...], int, str]:
    """Return the logged tables, how many more exist, and a remark on unreadable files."""
    remark = ""
    contents: dict[str, bytes | None] = {}
    files = [path for metric in found.metrics if is_json(metric) and (path := file_of(metric, job)) is not None]
    for path in files[:_MOST_FILES]:
        try:
            contents[path] = service.read_artifact(job, path, most=MOST_BYTES)
        except ServiceError as error:
            remark = f"The file {path} that the job logged is not shown: {error.message}"
    tables, more = tables_of(found, job, contents)
    return tables, more, remark


def tables_of_job(service: Workspace, name: str, metrics: Mapping[str, float]) -> tuple[tuple[Table, ...], int, str]:
    """Return tables besides *metrics*, how many more there are, and what is not shown."""
    try:
        found = service.logged(name, known=metrics)
    except ServiceError as error:
        return (), 0, f"Tables and files that the job logged are not shown: {error.message}"
    return read_tables(service, name, found)


_MOST_BYTES: Final = 16 << 20


def fault_of_rules(
    service: Workspace,
    job: str,
    rules: Sequence[RuleVerdict],
    files: Mapping[str, JsonValue],
    judged: str = "",
) -> str | None:
    """Return why recorded rules do not follow from the job's metrics; None if they do.

    Args:
        files: the files of the job that hold the values of metrics, by the metrics' names.
        judged: what a model's properties say of the replicates that were judged; rules over others are not decided again.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    histories = read_histories(service, job, _metrics(rules), files)
    if fault := next((fault for rule in rules if (fault := fault_of_rule(rule, histories))), None):
        return fault
    view = service.find(job) if judged else None
    names = [] if view is None else [one.name for one in replicates_of(service, view, judged=judged)]
    for rule in rules if names else ():
        if over_replicates(rule.rule)[1]:
            values = [read_histories(service, one, [rule.metric], files)[rule.metric] for one in names]
            if fault := fault_of_value(rule, values):
                return fault
    return None


def read_histories(
    service: Workspace, job: str, metrics: Iterable[str], files: Mapping[str, JsonValue]
) -> dict[str, Sequence[MetricPoint]]:
    """Return the values of *metrics*, which the job logged or has in *files*; none for unknown ones.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    logged = {name: service.metric_history(job, name) for name in metrics if name not in files}
    counted = counted_histories(service, job, {name: points for name, points in logged.items() if points})
    return {
        name: counted[name] if name in counted else _history(service, job, name, files.get(name)) for name in metrics
    }


def _metrics(rules: Sequence[RuleVerdict]) -> list[str]:
    """Return the metrics that *rules* need, also those of the right-hand sides."""
    found: dict[str, None] = {}
    for one in rules:
        try:
            found |= dict.fromkeys((one.metric, *parse_rule(one.rule).metrics))
        except ValueError:
            continue  # a rule on the data, or one that is reported as unreadable
    return list(found)


def _history(service: Workspace, job: str, name: str, source: JsonValue | None) -> Sequence[MetricPoint]:
    """Return the values of a metric, or the one value that a file of the job has."""
    if source is None:
        return _of_tables(service, job, name)
    content = service.read_artifact(job, source.file, most=_MOST_BYTES)
    if content is None or len(content) > _MOST_BYTES:
        return ()
    try:
        return (MetricPoint(step=0, value=read_value(content, source.pointer), timestamp=0),)
    except ValueError:
        return ()


def _of_tables(service: Workspace, job: str, name: str) -> Sequence[MetricPoint]:
    """Return the values of a column that azureml-core logged in a table."""
    return columns_of(service.logged(job, known=(), first=[name])).series.get(name, ())
