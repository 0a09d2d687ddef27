"""Typed events. The console, the file of ``--events`` and GitHub are listeners.

A stage emits events through a :data:`Listener`; it prints nothing itself.
"""

from __future__ import annotations

import contextlib
import dataclasses
import datetime
import enum
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from aml_train.core.checks import Finding
from aml_train.core.comparison import Comparison
from aml_train.core.tables import Table
from aml_train.core.text import size

Stage = Literal[
    "resolve",
    "target",
    "image",
    "push",
    "check",
    "tests",
    "submit",
    "watch",
    "gate",
    "register",
    "lineage",
    "promote",
]
Source = Literal["build", "push", "tests", "job", "emulator"]
Verdict = Literal["met", "missed", "warned", "skipped"]


@dataclass(frozen=True, kw_only=True)
class Event:
    """Anything that happened; ``at`` is the time in UTC."""

    at: datetime.datetime = field(default_factory=lambda: datetime.datetime.now(datetime.UTC))

    @property
    def name(self) -> str:
        """The word for this event in the file of ``--events``, such as ``stage-started``."""
        words = "".join("-" + c.lower() if c.isupper() else c for c in type(self).__name__)
        return words.removeprefix("-")


@dataclass(frozen=True, kw_only=True)
class StageStarted(Event):
    """A stage begins; *title* says in a few words what it will do."""

    stage: Stage
    title: str


@dataclass(frozen=True, kw_only=True)
class StageFinished(Event):
    """A stage ended well.

    *summary* is its result in a few words, *seconds* its duration.
    """

    stage: Stage
    summary: str
    seconds: float
    skipped: bool = False


@dataclass(frozen=True, kw_only=True)
class Progress(Event):
    """The progress of a long piece of work.

    *total* is None if it is unknown; *unit* is ``bytes``, ``steps``, …; empty where *label* says it.
    """

    stage: Stage
    label: str
    done: int
    total: int | None
    unit: str

    @property
    def amount(self) -> str:
        """What is done, and of how much, in words."""
        if self.unit == "bytes":
            return size(self.done) + (f" of {size(self.total)}" if self.total else "")
        return (f"{self.done}" + (f" of {self.total}" if self.total else "") + f" {self.unit}").rstrip()


@dataclass(frozen=True, kw_only=True)
class LogLine(Event):
    """One untrusted line of foreign output (build, tests, job), without its line end.

    A long line comes in pieces: *more* says that it continues in the next event of the same *source* and *origin*.
    """

    source: Source
    text: str
    origin: str = ""
    more: bool = False


@dataclass(frozen=True, kw_only=True)
class LogLines(Event):
    """Untrusted lines of a job's log, as many as arrived together.

    The file of ``--events`` has a ``log-line`` for each.

    *text* is the lines, joined by line feeds, without the end of the last one, which continues in the next event of the same *origin*
    where *more* says so. *origin* is the log's path. *rank* is which of the job's processes wrote it, such as ``0`` or ``worker 1``;
    empty if the path does not say. *several* says that other ranks write logs, too.
    """

    origin: str
    text: str
    rank: str = ""
    several: bool = False
    more: bool = False
    source: Source = "job"

    @property
    def label(self) -> str:
        """The prefix that each line needs for readers; empty if nothing could be confused."""
        if not self.rank:
            return "" if self.origin.endswith("std_log.txt") else self.origin
        return rank_label(self.rank) if self.several else ""


def rank_label(rank: str) -> str:
    """Return a rank as people read it: ``rank 3``; ``worker 1`` stays as it is."""
    return f"rank {rank}" if rank.isdecimal() else rank


@dataclass(frozen=True, kw_only=True)
class LogTail:
    """The last *lines* of one log of a job, of which *size* bytes were read.

    *origin* and *rank* are as in :class:`LogLines`.
    """

    origin: str
    rank: str
    lines: tuple[str, ...]
    size: int


@dataclass(frozen=True, kw_only=True)
class Traceback:
    """One traceback, with those that it was raised in the handling of.

    Attributes:
        frames: (file, line) of the last one, outermost first.
        message: the line that names the exception.
        text: the whole text of the log, bounded: it says how much of the middle is left out.
        origin: path of the log.
        rank: the process that wrote it, as in :attr:`aml_train.jobs.logs.names.LogName.rank`.
    """

    frames: tuple[tuple[str, int], ...]
    message: str
    text: str = ""
    origin: str = ""
    rank: str = ""


@dataclass(frozen=True, kw_only=True)
class LogsEnded(Event):
    """The job's logs have ended: the last lines of each, and the tracebacks in them.

    *tracebacks* are those that explain a failure best, the best one first: of the rank that failed, then in the order of arrival.
    """

    job: str
    tails: tuple[LogTail, ...]
    tracebacks: tuple[Traceback, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Notice(Event):
    """Something the user should know; a *warning* is something to act on."""

    text: str
    level: Literal["info", "warning"] = "info"


@dataclass(frozen=True, kw_only=True)
class ImageReady(Event):
    """The image exists in the registry. *how* says whether it was built or found.

    *image_name* is its key below ``images``; empty for ``image``.
    """

    reference: str
    digest: str
    address: str
    how: Literal["built", "found", "given"]
    compressed_bytes: int | None = None
    image_name: str = ""

    @property
    def origin(self) -> str:
        """How the run came by it, and its size, in words."""
        return self.how + (f", {size(self.compressed_bytes)} compressed" if self.compressed_bytes else "")


@dataclass(frozen=True, kw_only=True)
class ImageChecked(Event):
    """The readiness checks of the image were judged.

    *findings* has the worst first; *cached* says that the facts were known already.

    *where* is ``file:line`` of the image in the configuration; empty where there is none. *image_name* is its key
    below ``images``; empty for ``image``.
    """

    findings: tuple[Finding, ...]
    cached: bool
    where: str = ""
    image_name: str = ""


@dataclass(frozen=True, kw_only=True)
class TestFailure:
    """A test that failed or could not run.

    *file* and *line* (one-based) are None if the report does not name them.

    *file* is relative to the project's folder. *output* is the end of what the test printed and of its traceback.
    """

    __test__ = False
    name: str
    file: str | None
    line: int | None
    message: str
    output: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}: " if self.file and self.line else f"{self.file}: " if self.file else ""
        return f"{place}{self.name}" + (f": {self.message}" if self.message else "")


@dataclass(frozen=True, kw_only=True)
class TestsFinished(Event):
    """The tests in the image ended. Counts are None where no report or closing line shows them.

    *slowest* holds names and seconds of the slowest few. *image_name* is the image's key below ``images``; empty for
    ``image``.
    """

    __test__ = False
    passed: int | None
    failed: int | None
    skipped: int | None
    seconds: float
    cached: bool
    failures: tuple[TestFailure, ...] = ()
    slowest: tuple[tuple[str, float], ...] = ()
    image_name: str = ""

    @property
    def counts(self) -> str:
        """How many tests passed, in words."""
        if self.passed is None:
            return "no counts: they wrote no JUnit report"
        return f"{self.passed} passed, {self.failed or 0} failed, {self.skipped or 0} skipped"


@dataclass(frozen=True, kw_only=True)
class JobNamed(Event):
    """The job's name is known; from now on it may exist in the workspace."""

    job: str


@dataclass(frozen=True, kw_only=True)
class JobSubmitted(Event):
    """The job exists in the workspace.

    *attached* says that an earlier run submitted it. *attempt* counts from 1.
    """

    job: str
    attached: bool
    studio_url: str | None
    attempt: int = 1


@dataclass(frozen=True, kw_only=True)
class AttemptEnded(Event):
    """One attempt of the job is over.

    *ending* is the word of docs/states.md, *status* the service's.

    *again* is the name of the attempt that follows; None where there is none. *resumed_from* is the attempt whose checkpoints it read.
    """

    job: str
    attempt: int
    status: str
    ending: str
    again: str | None = None
    resumed_from: str | None = None

    @property
    def how(self) -> str:
        """Its ending and where it began, for people."""
        return self.ending + (f", resumed from {self.resumed_from}" if self.resumed_from else "")


@dataclass(frozen=True, kw_only=True)
class JobStatusChanged(Event):
    """The service reported another status word."""

    job: str
    status: str


@dataclass(frozen=True, kw_only=True)
class GraphNode:
    """A node of a pipeline, as it is planned and, in reports, as it ran.

    Attributes:
        environment: ``image`` for the tested image, ``image NAME`` for one of ``images``, else that of the component's owner.
        status: the service's word; empty for a node that did not run.
        run: the id of its run.
        reused: its outputs are those of an earlier run.
    """

    name: str
    needs: tuple[str, ...] = ()
    environment: str = "image"
    status: str = ""
    run: str = ""
    reused: bool = False
    seconds: float | None = None
    error: str = ""


@dataclass(frozen=True, kw_only=True)
class GraphPlanned(Event):
    """The nodes of the pipeline job that is submitted, or attached to."""

    job: str
    nodes: tuple[GraphNode, ...]


@dataclass(frozen=True, kw_only=True)
class NodeChanged(Event):
    """A node of a pipeline job, or a trial of a sweep, has another status.

    Attributes:
        job: the pipeline or sweep.
        node: the node's name; ``OUTER/INNER`` within a pipeline component.
        run: the id of its run.
        status: the service's word.
        reused: its outputs are those of an earlier run.
    """

    job: str
    node: str
    run: str
    status: str
    reused: bool = False


@dataclass(frozen=True, kw_only=True)
class ReplicateChanged(Event):
    """One of the jobs that differ in one input only has another status.

    *replicate* says which one it is, such as ``seed = 3``. *metrics* are the last values of those with rules, once they are read.
    """

    replicate: str
    job: str
    status: str
    metrics: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class CostCounted(Event):
    """The cost of all attempts that this run followed.

    *unknown* says why a value is None, or an upper bound.
    """

    node_hours: float
    gpu_hours: float | None
    cost: float | None
    currency: str
    text: str
    unknown: str = ""


@dataclass(frozen=True, kw_only=True)
class MetricsSettled(Event):
    """The metrics as they will be gated: name → last value by step.

    *histories* holds every recorded (step, value) of the metrics that have rules, in the service's order. *tables* is what azureml-core
    logged in other forms, *more_tables* how many others there are.
    """

    job: str
    metrics: Mapping[str, float]
    histories: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)
    tables: tuple[Table, ...] = ()
    more_tables: int = 0


@dataclass(frozen=True, kw_only=True)
class RuleVerdict(Event):
    """One gate rule, written at *where* (``file:line``), was decided.

    *value* is what was compared, None where there is none; *limit* what it was compared with. *verdict* is ``met``, ``missed``, which
    misses the gate, or ``warned`` or ``skipped``, which do not. *reason* is a sentence with value, limit, its source, and by how
    much it was met or missed.
    """

    metric: str
    rule: str
    value: float | None
    limit: float | None
    verdict: Verdict
    reason: str = ""
    where: str = ""

    @property
    def met(self) -> bool:
        """Whether the rule holds."""
        return self.verdict == "met"


@dataclass(frozen=True, kw_only=True)
class StopFound(Event):
    """A rule of ``watch.stop`` was found on the job while it ran.

    *rule* is what was found, as a missed rule. *cancels* says that the job is cancelled for it. *node_hours* is None at first; at the
    job's end another event says how many hours its nodes went on for, unless it was cancelled.
    """

    job: str
    rule: RuleVerdict
    cancels: bool
    node_hours: float | None = None

    @property
    def label(self) -> str:
        """The metric, or ``job``, and the rule."""
        return f"{self.rule.metric} {self.rule.rule}"

    @property
    def effect(self) -> str:
        """What became of the job, in words."""
        went_on = "" if self.node_hours is None else f": the job went on for {self.node_hours:.4g} node hours"
        return "the job is cancelled" if self.cancels else f"only reported{went_on}"


@dataclass(frozen=True, kw_only=True)
class BaselineCompared(Event):
    """The job is compared with its baseline.

    *comparison* has the job on the left. *where* is ``file:line`` of the baseline.

    *histories* holds (step, value) of the baseline, of the metrics that are compared with it, where it is a job.
    """

    comparison: Comparison
    where: str = ""
    histories: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class ModelRegistered(Event):
    """The model's version exists; *found* where an earlier run had registered it."""

    model: str
    version: str
    found: bool


@dataclass(frozen=True, kw_only=True)
class TagChange:
    """A change of one tag of a model's version; None for no tag."""

    version: str
    tag: str
    before: str | None
    after: str | None


@dataclass(frozen=True, kw_only=True)
class PromotionDecided(Event):
    """A promotion or a rollback was decided, and nothing is changed yet.

    *previous* is the version that would leave the stage. *gate* is the verdict: ``passed``, ``none`` without rules, ``skipped``, or ``not
    asked`` for a rollback. *changes* is every tag that would change. *workspace* is the other workspace that has the stage; empty for
    the model's own.
    """

    model: str
    version: str
    stage: str
    previous: str | None
    action: Literal["promote", "rollback"]
    gate: str
    changes: tuple[TagChange, ...]
    workspace: str = ""


@dataclass(frozen=True, kw_only=True)
class ModelPromoted(Event):
    """A model version is now in *stage*; *previous* is archived.

    *action* is ``promote`` or ``rollback``.

    *change* is the id that both versions carry as the tag ``aml-train.promotion``. *workspace* is the other workspace that has the
    stage; empty for the model's own.
    """

    model: str
    version: str
    stage: str
    previous: str | None
    action: Literal["promote", "rollback"]
    actor: str
    change: str
    workspace: str = ""


@dataclass(frozen=True, kw_only=True)
class RunFinished(Event):
    """The end of the run.

    Its status word, its exit code, and everything that is known.
    """

    status: str
    exit_code: int
    message: str
    hint: str | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)


Listener = Callable[[Event], None]


def _jsonable(value: object) -> object:
    """Turn what :mod:`json` does not know into what it does."""
    if isinstance(value, datetime.datetime):
        return value.isoformat()
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, Path):
        return str(value)
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} cannot be written as JSON")


def to_json(event: Event) -> str:
    """Return *event* as one line of JSON, its name under ``event``.

    The lines of a log are one line of JSON each.

    It is ASCII: no reader finds a line's end in a text.
    """
    if isinstance(event, LogLines):
        return _log_lines(event)
    fields = {f.name: getattr(event, f.name) for f in dataclasses.fields(event)}
    return json.dumps({"event": event.name, **fields}, default=_jsonable)


def _log_lines(event: LogLines) -> str:
    known = {
        "event": "log-line",
        "at": event.at.isoformat(),
        "source": event.source,
        "origin": event.origin,
        "rank": event.rank,
    }
    *lines, last = event.text.split("\n")
    texts = [{"text": line, "more": False} for line in lines] + [{"text": last, "more": event.more}]
    return "\n".join(json.dumps({**known, **text}) for text in texts)


class Broadcast:
    """A listener that passes each event to several, one at a time from any thread."""

    def __init__(self, *listeners: Listener) -> None:
        self._listeners = listeners
        self._lock = threading.Lock()

    def __call__(self, event: Event) -> None:
        with self._lock:
            for listener in self._listeners:
                listener(event)


@contextlib.contextmanager
def report_stage(
    name: Stage, title: str, *, emit: Listener, now: Callable[[], float] = time.monotonic
) -> Iterator[list[str]]:
    """Report that a stage begins and, unless the block fails, that it ended.

    The block appends its summary, one line, to the list that it receives.
    """
    emit(StageStarted(stage=name, title=title))
    began = now()
    summary: list[str] = []
    yield summary
    emit(StageFinished(stage=name, summary=" ".join(summary), seconds=now() - began))
