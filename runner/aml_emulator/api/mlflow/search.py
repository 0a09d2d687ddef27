"""MLflow's filter expressions and orders, over runs, experiments and models. Pure.

``metrics.a > 0.5 and params.b = 'x' and tags.c LIKE 'y%' and attributes.run_id IN ('1', '2')``: comparisons joined by AND,
as AzureML has them (https://learn.microsoft.com/azure/machine-learning/how-to-track-experiments-mlflow#filter-runs).
The grammar is MLflow's (https://mlflow.org/docs/latest/search-runs.html, ``mlflow/utils/search_utils.py``).
"""

from __future__ import annotations

import math
import operator as operators
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from aml_emulator.api.errors import MlflowError

Item = TypeVar("Item")
Value = str | float | None

_ENTITY = r"(?:(?P<entity>metrics?|params?|parameters?|tags?|attributes?|attr|run)\.)?"
_KEY = r"(?P<key>`[^`]+`|\"[^\"]+\"|[\w./-]+)"
_ONE = r"'[^']*'|\"[^\"]*\"|[-+.\w]+"
_COMPARISON = re.compile(
    rf"""\s*{_ENTITY}{_KEY}\s*
        (?:(?P<operator>=|!=|>=|<=|>|<|LIKE\b|ILIKE\b)\s*(?P<value>{_ONE})
          |(?P<membership>(?:NOT\s+)?IN)\s*\(\s*(?P<values>(?:{_ONE})(?:\s*,\s*(?:{_ONE}))*)\s*\))\s*""",
    re.VERBOSE | re.IGNORECASE,
)
_ORDER = re.compile(rf"\s*{_ENTITY}{_KEY}(?:\s+(?P<direction>ASC|DESC))?\s*", re.IGNORECASE)
_AND = re.compile(r"AND\b", re.IGNORECASE)
_GROUPS = {"m": "metrics", "p": "params", "t": "tags"}
_COMPARE: Mapping[str, Callable[[float, float], bool]] = {
    "=": operators.eq,
    "!=": operators.ne,
    ">": operators.gt,
    ">=": operators.ge,
    "<": operators.lt,
    "<=": operators.le,
}
_TEXT_OPERATORS = ("=", "!=", "LIKE", "ILIKE", "IN", "NOT IN")


@dataclass(frozen=True, kw_only=True)
class Searchable:
    """The values by which something is found and ordered."""

    attributes: Mapping[str, Value]
    tags: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    params: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Grammar:
    """The searchable values of one kind of thing.

    Attributes:
        texts: attributes that are text.
        numbers: attributes that are numbers.
        aliases: other names of attributes.
        groups: the groups besides attributes.
    """

    texts: frozenset[str]
    numbers: frozenset[str]
    aliases: Mapping[str, str] = field(default_factory=dict)
    groups: frozenset[str] = frozenset({"tags"})

    def place(self, entity: str | None, key: str) -> tuple[str, str]:
        """Return the group and the key of a value.

        Raises:
            MlflowError: nothing has such a value.
        """
        group = _GROUPS.get((entity or "attributes").lower()[0], "attributes")
        name = key.strip('`"')
        if group == "attributes":
            name = self.aliases.get(name, name)
            known = self.texts | self.numbers
            if name not in known:
                names = ", ".join(sorted(known | set(self.aliases)))
                raise _refused(f"Invalid attribute key '{name}' specified. Valid keys are: {names}")
        elif group not in self.groups:
            raise _refused(f"Invalid entity type '{entity}'. Valid values are: attribute, {', '.join(self.groups)}")
        return group, name

    def is_number(self, group: str, key: str) -> bool:
        """Return whether a value is a number."""
        return group == "metrics" or (group == "attributes" and key in self.numbers)


RUNS = Grammar(
    texts=frozenset({"run_id", "run_name", "status", "user_id", "artifact_uri"}),
    # "attributes.duration isn't present in MLflow OSS, but provided in Azure Machine Learning": Microsoft's page above.
    numbers=frozenset({"start_time", "end_time", "creation_time", "duration"}),
    aliases={
        **dict.fromkeys(("created", "Created"), "start_time"),
        **dict.fromkeys(("run name", "Run name", "Run Name"), "run_name"),
    },
    groups=frozenset({"tags", "metrics", "params"}),
)
EXPERIMENTS = Grammar(
    texts=frozenset({"name", "experiment_id"}), numbers=frozenset({"creation_time", "last_update_time"})
)
REGISTERED_MODELS = Grammar(
    texts=frozenset({"name"}),
    numbers=frozenset({"creation_timestamp", "last_updated_timestamp"}),
    aliases={"timestamp": "last_updated_timestamp"},
)
MODEL_VERSIONS = Grammar(
    texts=frozenset({"name", "run_id", "source_path"}),
    numbers=frozenset({"version_number", "creation_timestamp", "last_updated_timestamp"}),
    aliases={"version": "version_number", "source": "source_path"},
)


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One comparison: *group* is a field of `Searchable`."""

    group: str
    key: str
    operator: str
    values: tuple[str, ...]

    def holds(self, item: Searchable) -> bool:
        """Return whether it is true of an item; it is not if the item has no such value."""
        actual = getattr(item, self.group).get(self.key)
        if actual is None:
            return False
        if isinstance(actual, str):
            return _compare_text(self._folded(actual), self.operator, tuple(map(self._folded, self.values)))
        return _COMPARE[self.operator](float(actual), float(self.values[0]))

    def _folded(self, text: str) -> str:
        # AzureML's pages write attributes.status = 'Failed', MLflow's 'FAILED'.
        return text.upper() if (self.group, self.key) == ("attributes", "status") else text


def parse_filter(text: str, grammar: Grammar) -> tuple[Comparison, ...]:
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
        found.append(_comparison(match, grammar))
        at = match.end()
    return tuple(found)


def _comparison(match: re.Match[str], grammar: Grammar) -> Comparison:
    group, key = grammar.place(match["entity"], match["key"])
    operator = " ".join((match["operator"] or match["membership"]).upper().split())
    values = [match["value"]] if match["operator"] else re.findall(_ONE, match["values"])
    comparison = Comparison(
        group=group, key=key, operator=operator, values=tuple(value.strip("'\"") for value in values)
    )
    if grammar.is_number(group, key):
        _check_number(comparison)
    elif operator not in _TEXT_OPERATORS:
        raise _refused(
            f"'{operator}' does not compare text ({group}.{key}); use one of: {', '.join(_TEXT_OPERATORS)}"
        )
    elif bare := next((value for value in values if value[0] not in "'\""), None):
        raise _refused(f"Expected a quoted string value for {group}.{key} (e.g. 'my-value'). Got value {bare}")
    return comparison


def _check_number(comparison: Comparison) -> None:
    if comparison.operator not in _COMPARE:
        raise _refused(f"'{comparison.operator}' does not compare numbers ({comparison.key})")
    try:
        # Numbers of attributes come in quotes, as AzureML's pages have them.
        float(comparison.values[0])
    except ValueError as error:
        raise _refused(f"{comparison.key} is a number, and '{comparison.values[0]}' is none") from error


def parse_order(clauses: Iterable[str], grammar: Grammar) -> list[tuple[str, str, bool]]:
    """Return the columns of ``order_by``, the most important first: group, key, and whether it descends.

    Raises:
        MlflowError: one is not understood.
    """
    found = []
    for clause in clauses:
        match = _ORDER.fullmatch(clause)
        if match is None:
            raise _refused(f"Invalid order_by clause '{clause}': a column, and ASC or DESC")
        descending = (match["direction"] or "").upper() == "DESC"
        found.append((*grammar.place(match["entity"], match["key"]), descending))
    return found


def find(
    items: Iterable[Item],
    *,
    filter_text: str,
    order_by: Sequence[str],
    grammar: Grammar,
    searchable: Callable[[Item], Searchable],
) -> list[Item]:
    """Return the items that a filter finds, in a stable order.

    Raises:
        MlflowError: filter or order are not understood.
    """
    comparisons, orders = parse_filter(filter_text, grammar), parse_order(order_by, grammar)
    if not comparisons and not orders:
        return list(items)
    found = [(item, searchable(item)) for item in items]
    found = [pair for pair in found if all(comparison.holds(pair[1]) for comparison in comparisons)]
    for order in reversed(orders):
        found = _ordered(found, *order)
    return [item for item, _ in found]


def _ordered(
    found: list[tuple[Item, Searchable]], group: str, key: str, descending: bool
) -> list[tuple[Item, Searchable]]:
    """Return items by one column: the values, then NaN, then missing ones.

    That is so in both directions, as MLflow's own store does (``_get_orderby_clauses`` in ``mlflow/store/tracking/sqlalchemy_store.py``) does it.
    """
    values: list[tuple[str | float, tuple[Item, Searchable]]] = []
    not_numbers, missing = [], []
    for pair in found:
        value = getattr(pair[1], group).get(key)
        if value is None:
            missing.append(pair)
        elif isinstance(value, float) and math.isnan(value):
            not_numbers.append(pair)
        else:
            values.append((value, pair))
    values.sort(key=lambda entry: entry[0], reverse=descending)
    return [*(pair for _, pair in values), *not_numbers, *missing]


def _compare_text(actual: str, operator: str, values: tuple[str, ...]) -> bool:
    if operator in ("LIKE", "ILIKE"):
        parts = (re.escape(part) for part in re.split("([%_])", values[0]))
        pattern = "".join({"%": ".*", "_": "."}.get(part, part) for part in parts)
        flags = re.DOTALL | (re.IGNORECASE if operator == "ILIKE" else re.NOFLAG)
        return re.fullmatch(pattern, actual, flags) is not None
    return (actual in values) == (operator in ("=", "IN"))


def _refused(message: str) -> MlflowError:
    return MlflowError(400, "INVALID_PARAMETER_VALUE", message)


def _invalid(text: str) -> MlflowError:
    return _refused(
        f"The local AzureML does not understand the filter: {text!r}. It takes comparisons joined by AND;"
        " AzureML does not support OR."
    )
