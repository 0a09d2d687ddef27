"""Decide a recorded rule again: does its record follow from the metrics? Pure."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from aml_train.core.answers import json_number
from aml_train.core.comparison import Comparison, Side
from aml_train.core.events import RuleVerdict, Verdict
from aml_train.core.tags import VALUE_LENGTH
from aml_train.gate.history import MetricPoint, aggregate, faults_of_shape, last_attempts
from aml_train.gate.rules import DataPolicy, Rule, parse_rule

#: The name of the rule over data where others have their metric, and its text, which no configuration writes.
DATA: Final = "data"
DATA_RULE: Final = "as the baseline's"
_SHOWN: Final = 4


def decide_data(
    candidate: Side, baseline: Side | None, why: str, policy: DataPolicy, where: str, *, bootstrap: bool = False
) -> RuleVerdict | None:
    """Decide whether the candidate has read the baseline's data.

    Data are compared by input: by the version of an asset, by the contents of local files, else by the place; and by the
    identity of their contents where both sides have one. With ``warn``, no decision is made without data or without a baseline.

    Args:
        candidate: the job that is judged.
        baseline: what it is compared with; None where there is none.
        why: why there is none.
        policy: what different data do.
        where: ``file:line`` of the baseline.
        bootstrap: whether there need be no baseline.

    Returns:
        the decision; None where none is made.
    """
    if policy == "ignore":
        return None
    strict = policy == "fail"
    if baseline is None:
        if not strict:
            return None
        return _decision("skipped" if bootstrap else "missed", f"there are no data to compare with ({why})", where)
    bad: Verdict = "missed" if strict else "warned"
    compared = Comparison(left=candidate, right=baseline)
    different = compared.different_data
    if different is None:
        unknown = candidate.title if candidate.data is None else baseline.title
        if not strict and not candidate.data and not baseline.data:
            return None
        return _decision(bad, f"it is not known which data {unknown} has read", where)
    left = candidate.data or {}
    if different:
        said = [_differs(name, compared) for name in different[:_SHOWN]]
        more = [f"and {len(different) - _SHOWN} more inputs"] if len(different) > _SHOWN else []
        return _decision(bad, f"the data differ from those of {baseline.title}: {'; '.join([*said, *more])}", where)
    if not left:
        return _decision("met", f"neither this job nor {baseline.title} reads data", where) if strict else None
    known = candidate.contents.keys() & baseline.contents.keys()
    places = [name for name, value in left.items() if "://" in value and name not in known]
    remark = f" ({', '.join(places)}: the same place, whose contents are not known)" if places else ""
    same = ", ".join(f"{name} is {value}" for name, value in list(left.items())[:_SHOWN])
    return _decision("met", f"the data are those of {baseline.title}: {same}{remark}", where)


def _differs(name: str, compared: Comparison) -> str:
    left, right = compared.left.data or {}, compared.right.data or {}
    if compared.other_contents(name) and left.get(name) == right.get(name):
        then, now = compared.right.contents[name], compared.left.contents[name]
        return f"{name} is {left[name]}, whose contents were others ({now}, and {then} there)"
    if name not in right:
        return f"{name} is {left[name]}, which the baseline does not read"
    if name not in left:
        return f"{name}, which is {right[name]} there, is not read"
    return f"{name} is {left[name]}, and was {right[name]}"


def _decision(verdict: Verdict, reason: str, where: str) -> RuleVerdict:
    return RuleVerdict(
        metric=DATA, rule=DATA_RULE, where=where, value=None, limit=None, verdict=verdict, reason=reason
    )


_OVER: Final = re.compile(r"(.*) over (\d{1,4}) replicates", re.DOTALL)


def over_replicates(text: str) -> tuple[str, int]:
    """Return the rule of a record, and over how many replicates it was decided; 0 for one job alone."""
    match = _OVER.fullmatch(text)
    return (text, 0) if match is None else (match[1], int(match[2]))


_PASSING: Final = frozenset({"met", "warned", "skipped"})


def record(rules: Sequence[RuleVerdict], members: Mapping[str, Any] | None = None) -> str:
    """Return rules as compact JSON that fits a tag: a list, or an object with *members* and the list; of rules without room the number."""
    entries: list[Any] = [
        [rule.metric, rule.rule, json_number(rule.value), json_number(rule.limit), rule.verdict] for rule in rules
    ]
    for kept in range(len(entries), -1, -1):
        found = entries[:kept] + ([f"{len(entries) - kept} more"] if kept < len(entries) else [])
        whole = found if members is None else {**members, "rules": found}
        text = json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
        if len(text) <= VALUE_LENGTH:
            break
    return text


def read_recorded(text: str) -> list[RuleVerdict]:
    """Return the rules of a tag, as far as they are some: JSON lists of five members."""
    try:
        return recorded_rules(json.loads(text))
    except (ValueError, RecursionError):
        return []


def recorded_rules(entries: object) -> list[RuleVerdict]:
    """Return the rules that :func:`record` wrote, without the number of others."""
    return [
        RuleVerdict(
            metric=str(entry[0]),
            rule=str(entry[1]),
            value=_number(entry[2]),
            limit=_number(entry[3]),
            verdict=entry[4],
        )
        for entry in (entries if isinstance(entries, list) else ())
        if isinstance(entry, list) and len(entry) == 5 and entry[4] in (*_PASSING, "missed")
    ]


def _number(value: object) -> float | None:
    try:
        return None if value is None or isinstance(value, bool) else float(str(value))
    except ValueError:
        return None


def fault_of_rule(recorded: RuleVerdict, histories: Mapping[str, Sequence[MetricPoint]]) -> str | None:
    """Return why a record does not follow from *histories*; None if it does.

    A limit that came from a baseline is taken as it was recorded, and so is a rule on the data, which compares with the
    baseline's; all else is computed again.

    Args:
        histories: the values of the rule's metrics, as they are now.
    """
    if recorded.rule == DATA_RULE:
        return None
    text, replicates = over_replicates(recorded.rule)
    try:
        rule = parse_rule(text)
    except ValueError as error:
        return f"the rule cannot be read: {error}"
    if replicates and recorded.verdict in (*_PASSING, "missed"):
        return None  # it follows from the metrics of other jobs, too
    fault = _fault(recorded, rule, histories)
    alone = last_attempts(histories)
    if rule.aggregate.name == "count" or not any(one.earlier for points in histories.values() for one in points):
        return fault
    if recorded.verdict != "met":  # by all values, or by those of the last attempt
        return fault and _fault(recorded, rule, alone)
    if fault is None and rule.shape is None:
        points = alone.get(recorded.metric, ())
        try:
            value = aggregate(points, rule.aggregate, greater=rule.greater)
            recorded = replace(recorded, value=value, limit=_limit(rule, recorded, alone))
        except ValueError as error:
            return f"{recorded.metric} {recorded.rule}: of the last attempt {error}"
    return fault or _fault(recorded, rule, alone)


def _fault(recorded: RuleVerdict, rule: Rule, histories: Mapping[str, Sequence[MetricPoint]]) -> str | None:
    points = histories.get(recorded.metric, ())
    name = f"{recorded.metric} {recorded.rule}"
    if recorded.verdict not in (*_PASSING, "missed"):
        return f"{name}: {recorded.verdict!r} is no verdict"
    if rule.shape is not None:
        return _compare(name, recorded, holds=bool(points) and faults_of_shape(points, rule.shape) is None)
    if recorded.verdict == "met" and (recorded.value is None or recorded.limit is None):
        return f"{name}: it is recorded as met without value or limit"
    if recorded.value is None:
        return None
    try:
        value = aggregate(points, rule.aggregate, greater=rule.greater)
        if not _same(value, recorded.value):
            return f"{name}: the value was {recorded.value:.6g}, and the job's metrics give {value:.6g}"
        if recorded.limit is None:
            return None
        limit = _limit(rule, recorded, histories)
    except ValueError as error:
        return f"{name}: the value {recorded.value:.6g} was recorded, and now {error}"
    if not _same(limit, recorded.limit):
        return f"{name}: the limit was {recorded.limit:.6g}, and the rule gives {limit:.6g}"
    return _compare(name, recorded, holds=rule.holds(value, limit))


def _limit(rule: Rule, recorded: RuleVerdict, histories: Mapping[str, Sequence[MetricPoint]]) -> float:
    if rule.limit is not None:
        return rule.limit
    reference = rule.reference
    if reference is None or reference.metric is None:
        return recorded.limit if recorded.limit is not None else math.nan
    how = reference.aggregate or rule.aggregate
    return reference.limit(aggregate(histories.get(reference.metric, ()), how, greater=rule.greater))


def _compare(name: str, recorded: RuleVerdict, *, holds: bool) -> str | None:
    if holds == (recorded.verdict == "met") or (not holds and recorded.verdict in ("missed", "warned", "skipped")):
        return None
    return f"{name}: it was recorded as {recorded.verdict}, and is {'met' if holds else 'not met'}"


def _same(left: float, right: float) -> bool:
    return left == right or (math.isnan(left) and math.isnan(right))
