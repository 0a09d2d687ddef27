"""MLflow's filter expressions over runs, the part that is in daily use. Pure.

``metrics.a > 0.5 and params.b = 'x' and tags.c LIKE 'y%' and attributes.status = 'FINISHED'``: comparisons joined by AND.
See https://mlflow.org/docs/latest/search-runs.html.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from aml_emulator.api.errors import MlflowError

_COMPARISON = re.compile(
    r"""\s*(?:(?P<entity>metrics?|params?|parameters?|tags?|attributes?|attr|run)\.)?
        (?P<key>`[^`]+`|"[^"]+"|[\w.-]+)\s*
        (?P<operator>=|!=|>=|<=|>|<|LIKE\b|ILIKE\b)\s*
        (?P<value>'[^']*'|"[^"]*"|[-+.\w]+)\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_AND = re.compile(r"AND\b", re.IGNORECASE)
_GROUPS = {"m": "metrics", "p": "params", "t": "tags"}


@dataclass(frozen=True, kw_only=True)
class Searchable:
    """The searchable values of a run."""

    metrics: Mapping[str, float]
    params: Mapping[str, str]
    tags: Mapping[str, str]
    attributes: Mapping[str, str | float | None]


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One comparison: *group* is a field of `Searchable`."""

    group: str
    key: str
    operator: str
    value: str

    def holds(self, run: Searchable) -> bool:
        """Return whether it is true of a run; it is not if the run has no such value."""
        actual = getattr(run, self.group).get(self.key)
        if actual is None:
            return False
        if isinstance(actual, str):
            return _compare_text(actual, self.operator, self.value)
        return _compare_number(float(actual), self.operator, float(self.value))


def parse_filter(text: str) -> tuple[Comparison, ...]:
    """Return the comparisons of a filter, all of which must hold.

    Raises:
        MlflowError: it is not understood.
    """
    found: list[Comparison] = []
    at = 0
    while text[at:].strip():
        if found:
            joint = _AND.match(text, at)
            if joint is None:
                raise _invalid(text)
            at = joint.end()
        match = _COMPARISON.match(text, at)
        if match is None:
            raise _invalid(text)
        entity = (match["entity"] or "attributes").lower()
        comparison = Comparison(
            group=_GROUPS.get(entity[0], "attributes"),
            key=match["key"].strip('`"'),
            operator=match["operator"].upper(),
            value=match["value"].strip("'\""),
        )
        if comparison.group == "metrics":
            try:
                float(comparison.value)
            except ValueError as error:
                raise _invalid(text) from error
        found.append(comparison)
        at = match.end()
    return tuple(found)


def _compare_text(actual: str, operator: str, value: str) -> bool:
    if operator in ("LIKE", "ILIKE"):
        pattern = ".*".join(re.escape(part) for part in value.split("%"))
        return re.fullmatch(pattern, actual, re.IGNORECASE if operator == "ILIKE" else 0) is not None
    if operator not in ("=", "!="):
        raise MlflowError(400, "INVALID_PARAMETER_VALUE", f"'{operator}' does not compare text")
    return (actual == value) == (operator == "=")


def _compare_number(actual: float, operator: str, value: float) -> bool:
    match operator:
        case "=":
            return actual == value
        case "!=":
            return actual != value
        case ">":
            return actual > value
        case ">=":
            return actual >= value
        case "<":
            return actual < value
        case "<=":
            return actual <= value
    raise MlflowError(400, "INVALID_PARAMETER_VALUE", f"'{operator}' does not compare numbers")


def _invalid(text: str) -> MlflowError:
    return MlflowError(
        400,
        "INVALID_PARAMETER_VALUE",
        f"The local AzureML does not understand the filter: {text!r} (see docs/emulator.md)",
    )
