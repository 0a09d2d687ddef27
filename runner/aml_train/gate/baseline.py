"""Baselines: the values that a candidate is compared with. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aml_train.core.comparison import Side
from aml_train.core.text import whole
from aml_train.gate.decide import Baseline
from aml_train.gate.history import MetricPoint
from aml_train.gate.rules import Aggregate


@dataclass(frozen=True, kw_only=True)
class RunBaseline:
    """A job's metrics: every aggregate can be taken of them.

    Attributes:
        title: what it is, for people.
        histories: the job's, by metric.
    """

    title: str
    histories: Mapping[str, Sequence[MetricPoint]]

    def points(self, metric: str, how: Aggregate) -> Sequence[MetricPoint]:
        """Return the history of *metric*."""
        del how
        return self.histories.get(metric, ())


@dataclass(frozen=True, kw_only=True)
class ValuesBaseline:
    """One value for each metric.

    Attributes:
        title: what it is, for people.
        values: by metric.
        stands_for_all: whether the value stands for any aggregate, as in a file that was written to compare with;
            otherwise it is the last one of a history that is not known any more.
    """

    title: str
    values: Mapping[str, float]
    stands_for_all: bool

    def points(self, metric: str, how: Aggregate) -> Sequence[MetricPoint]:
        """Return the value of *metric*, where it can stand for *how*."""
        if metric not in self.values or how.name in ("count", "steps"):
            return ()
        if not self.stands_for_all and how.name != "last":
            return ()
        return (MetricPoint(step=0, value=self.values[metric], timestamp=0),) * int(how.argument or 1)


@dataclass(frozen=True, kw_only=True)
class FoundBaseline:
    """A baseline that was looked up.

    Attributes:
        values: what rules compare with.
        side: everything that a comparison shows of it.
        replicates: what its replicates have, itself first; none where they are not asked for.
        judged: what a model's properties say of the replicates that its gate has judged.
    """

    values: Baseline
    side: Side
    replicates: tuple[Baseline, ...] = ()
    judged: str = ""


def read_values(content: bytes) -> dict[str, float]:
    """Read metrics from JSON: an object of numbers, or one under ``metrics``.

    NaN and infinities are read as such, which no rule passes. Integers that are too large for a float become infinite.

    Raises:
        ValueError: the content is no such object; the message says where.
    """
    document = _document(content)
    if isinstance(document, dict) and isinstance(document.get("metrics"), dict):
        document = document["metrics"]
    if not isinstance(document, dict):
        raise ValueError('it is not an object of metrics: {"accuracy": 0.95}')  # noqa: TRY004
    return {name: number(value, name) for name, value in document.items()}


def read_value(content: bytes, pointer: str) -> float:
    """Return the number in a JSON document at *pointer* (JSON Pointer, RFC 6901).

    Raises:
        ValueError: the content is no JSON, or there is no number at that place, or it is a whole number that a float would round; the
            message says where it ends.
    """
    value = _document(content)
    walked = ""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and (index := whole(key)) is not None and index < len(value):
            value = value[index]
        else:
            raise ValueError(f"{walked or 'the document'} has no {key!r}")
        walked += f"/{token}"
    found = number(value, pointer)
    if isinstance(value, int) and math.isfinite(found) and int(found) != value:
        raise ValueError(f"{pointer!r} is {value}, which as a float is {int(found)}")
    return found


def _document(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"it is not JSON: {error}") from error


def number(value: Any, name: str) -> float:
    """Return a JSON value as a float.

    Raises:
        ValueError: it is no number; ``true`` is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name!r} is {json.dumps(value)[:40]}, not a number")  # noqa: TRY004 - of the content
    try:
        return float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
