"""The grammar of one gate rule, such as ``>= 0.95`` or ``min < 0.2``."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, cast, get_args

Aggregate = Literal["last", "min", "max"]
Operator = Literal[">=", ">", "<=", "<", "=="]

AGGREGATES: Final[tuple[Aggregate, ...]] = get_args(Aggregate)
OPERATORS: Final[tuple[Operator, ...]] = get_args(Operator)
_COMPARE: Final[dict[Operator, Callable[[float, float], bool]]] = {
    ">=": operator.ge,
    ">": operator.gt,
    "<=": operator.le,
    "<": operator.lt,
    "==": operator.eq,
}
_RULE = re.compile(r"\s*(?P<aggregate>[A-Za-z_]\w*)?\s*(?P<operator>[<>=!~]+)\s*(?P<limit>[^<>=!~\s]\S*)\s*")
_NUMBER = re.compile(r"[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?")


@dataclass(frozen=True, kw_only=True)
class Rule:
    """One threshold over the values of one metric.

    Attributes:
        aggregate: which value of the history is compared: the last one by step, the least or the greatest.
        operator: how it is compared with the limit.
        limit: the finite number on the right-hand side.
        text: the rule as the user wrote it.
    """

    aggregate: Aggregate
    operator: Operator
    limit: float
    text: str

    def holds(self, value: float) -> bool:
        """Tell whether *value* meets the limit. NaN never does."""
        return not math.isnan(value) and _COMPARE[self.operator](value, self.limit)


def parse_rule(text: str) -> Rule:
    """Read ``[last|min|max] >=|>|<=|<|== NUMBER``.

    Raises:
        ValueError: if the text is no rule; the message says what would be one.
    """
    match = _RULE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a rule; write for example '>= 0.95' or 'min < 0.2'")
    aggregate = match["aggregate"] or "last"
    if aggregate not in AGGREGATES:
        raise ValueError(f"{text!r} starts with {aggregate!r}; known are {', '.join(AGGREGATES)}")
    if match["operator"] not in OPERATORS:
        raise ValueError(f"{text!r} compares with {match['operator']!r}; known are {' '.join(OPERATORS)}")
    if not _NUMBER.fullmatch(match["limit"]):
        raise ValueError(f"{text!r} compares with {match['limit']!r}, which is not a finite number")
    limit = float(match["limit"])
    if not math.isfinite(limit):
        raise ValueError(f"{text!r} compares with {match['limit']!r}, which is too large for a float")
    return Rule(aggregate=aggregate, operator=cast("Operator", match["operator"]), limit=limit, text=text.strip())
