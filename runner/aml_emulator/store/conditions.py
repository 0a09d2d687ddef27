"""Conditions and orders of lists of runs, as SQL. Pure.

Every text here is a constant; what a reader gives is a value of the statement.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aml_emulator.store.runs import TERMINAL

ATTRIBUTES, METRICS, PARAMS, TAGS = "attributes", "metrics", "params", "tags"

# AzureML names the run that wrote a model, aml-train's tag the whole job. Each has an index of just these words.
OF_RUN: Final = "kind = 'models' AND CAST(json_extract(properties, '$.jobName') AS TEXT)"
OF_JOB: Final = "kind = 'models' AND CAST(json_extract(properties, '$.tags.\"aml-train.job\"') AS TEXT)"
STAGE: Final = "coalesce(nullif(json_extract(properties, '$.tags.\"aml-train.stage\"'), ''), stage)"
_LATEST_MODEL: Final = (
    "(SELECT {column} FROM versions WHERE id = (SELECT max(id) FROM ("
    f"SELECT max(id) AS id FROM versions WHERE {OF_RUN} = r.id"
    f" UNION ALL SELECT max(id) FROM versions WHERE {OF_JOB} = r.id)))"
)
_LAST_PART: Final = "replace(r.compute, rtrim(r.compute, replace(r.compute, '/', '')), '')"
COMPUTE: Final = (
    f"CASE WHEN r.compute IS NULL THEN NULL WHEN lower({_LAST_PART}) IN ('', 'serverless') THEN 'Serverless'"
    f" ELSE replace({_LAST_PART}, 'azureml:', '') END"
)
"""The name of a run's compute, as users read it."""

_TEXTS: Final[Mapping[str, str]] = {
    "id": "r.id",
    "name": "r.display_name",
    "status": "r.status",
    "experiment": "(SELECT name FROM experiments WHERE id = r.experiment_id)",
    "branch": "r.branch",
    "gate": "r.gate",
    "compute": COMPUTE,
    "model": _LATEST_MODEL.replace("{column}", "name"),
    "stage": _LATEST_MODEL.replace("{column}", STAGE),
}
_NUMBERS: Final[Mapping[str, str]] = {
    "created": "r.created",
    "started": "r.started",
    "ended": "r.ended",
    # Of a run that has not ended it is the time until now, whose place a number fills.
    "duration": "(coalesce(r.ended, {now}) - r.started)",
}
TEXTS: Final = frozenset(_TEXTS)
"""Attributes that are text; those of models are of the one that was registered last."""

NUMBERS: Final = frozenset(_NUMBERS)
"""Attributes that are numbers: seconds, of times since the epoch."""

_INDEXED_TAGS: Final = {"aml-train.branch": "r.branch", "aml-train.gate": "r.gate"}
"""Tags that the index of listed runs has; their names are aml-train's (``aml_train.core.tags``)."""

#: Of a text, its number if it is written as one: JSON's numbers are those that programs log.
_NUMBER_OF: Final = (
    "(CASE WHEN json_valid({text}) THEN CASE WHEN json_type({text}) IN ('integer', 'real')"
    " THEN CAST({text} AS REAL) END END)"
)


@dataclass(frozen=True, kw_only=True)
class Field:
    """A value of runs: *group* is ``attributes``, ``metrics``, ``params`` or ``tags``."""

    group: str
    key: str


@dataclass(frozen=True, kw_only=True)
class Condition:
    """A comparison that must hold, with MLflow's operators in capitals.

    A run without the value does not meet it, whatever the operator.
    """

    field: Field
    operator: str
    values: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class RunFilter:
    """Which runs are shown; an empty text stands for all.

    Attributes:
        status: a status, or ``active`` for every run that has not ended.
        text: a part of the run's id or display name.
        children: whether runs that belong to another one are shown, too.
    """

    experiment: str = ""
    status: str = ""
    branch: str = ""
    text: str = ""
    children: bool = True
    conditions: tuple[Condition, ...] = ()


def where_of(wanted: RunFilter, now: float) -> tuple[list[str], list[object]]:
    """Return the conditions of a filter, joined by AND, and their values."""
    conditions, values = ["r.deleted = 0", "r.archived = 0"], list[object]()
    if wanted.experiment:
        conditions.append("r.experiment_id = (SELECT id FROM experiments WHERE name = ?)")
        values.append(wanted.experiment)
    if wanted.status == "active":
        conditions.append(f"r.status NOT IN ({','.join('?' * len(TERMINAL))})")
        values.extend(sorted(TERMINAL))
    elif wanted.status:
        conditions.append("r.status = ?")
        values.append(wanted.status)
    if wanted.branch:
        conditions.append("r.branch = ?")
        values.append(wanted.branch)
    if not wanted.children:
        conditions.append("r.parent_id IS NULL")
    if wanted.text:
        conditions.append("(instr(lower(r.id), lower(?)) OR instr(lower(r.display_name), lower(?)))")
        values += [wanted.text, wanted.text]
    for condition in wanted.conditions:
        text, given = _condition(condition, now)
        conditions.append(text)
        values += given
    return conditions, values


def _condition(condition: Condition, now: float) -> tuple[str, list[object]]:
    """Return one condition and its values; not true where the run has no such value."""
    field = condition.field
    if field.group == METRICS:
        compared, given = _compared("value", condition, number=True)
        return f"EXISTS (SELECT 1 FROM latest_metrics WHERE key = ? AND run_id = r.id AND {compared})", [
            field.key,
            *given,
        ]
    if field.group == PARAMS:
        compared, given = _compared("value", condition, loose=True)
        return f"EXISTS (SELECT 1 FROM params WHERE run_id = r.id AND key = ? AND {compared})", [field.key, *given]
    if field.group == TAGS and field.key not in _INDEXED_TAGS:
        compared, given = _compared("value", condition, loose=True)
        return f"EXISTS (SELECT 1 FROM json_each(r.tags) WHERE key = ? AND {compared})", [field.key, *given]
    if field.group == TAGS:
        return _compared(_INDEXED_TAGS[field.key], condition)
    if field.key in _NUMBERS:
        return _compared(_attribute(field.key, now), condition, number=True)
    return _compared(_attribute(field.key, now), condition, fold=field.key == "status")


def _compared(
    text: str, condition: Condition, *, number: bool = False, loose: bool = False, fold: bool = False
) -> tuple[str, list[object]]:
    """Return a comparison in SQL, and its values.

    Args:
        number: whether the value is a number.
        loose: whether it is a text that is a number if it is written as one.
        fold: whether the case of letters does not count.
    """
    operator, values = condition.operator, condition.values
    if number:
        return f"{text} {operator} ?", [float(values[0])]
    if fold:
        text, values = f"upper({text})", tuple(value.upper() for value in values)
    if operator == "LIKE":
        # SQLite's LIKE takes capitals and small letters for the same, MLflow's does not.
        return f"{text} GLOB ?", [_glob(values[0])]
    if operator == "ILIKE":
        return f"{text} LIKE ?", [values[0]]
    if operator in ("IN", "NOT IN"):
        return f"{text} {operator} ({','.join('?' * len(values))})", list(values)
    wanted = _number(values[0]) if loose else None
    if wanted is None:
        return f"{text} {operator} ?", [values[0]]
    number_of = _NUMBER_OF.format(text=text)
    if operator in ("=", "!="):
        return f"coalesce({number_of} {operator} ?, {text} {operator} ?)", [wanted, values[0]]
    return f"{number_of} {operator} ?", [wanted]


def order_of(order: Field | None, *, descending: bool, now: float) -> tuple[str, str, list[object]]:
    """Return what an order needs: a table to join, its terms, and the join's values."""
    last = "r.created DESC, r.id"
    if order is None:
        return "", last, []
    direction = "DESC" if descending else "ASC"
    if order.group == METRICS:
        joined = " LEFT JOIN latest_metrics AS o ON o.key = ? AND o.run_id = r.id"
        return joined, f"o.run_id IS NULL, o.value IS NULL, o.value {direction}, {last}", [order.key]
    joined, given = "", list[object]()
    if order.group == PARAMS:
        joined, given, text = " LEFT JOIN params AS o ON o.run_id = r.id AND o.key = ?", [order.key], "o.value"
    elif order.group == TAGS and order.key not in _INDEXED_TAGS:
        joined, given, text = " LEFT JOIN json_each(r.tags) AS o ON o.key = ?", [order.key], "o.value"
    elif order.group == TAGS:
        text = _INDEXED_TAGS[order.key]
    else:
        text = _attribute(order.key, now)
        if order.key in _NUMBERS:
            return joined, f"{text} IS NULL, {text} {direction}, {last}", given
    number = _NUMBER_OF.format(text=text) if order.group != ATTRIBUTES else "NULL"
    # Numbers that are written as text come in their order, before words.
    return joined, f"{text} IS NULL, {number} IS NULL, {number} {direction}, {text} {direction}, {last}", given


def _attribute(key: str, now: float) -> str:
    return _TEXTS.get(key) or _NUMBERS[key].format(now=repr(float(now)))


def _glob(pattern: str) -> str:
    """Return a pattern of LIKE as one of GLOB."""
    signs = {"%": "*", "_": "?", "*": "[*]", "?": "[?]", "[": "[[]"}
    return "".join(signs.get(letter, letter) for letter in pattern)


def _number(text: str) -> float | None:
    try:
        found = float(text)
    except ValueError:
        return None
    return found if math.isfinite(found) else None
