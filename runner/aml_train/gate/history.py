"""A metric's recorded values, and the one that a rule compares. Pure."""

from __future__ import annotations

import datetime
import itertools
import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from aml_train.gate.rules import Aggregate

#: Milliseconds by which the clocks of a job's node and of the service may differ.
_CLOCKS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class MetricPoint:
    """One value of a metric. *timestamp* is in milliseconds since 1970.

    *earlier* marks a value from before the training may have started over, on which alone no rule is met.
    """

    step: int
    value: float
    timestamp: int
    earlier: bool = False


def sequence(points: Sequence[MetricPoint]) -> list[float]:
    """Return the values in the order of their steps: for each, the last one written.

    A training that is resumed logs steps again, and out of order; what it wrote before does not count. Values that were all logged
    under one step, as by ``mlflow.log_metric(name, value)`` without a step, are all kept, in the order of time.
    """
    written = sorted(enumerate(points), key=lambda item: (item[1].timestamp, item[0]))
    if len({point.step for point in points}) == 1:
        return [point.value for _, point in written]
    last = {point.step: point.value for _, point in written}
    return [last[step] for step in sorted(last)]


def written_after(
    histories: Mapping[str, Sequence[MetricPoint]], ended: datetime.datetime | None
) -> dict[str, list[MetricPoint]]:
    """Return each metric's values logged over a second after its job had *ended*.

    The time is the one that was logged: a value with an earlier time cannot be distinguished.
    """
    if ended is None:
        return {}
    end = ended.timestamp() * 1000 + _CLOCKS
    late = {name: [point for point in points if point.timestamp > end] for name, points in histories.items()}
    return {name: points for name, points in late.items() if points}


def late_text(name: str, late: Sequence[MetricPoint], ended: datetime.datetime | None) -> str:
    """Return the warning of values that :func:`written_after` found."""
    first = min(late, key=lambda point: point.timestamp)
    seconds = first.timestamp / 1000 - (ended.timestamp() if ended else 0.0)
    many = "1 value that was" if len(late) == 1 else f"{len(late)} values that were"
    which = "at step" if len(late) == 1 else "the first at step"
    counts = "it counts" if len(late) == 1 else "they count"
    return f"{name} has {many} logged after the job's end, {which} {first.step}, {seconds:.0f} s after it; {counts} for the gate."


def continued(earlier: Sequence[MetricPoint], last: Sequence[MetricPoint]) -> bool:
    """Return whether an attempt with the values *last* continues one with the values *earlier*, and did not start over."""
    return bool(earlier and last) and min(one.step for one in last) > min(one.step for one in earlier)


def joined(earlier: Sequence[MetricPoint], last: Sequence[MetricPoint]) -> list[MetricPoint]:
    """Return one history of an attempt and of the one that it continues.

    What the earlier one logged from the last one's first step on was done again. Of a metric without steps everything is kept.
    """
    begin = min((one.step for one in last), default=None)
    kept = [one for one in earlier if begin is None or one.step < begin]
    return [*(kept or earlier), *last]


def of_attempts(
    histories: Mapping[str, Sequence[MetricPoint]],
    progress: Sequence[MetricPoint] | None,
    restarted: datetime.datetime | None,
) -> dict[str, list[MetricPoint]]:
    """Return what counts of a job's values, which all its attempts have written into one history.

    =================================================== ===================================================================
    the service restarted it, it declares ``resume``     and continues: all values; starts over: those of the last attempt
    the service restarted it, it declares no ``resume``  a metric that continues is marked; of another the last attempt's
    the service knows of one attempt, the steps fall     the values before are marked
    back to the first one
    =================================================== ===================================================================

    Args:
        histories: by metric.
        progress: the history of the metric of ``resume``; None of a job that declares none.
        restarted: when the last attempt began, as the service says; None where that knows of one attempt.
    """
    found = {}
    resumes = progress is not None and continued(*_split(progress, restarted))
    for name, points in histories.items():
        earlier, last = _split(points, restarted)
        if restarted is None:
            found[name] = [*(replace(one, earlier=True) for one in earlier), *last]
        elif progress is not None:
            found[name] = joined(earlier, last) if resumes else list(last)
        else:
            marked = earlier if continued(earlier, last) else ()
            found[name] = [*(replace(one, earlier=True) for one in marked), *last]
    return found


def last_attempts(histories: Mapping[str, Sequence[MetricPoint]]) -> dict[str, Sequence[MetricPoint]]:
    """Return *histories* without the values that are marked as an earlier attempt's."""
    return {name: [one for one in points if not one.earlier] for name, points in histories.items()}


def _split(
    points: Sequence[MetricPoint], restarted: datetime.datetime | None
) -> tuple[Sequence[MetricPoint], Sequence[MetricPoint]]:
    """Return the values before the last attempt, and its own; unless the service knows, those before the steps fell back to the first."""
    if restarted is not None:
        border = restarted.timestamp() * 1000
        return [one for one in points if one.timestamp < border], [one for one in points if one.timestamp >= border]
    first = min((one.step for one in points), default=0)
    written = sorted(points, key=lambda one: one.timestamp)
    began = 0
    for index, (before, point) in enumerate(itertools.pairwise(written), 1):
        if before.step > first >= point.step:
            began = index
    return (written[:began], written[began:]) if began else ((), points)


def last_value(points: Sequence[MetricPoint]) -> float:
    """Return the value at the highest step; of several, the latest by time, by order.

    Raises:
        ValueError: if there are no points.
    """
    if not points:
        raise ValueError("a metric without values has no last one")
    return sequence(points)[-1]


def aggregate(points: Sequence[MetricPoint], how: Aggregate, *, greater: bool) -> float:
    """Return the one value of a history that a rule compares.

    A NaN among the values that count makes the result NaN, also of ``min`` and ``max``: a diverged training has no best
    value to be judged by.

    Args:
        points: the history.
        how: which value.
        greater: whether greater values are better, for ``best``.

    Raises:
        ValueError: if there are no points, or fewer than a mean of the last *n* needs.
    """
    values = sequence(points)
    if not values:
        raise ValueError("a metric without values has no aggregate")
    if how.name in ("count", "steps"):
        return float(len(points) if how.name == "count" else len(values))
    if how.name == "last":
        return values[-1]
    if how.name == "first":
        return values[0]
    if how.name == "mean" and how.argument is not None:
        wanted = int(how.argument)
        if len(values) < wanted:
            raise ValueError(f"it has {len(values)} values, and {how.text} needs {wanted}")
        values = values[-wanted:]
    if any(math.isnan(value) for value in values):
        return math.nan
    name = ("max" if greater else "min") if how.name == "best" else how.name
    if name == "min":
        return min(values)
    if name == "max":
        return max(values)
    if not all(math.isfinite(value) for value in values):
        return _of_infinite(values, name, how)
    if name == "mean":
        return _mean(values)
    if name == "median":
        return _middle(values)
    return percentile(values, how.argument or 0.0)


def percentile(values: Sequence[float], percent: float) -> float:
    """Return the percentile of *values*, interpolated (numpy's ``linear``).

    Args:
        values: at least one finite number.
        percent: from 0 to 100.
    """
    ordered = sorted(values)
    place = (len(ordered) - 1) * percent / 100
    low = math.floor(place)
    high = min(low + 1, len(ordered) - 1)
    share = place - low
    if share == 0 or ordered[low] == ordered[high]:
        return ordered[low]
    return ordered[low] * (1 - share) + ordered[high] * share


def _mean(values: Sequence[float]) -> float:
    """Return the mean without overflow and with one rounding, where that is possible."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def _middle(values: Sequence[float]) -> float:

    low, high = statistics.median_low(values), statistics.median_high(values)
    return low / 2 + high / 2 if low != high else low


def _of_infinite(values: Sequence[float], name: str, how: Aggregate) -> float:
    """Return mean, median or percentile of values of which some are infinite.

    It is NaN if that would take a difference of infinities.
    """
    if name == "mean":
        infinite = {value for value in values if math.isinf(value)}
        return infinite.pop() if len(infinite) == 1 else math.nan
    place = (len(values) - 1) * (0.5 if name == "median" else (how.argument or 0.0) / 100)
    ordered = sorted(values)
    around = {ordered[math.floor(place)], ordered[math.ceil(place)]}
    if len(around) == 1:
        return around.pop()
    infinite = {value for value in around if math.isinf(value)}
    return infinite.pop() if len(infinite) == 1 else math.nan if infinite else _middle(sorted(around))


def faults_of_shape(points: Sequence[MetricPoint], shape: str) -> str | None:
    """Return why a history lacks a *shape* (``finite``, ``increasing``, …), or None.

    ``increasing`` means that no value is less than the one before, and the last one greater than the first; ``decreasing``
    is the same the other way round. Both take two values at least, and finite ones.
    """
    values = sequence(points)
    if shape == "finite":
        # Every value counts here, also one that was written again later.
        bad = next((point for point in points if not math.isfinite(point.value)), None)
        return None if bad is None else f"it is {bad.value:g} at step {bad.step}"
    if len(values) < 2:
        return f"it has {len(values)} value, and a direction needs 2"
    if not all(math.isfinite(value) for value in values):
        return "not all of its values are finite"
    sign = 1.0 if shape == "increasing" else -1.0
    for number, (before, after) in enumerate(itertools.pairwise(values), 1):
        if (after > before) if sign < 0 else (after < before):
            return f"its value {number + 1} is {after:.6g}, after {before:.6g}"
    return None if values[-1] != values[0] else f"it stays at {values[0]:.6g}"


def series_of(histories: Mapping[str, Sequence[MetricPoint]]) -> dict[str, list[tuple[int, float]]]:
    """Return each metric's steps and values by step, then by time.

    Batches may have arrived in another order.
    """
    found = {}
    for name, points in histories.items():
        ordered = sorted(points, key=lambda point: (point.step, point.timestamp))
        found[name] = [(point.step, point.value) for point in ordered]
    return found
