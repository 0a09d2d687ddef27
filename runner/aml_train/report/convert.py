"""The sources, the gaps and the conversions of a report that is collected."""

from __future__ import annotations

import datetime
import inspect
import shlex
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final, Literal, TypeVar, cast, get_args

import msgspec

from aml_train.comparison import Project
from aml_train.core.answers import json_number
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from aml_train.core.comparison import Row, Side
from aml_train.core.errors import AmlTrainError, CancelledError
from aml_train.core.events import RuleVerdict
from aml_train.core.masking import Masker
from aml_train.core.tables import Table
from aml_train.core.tags import TAG_COMMIT, TAG_CONFIGURATION, TAG_PASSPORT
from aml_train.gate.decide import Verdict
from aml_train.jobs.workspace import JobView, ModelView, Workspace
from aml_train.models.catalogue import Catalogue
from aml_train.models.lineage import LineageStep
from aml_train.report import values
from aml_train.report.values import as_name, as_text

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry


_T = TypeVar("_T")
_ORDER: Final = {part: number for number, part in enumerate(get_args(values.Part))}


@dataclass(frozen=True, kw_only=True)
class ReportSources:
    """The services that a report is read from, and what it is made with.

    Attributes:
        service: the workspace's jobs.
        catalogue: its environments and data assets.
        registry: opens the registry of that host; None for one that is not reached.
        project: loads the project's configuration; None if there is none here.
        target: the name of the target, for the command that does the same again.
        masker: hides secrets in every text.
        clock: time.
        now: the time by the calendar.
        progress: receives the name of each part before it is read.
    """

    service: Workspace
    catalogue: Catalogue
    registry: Callable[[str], Registry | None]
    project: Callable[[], Project | None]
    target: str = ""
    masker: Masker = field(default_factory=Masker)
    clock: Clock = SYSTEM_CLOCK
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC)
    progress: Callable[[str], None] = lambda _part: None


@dataclass(frozen=True, kw_only=True)
class Other:
    """The baseline, or a further job."""

    side: Side
    role: Literal["baseline", "other"]

    @property
    def has_curves(self) -> bool:
        """Whether its job still exists; of one that is gone, last values are kept."""
        return self.side.job is not None and self.side.status is not None


class Gaps:
    """The missing parts, and remarks; a lock guards both from parallel readers."""

    def __init__(self) -> None:
        self._missing: list[values.Missing] = []
        self._notices: list[str] = []
        self._lock = threading.Lock()

    @property
    def missing(self) -> tuple[values.Missing, ...]:
        """The missing parts, in the order of the report."""
        return tuple(sorted(self._missing, key=lambda one: _ORDER[one.part]))

    @property
    def notices(self) -> tuple[str, ...]:
        """The remarks."""
        return tuple(self._notices)

    def read(self, part: values.Part, work: Callable[[], _T], otherwise: _T) -> _T:
        """Return the result of *work*; if it fails, *otherwise*, and note why."""
        try:
            return work()
        except CancelledError:
            raise
        except AmlTrainError as error:
            self.say(part, error.message)
            return otherwise

    def say(self, part: values.Part, reason: str) -> None:
        """Note what is missing in a part, and why."""
        with self._lock:
            self._missing.append(values.Missing(part=part, reason=reason))

    def note(self, text: str) -> None:
        """Add a remark."""
        with self._lock:
            self._notices.append(text)


def reproduction(view: JobView, model: ModelView | None, target: str) -> str:
    """Return the commands that do the same again; empty if they are not known. Pure."""
    where = f" --target {shlex.quote(target)}" if target else ""
    if model is not None:
        return f"aml-train model reproduce {shlex.quote(f'{model.name}:{model.version}')}{where}"
    commit, configuration = view.tags.get(TAG_COMMIT, ""), view.tags.get(TAG_CONFIGURATION, "")
    if not commit or not configuration:
        return ""
    plain, dirty, _ = commit.partition("-dirty")
    lines = [
        *(["# The files differed from this commit."] if dirty else []),
        f"git checkout {shlex.quote(plain)}",
        f"aml-train run --config {shlex.quote(configuration)} --fresh{where}",
    ]
    return "\n".join(lines)


def job_value(view: JobView, seconds: float | None) -> values.Job:
    """Return a job as a value."""
    place = view.placement
    return values.Job(
        name=view.name,
        status=view.status.value,
        kind=view.kind or "",
        experiment=view.experiment or "",
        url=view.studio_url or "",
        compute=(place.compute or place.size or "") if place is not None else "",
        created=view.created,
        started=view.started,
        ended=view.ended,
        seconds=seconds,
        error=view.error or "",
    )


def model_value(model: ModelView) -> values.Model:
    """Return a model's version as a value."""
    return values.Model(
        name=model.name,
        version=model.version,
        stage=model.staged or "",
        found=True,
        passport=model.tags.get(TAG_PASSPORT, ""),
    )


def rule_value(rule: RuleVerdict, others: Sequence[Other]) -> values.Rule:
    """Return a decided rule as a value, with the baseline's last value."""
    baseline = next((one.side.metrics.get(rule.metric) for one in others if one.role == "baseline"), None)
    return values.Rule(
        metric=rule.metric,
        rule=rule.rule,
        verdict=cast(Verdict, rule.verdict),
        value=json_number(rule.value),
        limit=json_number(rule.limit),
        baseline=json_number(baseline),
        reason=rule.reason,
        where=rule.where,
    )


def difference_value(row: Row) -> values.Difference:
    """Return a row of a comparison as a value."""
    return values.Difference(
        kind=row.kind, name=row.name, left=row.left, right=row.right, difference=row.difference, same=row.same
    )


def table_value(table: Table) -> values.Table:
    """Return a logged table as a value."""
    return values.Table(name=table.name, kind=table.kind, head=table.head, rows=table.rows, more=table.more)


def step_value(step: LineageStep) -> values.Step:
    """Return a lineage as a value."""
    return values.Step(
        kind=step.kind,
        name=step.name,
        state=step.state,
        detail=step.detail,
        parts=tuple(step_value(part) for part in step.parts),
    )


_Value = TypeVar("_Value", bound=msgspec.Struct)
_LONGEST_URL: Final = 4_000


def tidy(value: _Value, mask: Callable[[str], str], mask_name: Callable[[str], str] | None = None) -> _Value:
    """Return *value* with *mask* applied to every text, and each cut to its size; *mask_name* to computed names.

    A report that was made of a workspace has foreign texts of any length; one that was tidied can be read again.
    """
    annotations = {name: text for one in reversed(type(value).__mro__) for name, text in _annotations(one).items()}
    changes = {}
    for name in value.__struct_fields__:
        before = getattr(value, name)
        after = _tidied(before, mask, mask_name or mask, annotations[name])
        if after is not before:
            changes[name] = after
    return msgspec.structs.replace(value, **changes) if changes else value


def _annotations(type_: type) -> Mapping[str, str]:
    # As written: the modules of the values have postponed annotations.
    return {name: str(text) for name, text in inspect.get_annotations(type_).items()}


def _tidied(value: object, mask: Callable[[str], str], mask_name: Callable[[str], str], annotation: str) -> object:
    """Return one value; of a mapping, keys are names."""
    if isinstance(value, msgspec.Struct):
        return tidy(value, mask, mask_name)
    if isinstance(value, str):
        if "Literal" in annotation or "Number" in annotation or annotation == "Part":
            return value
        if annotation == "Url":
            return mask(value) if len(value) <= _LONGEST_URL else ""
        cut = as_text if "Text" in annotation else as_name
        return cut((mask_name if annotation == "Computed" else mask)(value)) if value else value
    if isinstance(value, tuple) and value and not isinstance(value[0], int | float):
        return tuple(_tidied(one, mask, mask_name, annotation) for one in value)
    if isinstance(value, dict):
        of_values = annotation.partition(",")[2].strip(" ]")
        return {as_name(mask(key)): _tidied(one, mask, mask_name, of_values) for key, one in value.items()}
    return value
