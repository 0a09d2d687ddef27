"""Choose the version to promote, and check the stage. Pure but for a notice."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.config.sections.model import StagePolicy
from aml_train.core.errors import GateFailedError, InvalidError, ServiceError
from aml_train.core.events import Listener, Notice
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView
from aml_train.models.promotion.change import ARCHIVED, NOTHING, PromotionRequest, title
from aml_train.models.promotion.record import Record

Prove = Callable[[ModelView, StagePolicy], str]
"""Returns why a version is not proved to be the branch's own, by a stage's policy; empty if it is."""

CANDIDATE: Final = "candidate"
_REASON_LENGTH: Final = 500
#: What the gate of its run says of a candidate: a first model had nothing to be compared with, and the stage decides again.
_GOOD: Final = ("passed", "skipped")
_SHOWN: Final = 8


@dataclass(frozen=True, kw_only=True)
class StageState:
    """The state of a stage when something was decided."""

    record: Record
    versions: Sequence[ModelView]
    stage: str

    @property
    def present(self) -> tuple[ModelView, ...]:
        """The versions in the stage: normally one, the newest first."""
        return tuple(version for version in self.versions if version.staged == self.stage)

    @property
    def names(self) -> tuple[str, ...]:
        """Their versions."""
        return tuple(version.version for version in self.present)

    def find(self, version: str) -> ModelView | None:
        """Return a version, or None."""
        return next((one for one in self.versions if one.version == version), None)


def wanted_stage(request: PromotionRequest) -> str:
    """Return the stage that is meant, in lower case.

    Raises:
        InvalidError: nothing is promoted to it, or the reason is too long.
    """
    stage = request.stage.lower()
    if stage == ARCHIVED:
        raise InvalidError(
            "Nothing is promoted to `archived`: a model gets there when another one takes its place.",
            hint="Name a stage such as production.",
        )
    if len(request.reason) > _REASON_LENGTH:
        raise InvalidError(f"The reason has {len(request.reason)} characters; {_REASON_LENGTH} are kept at most.")
    return stage


def choose(request: PromotionRequest, state: StageState, listener: Listener, prove: Prove) -> tuple[ModelView, str]:
    """Return the named version, else the newest passed candidate, which is reported.

    Tags of a version say what whoever registered it wrote. It counts if its job, its files and its verdict are proved to be
    the branch's own; any other is foreign.

    Args:
        prove: returns why a version is foreign; empty if it is not.

    Returns:
        the version, and why it is foreign, where that is allowed.

    Raises:
        InvalidError: there is no such version.
        GateFailedError: there is no candidate, or it is foreign.
    """
    if request.version is not None:
        found = state.find(request.version)
        if found is None:
            known = ", ".join(one.version for one in state.versions[:_SHOWN])
            raise InvalidError(
                f"There is no version {request.version} of the model {request.model}.",
                hint=f"The newest are: {known}.",
            )
        fault = prove(found, request.policy)
        if fault and not request.allow_foreign:
            raise _foreign(request, [f"{title(found)} is foreign: {fault}"])
        return found, fault
    wanted = request.policy.sources or (CANDIDATE,)
    # Without a word on it, a version that is in no stage yet is a candidate, too.
    stages = {*wanted, *(() if request.policy.sources else (None,))}
    candidates = [one for one in state.versions if one.staged in stages]
    passed = [one for one in candidates if one.tags.get(Tag.GATE) in _GOOD]
    if not passed:
        have = ", ".join(f"{one.version} ({one.staged or 'no stage'})" for one in state.versions[:_SHOWN])
        raise GateFailedError(
            f"No version of {request.model} is in {' or '.join(wanted)} and has passed the gate of its run; there are: {have}.",
            hint=f"Nothing was changed. Name a version: aml-train promote {request.model}:VERSION --to {request.stage}",
        )
    foreign: list[str] = []
    for one in passed[:_SHOWN]:
        fault = prove(one, request.policy)
        if not fault or request.allow_foreign:
            where = one.staged or "in no stage yet"
            listener(Notice(text=f"The newest candidate that passed its gate is version {one.version} ({where})."))
            return one, fault
        foreign.append(f"{title(one)} is foreign: {fault}")
        listener(Notice(text=foreign[-1], level="warning"))
    raise _foreign(request, foreign)


def _foreign(request: PromotionRequest, foreign: Sequence[str]) -> GateFailedError:
    return GateFailedError(
        f"No candidate of {request.model} is proved to be the branch's own:\n" + "\n".join(foreign),
        hint="Nothing was changed. `--allow-foreign --reason TEXT` promotes it all the same, and the record keeps both: docs/promotion.md",
    )


def check_expected(request: PromotionRequest, state: StageState) -> None:
    """Raise GateFailedError if the stage holds another version than expected."""
    expected = request.expect
    if expected is None:
        return
    if state.names != (() if expected.lower() == NOTHING else (expected,)):
        raise moved(state, "nothing" if expected.lower() == NOTHING else f"version {expected}", "expected")


def moved(state: StageState, before: str, word: str) -> GateFailedError:
    """Return the error for a stage that does not hold *before*, known by *word*."""
    now = f"version {' and '.join(state.names)}" if state.names else "nothing"
    last = next((one for one in reversed(state.record.history) if one.stage == state.stage), None)
    who = f" ({last.action} by {last.actor}, {last.at})" if last and last.version in state.names else ""
    return GateFailedError(
        f"{state.record.model}: {now} is in {state.stage} by now{who}, and not {before}, as was {word}.",
        hint="Nothing was changed. Run it again to be judged against what is there now.",
    )


def predecessor(request: PromotionRequest, state: StageState) -> ModelView:
    """Return the version that a rollback brings back.

    Raises:
        GateFailedError: the record does not say which.
        ServiceError: it is gone.
    """
    nothing = "Nothing was changed. Name the version: aml-train promote"
    if len(state.present) != 1:
        there = f"versions {', '.join(state.names)} are" if state.present else "nothing is"
        raise GateFailedError(
            f"{request.model}: {there} in {state.stage}: there is no saying what to go back to.",
            hint=f"{nothing} {request.model}:VERSION --to {state.stage}",
        )
    present = state.names[0]
    try:
        version = state.record.predecessor(state.stage, present)
    except ValueError as error:
        raise GateFailedError(
            f"{request.model}: version {present} is in {state.stage}, and by the record of promotions it should be {error}:"
            " something else changed the stage.",
            hint=f"{nothing} {request.model}:VERSION --to {state.stage}",
        ) from error
    if version is None:
        raise GateFailedError(
            f"{request.model}: nothing was in {state.stage} before version {present}.",
            hint=f"{nothing} {request.model}:VERSION --to {state.stage}",
        )
    found = state.find(version)
    if found is None:
        raise ServiceError(f"Version {version} of {request.model}, which was in {state.stage} before, is gone.")
    return found


def check_source(request: PromotionRequest, chosen: ModelView) -> None:
    """Raise GateFailedError if the version's own stage may not lead to this one."""
    sources = request.policy.sources
    if sources and chosen.staged not in sources:
        raise GateFailedError(
            f"{title(chosen)} is in {chosen.staged or 'no stage'}, and a model gets to {request.stage} from"
            f" {' or '.join(sources)} only ({request.policy.where}).",
            hint="Nothing was changed. Promote it to that stage first.",
        )
