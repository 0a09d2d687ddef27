"""Metrics, parameters and tags of runs, and azureml-core's other logged values.

A number that azureml-core logs under a separate name is a value of that metric, as MLflow's are. Text, rows, tables and
values in artifacts have no such place, and are stored as they came.
"""

from __future__ import annotations

import math
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from aml_emulator.domain.errors import InvalidError, NotFoundError
from aml_emulator.domain.workspace import Workspace
from aml_emulator.store.metrics import Metric, ParameterConflictError
from aml_emulator.store.runs import Run
from aml_emulator.store.v1 import LIST, MetricRow

SCALAR: Final = "azureml.v1.scalar"
RUN_NAME: Final = "mlflow.runName"
"""The tag that is a run's display name."""

_NUMBERS: Final = frozenset({"double", "float", "int", "long"})
_PAGE: Final = 1000


@dataclass(frozen=True, kw_only=True)
class Logged:
    """The latest value of each metric of a run, and its parameters."""

    metrics: Sequence[Metric]
    params: Mapping[str, str]


def logged_by(workspace: Workspace, run: Run) -> Logged:
    """Return what a run has logged so far."""
    store = workspace.store.metrics
    return Logged(metrics=store.latest(run.id), params=dict(store.params(run.id)))


def log_to_run(
    workspace: Workspace,
    run: Run,
    *,
    metrics: Sequence[Metric] = (),
    params: Sequence[tuple[str, str]] = (),
    tags: Mapping[str, str] | None = None,
) -> None:
    """Log metrics, parameters and tags of a run: all of them or none.

    Raises:
        InvalidError: a parameter has another value already.
    """
    others = dict(tags or {})
    name = others.pop(RUN_NAME, None)
    with workspace.store.transaction():
        try:
            workspace.store.metrics.set_params(run.id, params)
        except ParameterConflictError as error:
            raise InvalidError(str(error)) from error
        workspace.store.metrics.log(run.id, metrics)
        if name:  # an empty one is no name
            workspace.store.runs.change(run.id, display_name=name)
        if others:
            workspace.store.runs.tag(run.id, others)


def metric_page(
    workspace: Workspace, run: Run, key: str, *, limit: int, after: int = 0
) -> tuple[list[Metric], int | None]:
    """Return a page of a metric's values as they arrived, and where it ended."""
    return workspace.store.metrics.history(run.id, key, limit=limit, after=after)


# azureml-core's values


def log_values(workspace: Workspace, run: Run, rows: Sequence[MetricRow]) -> None:
    """Add azureml-core's values; one that was sent before, by its id, counts once."""
    store = workspace.store
    with store.transaction():
        numbers = [row for row in store.v1.add_rows(run.id, map(_stored, rows)) if row.data is None]
        values = {row.metric_id: (row.data or {}).get(row.name, math.nan) for row in rows}
        count = {name: len(_numbers(workspace, run, name)) for name in {row.name for row in numbers}}
        metrics = []
        for row in numbers:
            # As on the axis of AzureML's charts: without steps, values are counted.
            step = count[row.name] if row.step is None else row.step
            count[row.name] += 1
            fraction, timestamp = math.modf(_moment(row.created).timestamp() * 1000)
            value = float(values[row.metric_id])
            metrics.append(Metric(key=row.name, value=value, timestamp=int(timestamp), step=step, fraction=fraction))
        store.metrics.log(run.id, metrics)
        # azureml-core sends several batches at a time: one that was logged first may arrive last.
        for name in {row.name for row in numbers if row.step is None}:
            store.metrics.recount(run.id, name)


def value_names(workspace: Workspace, run: Run) -> list[str]:
    """Return the names of all that a run has logged."""
    numbers = [metric.key for metric in workspace.store.metrics.latest(run.id)]
    return list(dict.fromkeys([*numbers, *workspace.store.v1.row_names(run.id)]))


def kind_of_values(workspace: Workspace, run: Run, name: str) -> tuple[dict[str, str], str | None]:
    """Return the columns and azureml-core's kind of the values of a name.

    Raises:
        NotFoundError: nothing was logged under this name.
    """
    rows = workspace.store.v1.rows(run.id, name)
    if rows:
        return {key: type_ for row in rows for key, type_ in row.columns.items()}, rows[0].kind
    if not _numbers(workspace, run, name):
        raise NotFoundError(f"metric '{name}' of run '{run.id}'")
    return {name: "Double"}, LIST if name in workspace.store.v1.lists(run.id) else SCALAR


def values_of(
    workspace: Workspace, run: Run, name: str, *, since: str | None, until: str | None
) -> Sequence[MetricRow]:
    """Return what was logged under a name between two times, in the order of logging."""
    rows = workspace.store.v1.rows(run.id, name)
    if not rows or name in (rows[0].data or {}):
        numbers = [
            MetricRow(
                metric_id=str(uuid.uuid5(uuid.NAMESPACE_OID, f"{run.uuid}/{name}/{number}")),
                name=name,
                kind=SCALAR,
                columns={},
                created=datetime.fromtimestamp(metric.timestamp / 1000, UTC).isoformat(),
                step=metric.step,
                data={name: metric.value},
            )
            for number, metric in enumerate(_numbers(workspace, run, name))
        ]
        rows = sorted([*rows, *numbers], key=lambda row: _moment(row.created)) if rows else numbers
    first, last = (_moment(text) if text else None for text in (since, until))
    return [
        row
        for row in rows
        if (first is None or _moment(row.created) >= first) and (last is None or _moment(row.created) <= last)
    ]


def _numbers(workspace: Workspace, run: Run, name: str) -> Sequence[Metric]:
    """Return a metric's numbers in the order of logging, not of arrival."""
    found: list[Metric] = []
    after: int | None = 0
    while after is not None:
        page, after = metric_page(workspace, run, name, limit=_PAGE, after=after)
        found += page
    return sorted(found, key=lambda metric: metric.timestamp + metric.fraction)


def _stored(row: MetricRow) -> MetricRow:
    """Return a value as stored next to the numbers: a number without its value."""
    data = row.data or {}
    number = data.get(row.name)
    plain = set(data) == {row.name} and row.kind in (SCALAR, LIST)
    plain = plain and row.columns.get(row.name, "").lower() in _NUMBERS
    # A larger integer is not the same as a floating-point number.
    inexact = isinstance(number, int) and abs(number) > 2**53
    if not plain or isinstance(number, bool) or not isinstance(number, int | float) or inexact:
        return row
    return replace(row, data=None)


def _moment(text: Any) -> datetime:
    try:
        moment = datetime.fromisoformat(str(text))
    except ValueError as error:
        raise InvalidError(f"Not a time: '{text}'") from error
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
