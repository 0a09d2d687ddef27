"""Lists of jobs with filters, results and order, and the description of one job. Reads only."""

from __future__ import annotations

import datetime
import fnmatch
import itertools
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final

from aml_train.azure.http import JOBS_API
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.secrets import without_secret_values
from aml_train.jobs.states import JobStatus, parse_status
from aml_train.jobs.workspace import JobView, no_job, seconds_of

_SETUP: Final = re.compile(r"\A# By aml-train: .*?^\) \|\| exit\n", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True, kw_only=True)
class JobRow:
    """One line of a list.

    Attributes:
        created: the service's own text (ISO 8601).
        seconds: how long it ran, or has been running; None if that is not known or was not read.
        metrics: name → last value; empty if they were not read.
    """

    name: str
    status: JobStatus
    type: str = ""
    display_name: str = ""
    experiment: str = ""
    compute: str = ""
    created: str = ""
    tags: Mapping[str, str] = field(default_factory=dict)
    seconds: float | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)

    def facts(self) -> dict[str, object]:
        """Return it as plain values, for JSON."""
        return {
            **vars(self),
            "status": self.status.value,
            "tags": dict(self.tags),
            "metrics": dict(self.metrics),
        }


@dataclass(frozen=True, kw_only=True)
class JobFilter:
    """Which jobs are wanted; everything that is given must hold.

    Attributes:
        name: a pattern with ``*`` and ``?`` that the name or the display name matches.
        tags: all of these, with these values; None for any value.
        archived: also jobs that were archived.
    """

    statuses: frozenset[JobStatus] = frozenset()
    experiment: str | None = None
    name: str | None = None
    tags: Mapping[str, str | None] = field(default_factory=dict)
    archived: bool = False

    def takes(self, row: JobRow) -> bool:
        """Return whether *row* is wanted."""
        if self.statuses and row.status not in self.statuses:
            return False
        if self.experiment is not None and row.experiment != self.experiment:
            return False
        if self.name is not None and not any(
            fnmatch.fnmatchcase(text.lower(), self.name.lower()) for text in (row.name, row.display_name)
        ):
            return False
        return all(key in row.tags and value in (None, row.tags[key]) for key, value in self.tags.items())


def list_jobs(rest: AzureRest, wanted: JobFilter) -> Iterator[JobRow]:
    """Yield the wanted jobs, newest first; pages are read on demand.

    Raises:
        ServiceError: the service refuses, or reports an unknown status.
    """
    params = {"api-version": JOBS_API, "listViewType": "All" if wanted.archived else "ActiveOnly"}
    if wanted.tags:
        # The service looks for one tag; the rest is looked at here.
        params["tag"] = next(iter(wanted.tags))
    for item in rest.items(rest.arm("/jobs"), "Listing the jobs", params=params):
        row = _row(item)
        if wanted.takes(row):
            rest.hide_secrets(item.at("properties"))
            yield row


def _row(item: Answer) -> JobRow:
    properties = item.at("properties")
    return JobRow(
        name=item.text("name"),
        status=parse_status(properties.optional_text("status")),
        type=properties.optional_text("jobType") or "",
        display_name=properties.optional_text("displayName") or item.text("name"),
        experiment=properties.optional_text("experimentName") or "",
        compute=(properties.optional_text("computeId") or "").rstrip("/").rpartition("/")[2],
        created=item.optional_text("systemData.createdAt") or "",
        tags=properties.texts("tags"),
    )


def view_job(rest: AzureRest, name: str) -> JobView:
    """Return the job with its status, tags and pages.

    Raises:
        InvalidError: there is no such job.
    """
    found = _read(rest, name)
    return rest.view_of(name, found.at("properties")) if found.has("properties") else rest.details(name)


def _read(rest: AzureRest, name: str) -> Answer:
    found = rest.find_job(name)
    if found is None:
        raise no_job(rest.tagged_jobs, name)
    return found


def describe_job(rest: AzureRest, name: str) -> dict[str, Any]:
    """Return a job's description without empty values, the most wanted first.

    Raises:
        InvalidError: there is no such job.
    """
    found, details = _read(rest, name), rest.details(name)
    properties = found.at("properties")
    if found.has("properties"):
        row, page = _row(found), rest.view_of(name, properties).studio_url or ""
    else:  # a node of a pipeline, or a trial: only run history knows more than its name
        created = details.created.isoformat() if details.created else ""
        row, page = JobRow(name=name, status=details.status, created=created, tags=details.tags), ""
    command = properties.optional_text("command") or ""
    metrics = dict(rest.last_metrics(name))
    fields: dict[str, Any] = {
        "name": row.name,
        "status": row.status.value,
        "error": details.error,
        "display_name": row.display_name,
        "description": properties.optional_text("description"),
        "experiment": row.experiment,
        "created": row.created,
        "started": details.started.isoformat() if details.started else None,
        "ended": details.ended.isoformat() if details.ended else None,
        "compute": row.compute,
        "environment": _short(properties.optional_text("environmentId")),
        "code": _short(properties.optional_text("codeId")),
        "prepared": "data and setup of aml-train.yml" if _SETUP.match(command) else None,
        "command": _SETUP.sub("", command),
        "environment_variables": without_secret_values(properties.texts("environmentVariables")),
        "inputs": {key: _value(value) for key, value in properties.members("inputs")},
        "outputs": {key: _value(value) for key, value in properties.members("outputs")},
        "distribution": properties.mapping("distribution"),
        "resources": {k: v for k, v in properties.mapping("resources").items() if v not in (None, {}, "")},
        "limits": properties.mapping("limits"),
        "nodes": _nodes(rest, row),
        "logged_parameters": dict(rest.logged_parameters(name)),
        "metrics": metrics,
        "tags": dict(row.tags),
        "logs": sorted(details.log_files),
        "studio" if page.startswith("https:") else "page": page,
    }
    return {key: value for key, value in fields.items() if value not in (None, "", {}, [])}


def _nodes(rest: AzureRest, row: JobRow) -> dict[str, str]:
    """Return the status of each node of a pipeline, or trial of a sweep."""
    if row.type.lower() not in ("pipeline", "sweep"):
        return {}
    return {
        child.node: f"{child.status.value}{', reused' if child.reused_from else ''} ({child.name})"
        for child in rest.children(row.name)
    }


def _short(text: object) -> str | None:
    """Return ``NAME:VERSION`` of an ARM id, or the text itself."""
    match = re.search(r"/(?:environments|codes)/([^/]+)/versions/([^/]+)$", str(text or ""))
    return f"{match[1]}:{match[2]}" if match else (str(text) if text else None)


def _value(value: Answer) -> str | None:
    """Return a literal's value, or where data is."""
    return value.literal("value") if value.has("value") else value.optional_text("uri")


#: Jobs whose results are read at the same time, with two requests each.
_AT_ONCE: Final = 8
#: What lists are sorted by, besides metrics.
SORT_KEYS: Final = ("created", "duration")


def read_results(
    rest: AzureRest, rows: Sequence[JobRow], *, now: datetime.datetime
) -> tuple[list[JobRow], tuple[str, int]]:
    """Return the jobs with their durations and metrics, as far as they can be read.

    Args:
        rest: the workspace.
        rows: the jobs.
        now: the time, for how long a running job has run.

    Returns:
        the jobs in their order; why results of some could not be read, and of how many.
    """

    def read(row: JobRow) -> JobRow | ServiceError:
        if row.status.waiting:
            return row  # it has logged nothing yet
        try:
            return _with_results(rest, row, now)
        except ServiceError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="results") as pool:
        read_rows = list(pool.map(read, rows))
    problems = [one.message for one in read_rows if isinstance(one, ServiceError)]
    found = [given if isinstance(one, ServiceError) else one for given, one in zip(rows, read_rows, strict=True)]
    return found, (problems[0] if problems else "", len(problems))


def _with_results(rest: AzureRest, row: JobRow, now: datetime.datetime) -> JobRow:
    view = rest.details(row.name)
    seconds = seconds_of(replace(view, status=row.status), now)
    return replace(row, seconds=seconds, metrics=dict(rest.last_metrics(row.name)))


#: Jobs that are read to be sorted by anything but their creation: metrics take a request for each.
_MOST_SORTED: Final = 500
Results = Callable[[Sequence[JobRow]], tuple[list[JobRow], tuple[str, int]]]
"""Reads durations and metrics of jobs, as :func:`read_results` does."""


@dataclass(frozen=True, kw_only=True)
class JobOrder:
    """The order of a list of jobs, and how much of it is wanted.

    Attributes:
        key: one of :data:`SORT_KEYS`, or the name of a metric.
        reverse: the other direction.
        most: at most so many jobs; None for all.
        results: whether durations and metrics are read.
    """

    key: str = "created"
    reverse: bool = False
    most: int | None = None
    results: bool = True

    @property
    def by_results(self) -> bool:
        """Whether the order depends on durations or metrics."""
        return self.key == "duration" or self.key not in SORT_KEYS


def select_rows(found: Iterator[JobRow], order: JobOrder, read: Results) -> tuple[list[JobRow], list[str]]:
    """Return the first jobs in order, with their results; and remarks for people.

    Args:
        found: the wanted jobs, the newest first.
        order: their order.
        read: reads the results.

    Raises:
        InvalidError: the order depends on results that are not read, or on a metric that no job logged.
        ServiceError: the service refuses or does not answer.
    """
    if order.by_results and not order.results:
        raise InvalidError(f"The order by {order.key} needs the jobs' results, which are not read.")
    notes: list[str] = []
    newest = order.key == "created" and not order.reverse
    rows = list(itertools.islice(found, order.most if newest else _MOST_SORTED))
    if not newest and next(found, None) is not None:
        notes.append(f"only the newest {_MOST_SORTED} of these jobs are sorted.")
    if not order.by_results:
        rows = sort_rows(rows, order.key, reverse=order.reverse)[: order.most]
    if order.results:
        rows, (problem, count) = read(rows)
        if count:
            notes.append(f"the results of {count} of the jobs could not be read: {problem}")
    return (sort_rows(rows, order.key, reverse=order.reverse)[: order.most] if order.by_results else rows), notes


def sort_rows(rows: Sequence[JobRow], key: str, *, reverse: bool = False) -> list[JobRow]:
    """Return the jobs in order; those without a value come last.

    Times and numbers are in descending order; *reverse* turns that round.

    Args:
        rows: the jobs, the newest first.
        key: one of :data:`SORT_KEYS`, or the name of a metric.
        reverse: the other direction.

    Raises:
        InvalidError: none of the jobs logged such a metric.
    """
    if key == "created":
        return list(reversed(rows)) if reverse else list(rows)
    values = {row.name: row.seconds if key == "duration" else row.metrics.get(key) for row in rows}
    if key != "duration" and rows and not any(value is not None for value in values.values()):
        logged = sorted({name for row in rows for name in row.metrics})
        known = f" Metrics of these jobs are {', '.join(logged[:20])}." if logged else ""
        raise InvalidError(f"--sort {key}: none of the jobs logged it.", hint=f"Or {', '.join(SORT_KEYS)}.{known}")

    def order(row: JobRow) -> tuple[bool, float]:
        value = values[row.name]
        # NaN is in no order with numbers: it is as good as no value.
        if value is None or math.isnan(value):
            return True, 0.0
        return False, value if reverse else -value

    return sorted(rows, key=order)
