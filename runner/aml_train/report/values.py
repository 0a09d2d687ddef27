"""The report of a run as values, and as JSON. Pure.

The same values are rendered as HTML, as Markdown and as the comment in a pull request. JSON that comes from elsewhere, such as
the artifact of a workflow that a fork has started, is refused if it is too large or a value has another type than here; texts in it may be
of any length and content: renderers cut and escape them.
"""

from __future__ import annotations

import datetime
import itertools
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

import msgspec

from aml_train.core import events
from aml_train.core.answers import check_format, clean, json_number
from aml_train.core.checks import Finding
from aml_train.core.comparison import Row
from aml_train.core.errors import InvalidError
from aml_train.core.masked_events import masked
from aml_train.core.tables import Table
from aml_train.models.lineage import LineageStep

FORMAT: Final = 1
MOST_BYTES: Final = 1 << 20
"""The most of a report that crosses a border of trust, as JSON."""

MOST_POINTS: Final = 300
"""Points of one line of a chart; more are thinned out."""

_MOST_TEXT: Final = 20_000
Point = tuple[int, float]
"""(step, value)."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """The origin of a run.

    Attributes:
        repository: such as ``contoso/digits``.
        commit: its id, with ``-dirty`` behind it if files differed.
        branch: its branch, if that is known.
        pull_request: the number of the pull request that it proposes.
        run_url: the workflow's run.
    """

    repository: str = ""
    commit: str = ""
    branch: str = ""
    pull_request: int | None = None
    run_url: str = ""


@dataclass(frozen=True, kw_only=True)
class Job:
    """The job, or its last attempt.

    Attributes:
        status: the service's word.
        kind: ``command``, ``pipeline`` or ``sweep``; empty if unknown.
        attached: an earlier run had submitted it.
        compute: what it ran on.
        seconds: how long it ran, as far as that is known.
        error: the service's explanation of a failure.
    """

    name: str
    status: str = ""
    kind: str = ""
    experiment: str = ""
    url: str = ""
    attached: bool = False
    compute: str = ""
    created: datetime.datetime | None = None
    seconds: float | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class Baseline:
    """The other side of the comparison: *title* for people, its job, the rows."""

    title: str
    job: str = ""
    rows: tuple[Row, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Series:
    """One line of a chart, and whose it is."""

    title: str
    role: Literal["job", "baseline", "other"]
    points: tuple[Point, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A metric over steps, the job's first; *limits* are those of the gate's rules."""

    metric: str
    series: tuple[Series, ...]
    limits: tuple[float, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A trial of a sweep with the last value of its objective."""

    name: str
    status: str = ""
    value: float | None = None
    best: bool = False
    seconds: float | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Model:
    """The registered model; *found* if an earlier run had registered it.

    *passport* is the digest of its passport; empty without one.
    """

    name: str
    version: str
    stage: str = ""
    found: bool = False
    passport: str = ""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An image that the job wrote."""

    name: str
    type: Literal["image/png", "image/jpeg", "image/gif", "image/webp"]
    data: bytes


#: The parts of a report of which something may be missing.
Part = Literal[
    "job",
    "attempts",
    "gate",
    "baseline",
    "metrics",
    "curves",
    "parameters",
    "tables",
    "pictures",
    "nodes",
    "trials",
    "replicates",
    "images",
    "packages",
    "model",
    "lineage",
    "logs",
    "cost",
]


@dataclass(frozen=True, kw_only=True)
class Missing:
    """Something that could not be read: the *part* it belongs to, and why."""

    part: Part
    reason: str


@dataclass(frozen=True, kw_only=True)
class Report:
    """Everything that people read of a run. Names and texts are foreign.

    Attributes:
        format: the version of this form; a reader refuses others.
        title: the project's name.
        configuration: which of a repository's configurations this is, such as ``examples/digits/aml-train.yml``; it and *target*
            distinguish two reports of one commit.
        status: the status word of docs/output.md, or ``job`` for a report that is made of a job alone.
        gate: ``passed``, ``failed``, ``skipped``; empty if no rule was decided.
        metrics: the last value of each metric.
        data: input → ``NAME:VERSION`` or place.
        logged: the parameters that the job logged.
        objective: the metric of a sweep.
        others: the comparisons with further jobs, whose curves are drawn as well.
        packages: ``pip:torch`` → version, of the first image.
        package_changes: the packages that differ from those of the baseline's image.
        tracebacks: the exceptions in the logs of a job that failed; the first one explains the failure best.
        missing: what could not be read.
        reproduce: the command line that does the same elsewhere.
        left_out: what is missing for lack of room, for people.
    """

    format: Literal[1] = FORMAT
    title: str
    configuration: str = ""
    target: str = ""
    created: datetime.datetime
    status: str
    exit_code: int = 0
    message: str = ""
    hint: str = ""
    source: Source = field(default_factory=Source)
    job: Job | None = None
    gate: Literal["passed", "failed", "skipped", ""] = ""
    objective: str = ""
    model: Model | None = None
    cost: events.CostCounted | None = None
    reproduce: str = ""
    left_out: tuple[str, ...] = ()
    # What may have no room, the most important first: the last one is cut first.
    baseline: Baseline | None = None
    rules: tuple[events.RuleVerdict, ...] = ()
    replicates: tuple[events.ReplicateChanged, ...] = ()
    stops: tuple[events.StopFound, ...] = ()
    missing: tuple[Missing, ...] = ()
    images: tuple[events.ImageReady, ...] = ()
    tests: tuple[events.TestsFinished, ...] = ()
    attempts: tuple[events.AttemptEnded, ...] = ()
    data: Mapping[str, str] = field(default_factory=dict)
    parameters: Mapping[str, str] = field(default_factory=dict)
    logged: Mapping[str, str] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    nodes: tuple[events.GraphNode, ...] = ()
    notices: tuple[str, ...] = ()
    lineage: LineageStep | None = None
    checks: tuple[Finding, ...] = ()
    package_changes: tuple[Row, ...] = ()
    others: tuple[Baseline, ...] = ()
    variables: Mapping[str, str] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    trials: tuple[Trial, ...] = ()
    tables: tuple[Table, ...] = ()
    stages: tuple[events.StageFinished, ...] = ()
    tracebacks: tuple[events.Traceback, ...] = ()
    logs: tuple[events.LogTail, ...] = ()
    packages: Mapping[str, str] = field(default_factory=dict)
    pictures: tuple[Picture, ...] = ()


def tidy(report: Report, mask: Callable[[str], str], mask_name: Callable[[str], str] | None = None) -> Report:
    """Return *report* with *mask* applied to every text, and *mask_name* to computed names; long texts are cut."""

    def cut(text: str) -> str:
        return text if len(text) <= _MOST_TEXT else text[: _MOST_TEXT - 1] + "…"

    name = mask_name or mask
    return masked(report, lambda text: cut(mask(clean(text))), lambda text: cut(name(clean(text))))


def thin(points: Iterable[Point], most: int = MOST_POINTS) -> tuple[Point, ...]:
    """Return at most *most* of the points, evenly chosen; the first and last are kept."""
    known = tuple(points)
    if len(known) <= most:
        return known
    return tuple(known[round(place * (len(known) - 1) / (most - 1))] for place in range(most))


def encode(report: Report, *, most: int = MOST_BYTES) -> bytes:
    """Return *report* as JSON of at most *most* bytes; see :func:`fitted`."""
    return fitted(report, lambda one: msgspec.json.encode(_finite(msgspec.to_builtins(one))), most=most)


def _finite(value: Any) -> Any:
    """Return a value of JSON in which numbers that JSON does not have are their names."""
    match value:
        case float():
            return value if math.isfinite(value) else json_number(value)
        case dict():
            return {key: _finite(one) for key, one in value.items()}
        case list() | tuple():
            return [_finite(one) for one in value]
        case _:
            return value


def fitted(report: Report, render: Callable[[Report], bytes], *, most: int) -> bytes:
    """Return *report* in the form that *render* gives it, of at most *most* bytes.

    The least important parts of a larger one are halved until they are gone, and it says which.

    Raises:
        ValueError: not even what is left has room.
    """
    rendered = render(report)
    names = [one.name for one in fields(Report)]
    for name in reversed(names[names.index("left_out") + 1 :]):
        while len(rendered) > most and (value := getattr(report, name)):
            gone = tuple(dict.fromkeys((*report.left_out, name.replace("_", " "))))
            report = replace(report, **{name: _half(value)}, left_out=gone)
            rendered = render(report)
    if len(rendered) > most:
        raise ValueError(f"a report of {len(rendered)} bytes, of which {most} are allowed")
    return rendered


def _half(value: Any) -> Any:
    """Return the first half of a part; missed rules are the first."""
    match value:
        case Mapping():
            return dict(itertools.islice(value.items(), len(value) // 2))
        case Baseline(rows=rows) if rows:
            return replace(value, rows=rows[: len(rows) // 2])
        case tuple():
            ordered = sorted(value, key=lambda one: isinstance(one, events.RuleVerdict) and one.verdict != "missed")
            return tuple(ordered[: len(value) // 2])
        case _:
            return None


class _Numbered(msgspec.Struct):
    """The number of a report's format, whatever else is in it."""

    format: int = FORMAT


def decode(data: bytes, *, origin: str, most: int = MOST_BYTES) -> Report:
    """Return the report that *data* is, which came from *origin*.

    Raises:
        InvalidError: it is too large, or no report.
    """
    if len(data) > most:
        raise InvalidError(f"{origin} has {len(data)} bytes; a report has at most {most}.")
    try:
        check_format(msgspec.json.decode(data, type=_Numbered).format, FORMAT)
        # Not strict, because numbers that are not finite are texts.
        return msgspec.json.decode(data, type=Report, strict=False)
    except (ValueError, RecursionError) as error:
        raise InvalidError(
            f"{origin} is no report of aml-train: {error}.",
            hint="`aml-train report` and the action write such files.",
        ) from error
