"""The report of a run as values, and as JSON. Pure.

The same values are rendered as HTML, as Markdown and as the comment in a pull request. JSON that comes from elsewhere, such as
the artifact of a workflow that a fork has started, is refused unless every value has its type and its size: msgspec checks
both while it decodes.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta, Struct, field

from aml_train.core.answers import Number, check_format
from aml_train.core.errors import InvalidError

FORMAT: Final = 1
MOST_BYTES: Final = 1 << 20
"""The most of a report that crosses a border of trust, as JSON."""

MOST_POINTS: Final = 300
"""Points of one line of a chart; more are thinned out."""

_NAME: Final = 1_000
_TEXT: Final = 20_000
Name = Annotated[str, Meta(max_length=_NAME)]
"""A name, a reference, an address of a file: one line."""

Computed = Annotated[str, Meta(max_length=_NAME)]
"""A computed name, or a word of a service: a short secret may be part of it by chance."""

Text = Annotated[str, Meta(max_length=_TEXT)]
"""A sentence, or some lines of foreign text."""

Url = Annotated[str, Meta(max_length=4_000)]
Point = tuple[int, float]
"""(step, value); the value is finite."""

Moment = datetime.datetime


class _Value(Struct, frozen=True, forbid_unknown_fields=True):
    """A part of a report."""


class Source(_Value, frozen=True, kw_only=True):
    """The origin of a run.

    Attributes:
        repository: such as ``contoso/digits``.
        commit: its id, with ``-dirty`` behind it if files differed.
        branch: its branch, if that is known.
        pull_request: the number of the pull request that it proposes.
        run_url: the workflow's run.
    """

    repository: Name = ""
    commit: Computed = ""
    branch: Name = ""
    pull_request: Annotated[int, Meta(ge=1)] | None = None
    run_url: Url = ""


class Job(_Value, frozen=True, kw_only=True):
    """The job, or its last attempt.

    Attributes:
        status: the service's word.
        kind: ``command``, ``pipeline`` or ``sweep``; empty if unknown.
        attached: an earlier run had submitted it.
        compute: what it ran on.
        seconds: how long it ran, as far as that is known.
        error: the service's explanation of a failure.
    """

    name: Computed
    status: Computed = ""
    kind: Name = ""
    experiment: Name = ""
    url: Url = ""
    attached: bool = False
    compute: Name = ""
    created: Moment | None = None
    started: Moment | None = None
    ended: Moment | None = None
    seconds: float | None = None
    error: Text = ""


class Attempt(_Value, frozen=True, kw_only=True):
    """An attempt that has ended; *ending* is the word of docs/states.md."""

    job: Computed
    attempt: int
    status: Computed
    ending: Computed


class Rule(_Value, frozen=True, kw_only=True):
    """A rule of the gate that was decided.

    Attributes:
        value: None if the metric is missing.
        limit: None if the rule has none.
        baseline: the baseline's value of the metric.
        where: ``file:line`` of the rule.
    """

    metric: Name
    rule: Name
    verdict: Literal["met", "missed", "warned", "skipped"]
    value: Number | None = None
    limit: Number | None = None
    baseline: Number | None = None
    reason: Text = ""
    where: Name = ""


class Difference(_Value, frozen=True, kw_only=True):
    """A row of the comparison; see ``aml_train.core.comparison.Row``."""

    kind: Literal["fact", "data", "parameter", "logged", "variable", "metric"]
    name: Name
    left: Text = ""
    right: Text = ""
    difference: Text = ""
    same: bool = False


class Baseline(_Value, frozen=True, kw_only=True):
    """The other side of the comparison: *title* for people, its job, the rows."""

    title: Text
    job: Name = ""
    rows: tuple[Difference, ...] = ()


class Series(_Value, frozen=True, kw_only=True):
    """One line of a chart.

    *role* is whose it is; if it is empty, the first line of a curve is the job's, and the second one the baseline's.
    """

    title: Name
    role: Literal["job", "baseline", "other", ""] = ""
    points: tuple[Point, ...] = ()


class Curve(_Value, frozen=True, kw_only=True):
    """A metric over steps.

    The first line is the job's; a second one is the baseline's. Those of other jobs say so in their *role*.

    *limits* are those of the gate's rules.
    """

    metric: Name
    series: tuple[Series, ...]
    limits: tuple[float, ...] = ()


class Table(_Value, frozen=True, kw_only=True):
    """A logged value that is no number; see ``aml_train.core.tables.Table``."""

    name: Name
    kind: Literal["text", "list", "table", "matrix", "file"]
    head: tuple[Text, ...] = ()
    rows: tuple[tuple[Text, ...], ...] = ()
    more: Text = ""


class PackageChange(_Value, frozen=True, kw_only=True):
    """A package of the image; *before* and *after* are versions, empty for none."""

    name: Name
    kind: Name = ""
    before: Name = ""
    after: Name = ""


class Image(_Value, frozen=True, kw_only=True):
    """An image of the run.

    Attributes:
        name: its key below ``images``; empty for ``image``.
        how: whether the run built it, found it, or was given it.
        compressed_bytes: what is pulled of it.
        against: the digest that *changes* compares it with; empty if nothing was compared.
        changes: the packages that differ.
        more_changes: how many others do.
    """

    reference: Computed
    digest: Computed
    name: Name = ""
    address: Name = ""
    how: Literal["built", "found", "given", ""] = ""
    compressed_bytes: int | None = None
    against: Name = ""
    changes: tuple[PackageChange, ...] = ()
    more_changes: int = 0


class Failure(_Value, frozen=True, kw_only=True):
    """A test that failed or could not run."""

    name: Name
    file: Name = ""
    line: int | None = None
    message: Text = ""


class Tests(_Value, frozen=True, kw_only=True):
    """The tests in an image; counts are None where no JUnit report was written."""

    __test__ = False
    image_name: Name = ""
    passed: int | None = None
    failed: int | None = None
    skipped: int | None = None
    seconds: float | None = None
    cached: bool = False
    failures: tuple[Failure, ...] = ()


class Check(_Value, frozen=True, kw_only=True):
    """A finding of the image's readiness checks; see docs/image.md."""

    check: Name
    level: Literal["error", "warning", "info"]
    what: Text
    why: Text = ""
    remedy: Text = ""


class Node(_Value, frozen=True, kw_only=True):
    """A node of a pipeline.

    *environment* is ``image``, ``image NAME``, or that of the component's owner.
    """

    name: Name
    status: Computed = ""
    run: Computed = ""
    needs: tuple[Name, ...] = ()
    environment: Name = ""
    reused: bool = False
    seconds: float | None = None
    error: Text = ""


class Trial(_Value, frozen=True, kw_only=True):
    """A trial of a sweep with the last value of its objective."""

    name: Name
    status: Name = ""
    value: Number | None = None
    best: bool = False
    seconds: float | None = None
    parameters: dict[Name, Text] = field(default_factory=dict)


class Model(_Value, frozen=True, kw_only=True):
    """The registered model; *found* if an earlier run had registered it.

    *passport* is the digest of its passport; empty without one.
    """

    name: Computed
    version: Computed
    stage: Name = ""
    found: bool = False
    passport: Name = ""


class Step(_Value, frozen=True, kw_only=True):
    """A step of the lineage, with those below it; see docs/promotion.md."""

    kind: Name
    name: Name
    state: Name
    detail: Text = ""
    parts: tuple[Step, ...] = ()


class Package(_Value, frozen=True, kw_only=True):
    """A package in the image; *kind* is its ecosystem, such as ``python`` or ``deb``."""

    name: Name
    version: Name = ""
    kind: Name = ""


class Log(_Value, frozen=True, kw_only=True):
    """The last lines of a log of the job, of which *size* bytes were read."""

    origin: Name
    rank: Name = ""
    size: int = 0
    lines: tuple[Text, ...] = ()


class Traceback(_Value, frozen=True, kw_only=True):
    """An exception in the logs of a job that failed, as its log has it; the first one explains the failure best."""

    origin: Name
    rank: Name = ""
    message: Text = ""
    text: Text = ""


class Cost(_Value, frozen=True, kw_only=True):
    """The cost of all attempts; *text* is the same for people."""

    text: Text
    node_hours: float | None = None
    gpu_hours: float | None = None
    amount: float | None = None
    currency: Name = ""
    unknown: Text = ""


class Stage(_Value, frozen=True, kw_only=True):
    """A stage of the pipeline; None for one that did not end."""

    name: Name
    summary: Text = ""
    seconds: float | None = None
    skipped: bool = False


class Picture(_Value, frozen=True, kw_only=True):
    """An image that the job wrote; *type* is a media type of :data:`PICTURES`."""

    name: Name
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
    "images",
    "packages",
    "model",
    "lineage",
    "logs",
    "cost",
]


class Missing(_Value, frozen=True, kw_only=True):
    """Something that could not be read: the *part* it belongs to, and why."""

    part: Part
    reason: Text


class Report(_Value, frozen=True, kw_only=True):
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
        missing: what could not be read.
        reproduce: the command line that does the same elsewhere.
        left_out: what is missing for lack of room, for people.
    """

    format: Literal[1] = FORMAT
    title: Name
    configuration: Name = ""
    target: Name = ""
    created: Moment
    status: Computed
    exit_code: int = 0
    message: Text = ""
    hint: Text = ""
    source: Source = field(default_factory=Source)
    job: Job | None = None
    attempts: tuple[Attempt, ...] = ()
    gate: Literal["passed", "failed", "skipped", ""] = ""
    rules: tuple[Rule, ...] = ()
    baseline: Baseline | None = None
    others: tuple[Baseline, ...] = ()
    metrics: dict[Name, Number] = field(default_factory=dict)
    curves: tuple[Curve, ...] = ()
    tables: tuple[Table, ...] = ()
    images: tuple[Image, ...] = ()
    tests: tuple[Tests, ...] = ()
    checks: tuple[Check, ...] = ()
    data: dict[Name, Text] = field(default_factory=dict)
    parameters: dict[Name, Text] = field(default_factory=dict)
    variables: dict[Name, Text] = field(default_factory=dict)
    logged: dict[Name, Text] = field(default_factory=dict)
    nodes: tuple[Node, ...] = ()
    objective: Name = ""
    trials: tuple[Trial, ...] = ()
    model: Model | None = None
    lineage: Step | None = None
    packages: tuple[Package, ...] = ()
    pictures: tuple[Picture, ...] = ()
    logs: tuple[Log, ...] = ()
    tracebacks: tuple[Traceback, ...] = ()
    cost: Cost | None = None
    stages: tuple[Stage, ...] = ()
    notices: tuple[Text, ...] = ()
    missing: tuple[Missing, ...] = ()
    reproduce: Text = ""
    left_out: tuple[Text, ...] = ()


def as_name(text: str) -> str:
    """Return foreign *text* as a name that a report takes: cut, without surrogates."""
    return _cut(text, _NAME)


def as_text(text: str) -> str:
    """Return foreign *text* as a report takes it: cut, without surrogates."""
    return _cut(text, _TEXT)


def _cut(text: str, most: int) -> str:
    valid = text.encode("utf-8", "replace").decode("utf-8")
    return valid if len(valid) <= most else valid[: most - 1] + "…"


def thin(points: Iterable[Point], most: int = MOST_POINTS) -> tuple[Point, ...]:
    """Return at most *most* of the points, evenly chosen; the first and last are kept."""
    known = tuple(points)
    if len(known) <= most:
        return known
    return tuple(known[round(place * (len(known) - 1) / (most - 1))] for place in range(most))


#: What is cut first, if a report is too large: field → the name of it, for people.
_CUT: Final[Mapping[str, str]] = {
    "pictures": "pictures",
    "packages": "packages",
    "logs": "the ends of the logs",
    "tracebacks": "tracebacks",
    "stages": "durations of the stages",
    "tables": "logged tables",
    "trials": "trials",
    "curves": "curves",
    "variables": "environment variables",
    "others": "comparisons with further jobs",
    "checks": "checks of the image",
    "lineage": "the lineage",
    "notices": "notices",
    "nodes": "nodes",
    "metrics": "metrics",
    "logged": "logged parameters",
    "parameters": "parameters",
    "data": "data",
    "attempts": "attempts",
    "tests": "tests",
    "images": "images",
    "missing": "what could not be read",
}


def encode(report: Report, *, most: int = MOST_BYTES) -> bytes:
    """Return *report* as JSON of at most *most* bytes; see :func:`fitted`."""
    return fitted(report, msgspec.json.encode, most=most)


def fitted(report: Report, render: Callable[[Report], bytes], *, most: int) -> bytes:
    """Return *report* in the form that *render* gives it, of at most *most* bytes.

    The least important parts are left out of one that is larger, and it says which. The verdict, the rules of the gate and the
    comparison stay.

    Raises:
        ValueError: not even those have room.
    """
    rendered = render(report)
    for name, text in _CUT.items():
        if len(rendered) <= most:
            return rendered
        value = getattr(report, name)
        if not value:
            continue
        empty: Any = None if name == "lineage" else type(value)()
        report = msgspec.structs.replace(report, **{name: empty}, left_out=(*report.left_out, text))
        rendered = render(report)
    if len(rendered) > most:
        raise ValueError(f"a report of {len(rendered)} bytes, of which {most} are allowed")
    return rendered


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
        return msgspec.json.decode(data, type=Report)
    except (ValueError, RecursionError) as error:
        raise InvalidError(
            f"{origin} is no report of aml-train: {error}.",
            hint="`aml-train report` and the action write such files.",
        ) from error


def schema() -> dict[str, Any]:
    """Return the JSON schema of a report (draft 2020-12)."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A report of aml-train",
        **msgspec.json.schema(Report),
    }
