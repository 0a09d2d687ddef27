"""Decide recorded rules again from the metrics of their job."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from aml_train.config import JsonValue
from aml_train.core.answers import Answer
from aml_train.gate import MetricPoint, RecordedRule, fault_of_rule, parse_rule, read_value, word_of
from aml_train.jobs import Workspace
from aml_train.models.passport.values import Claim

_MOST_BYTES: Final = 16 << 20


def fault_of_rules(
    service: Workspace, job: str, rules: Sequence[RecordedRule], files: Mapping[str, JsonValue]
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


def _metrics(rules: Sequence[RecordedRule]) -> list[str]:
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
    from aml_train.gate import columns_of

    return columns_of(service.logged(job, known=(), first=[name])).series.get(name, ())


def gate_claim(service: Workspace, job: str, stated: Answer, tagged: str | None) -> Claim:
    """Return the claim of the gate: does its record follow from the job's metrics?

    Args:
        tagged: the gate's word in the version's tags; None without.

    Raises:
        ServiceError: the workspace refuses or does not answer.
    """
    rules = [_recorded(one) for one in stated.each("rules")]
    word = stated.optional_text("word") or ""
    if (right := word_of(rules)) != word:
        return _refused(f"it is recorded as {word or 'missing'}, and its rules give {right}")
    if tagged not in (None, word):
        return _refused(f"it is recorded as {word}, and the version's tag says {tagged}")
    if word == "failed":
        return _refused("the gate was not met")
    files = {
        one.text("metric"): JsonValue(file=one.text("file.file"), pointer=one.text("file.pointer"))
        for one in stated.each("rules")
        if one.has("file")
    }
    if fault := fault_of_rules(service, job, rules, files):
        return _refused(fault)
    shown = ", ".join(f"{rule.metric} {rule.rule}: {rule.verdict}" for rule in rules[:4])
    more = f" and {len(rules) - 4} more" if len(rules) > 4 else ""
    return Claim(name="gate", basis="recomputed", detail=f"{word}; {shown}{more}" if rules else "no rules were given")


def _refused(detail: str) -> Claim:
    return Claim(name="gate", basis="refused", detail=detail)


def _recorded(entry: Answer) -> RecordedRule:
    return RecordedRule(
        metric=entry.text("metric"),
        rule=entry.text("rule"),
        value=entry.number("value") if entry.has("value") else None,
        limit=entry.number("limit") if entry.has("limit") else None,
        verdict=entry.text("verdict"),
    )
