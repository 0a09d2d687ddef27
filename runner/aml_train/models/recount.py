"""Decide recorded rules again from the metrics of their job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aml_train.config.sections.gate import JsonValue
from aml_train.core.events import RuleVerdict
from aml_train.gate.baseline import read_value
from aml_train.gate.history import MetricPoint
from aml_train.gate.logged import columns_of
from aml_train.gate.recompute import fault_of_rule
from aml_train.gate.rules import parse_rule
from aml_train.jobs.workspace import Workspace

_MOST_BYTES: Final = 16 << 20


def fault_of_rules(
    service: Workspace, job: str, rules: Sequence[RuleVerdict], files: Mapping[str, JsonValue]
) -> str | None:
    """Return why recorded rules do not follow from the job's metrics; None if they do.

    Args:
        files: the files of the job that hold the values of metrics, by the metrics' names.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    histories = read_histories(service, job, _metrics(rules), files)
    return next((fault for rule in rules if (fault := fault_of_rule(rule, histories))), None)


def read_histories(
    service: Workspace, job: str, metrics: Iterable[str], files: Mapping[str, JsonValue]
) -> dict[str, Sequence[MetricPoint]]:
    """Return the values of *metrics*, which the job logged or has in *files*; none for unknown ones.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    return {name: _history(service, job, name, files.get(name)) for name in metrics}


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
        return service.metric_history(job, name) or _of_tables(service, job, name)
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
