"""Move a model's version into a stage, and the one that is there out of it: judged anew, one at a time, and finished if interrupted.

The versions' tags say who is where; only tags change, never a version's files. The order is: decide, lock, look again, write down what
will be done, tag the new one, tag the old one, look, write down that it was done. Whoever finds something written down that was not
done does it, and is then judged against it.
"""

from __future__ import annotations

import contextlib
import datetime
import secrets
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.config.model import BaselineConfig
from aml_train.errors import GateFailedError, InvalidError, ServiceError
from aml_train.events import (
    Listener,
    MetricsSettled,
    ModelPromoted,
    Notice,
    RuleDecided,
    Stage,
    StageFinished,
    StageStarted,
)
from aml_train.gate.decide import Decision
from aml_train.gating import decide_gate
from aml_train.jobs.clock import Clock
from aml_train.jobs.job import TAG_GATE, TAG_STAGE
from aml_train.jobs.service import JobService, ModelView
from aml_train.models import TAG_JOB
from aml_train.promotion.catalogue import Catalogue
from aml_train.promotion.lineage import Step, Tracer
from aml_train.promotion.record import Action, Change, Record, decode, encode
from aml_train.promotion.request import NOTHING, Promotion, Request
from aml_train.promotion.store import Held, PromotionStore

ARCHIVED: Final = "archived"
CANDIDATE: Final = "candidate"
TAG_CHANGE: Final = "aml-train.promotion"
TAG_AT: Final = "aml-train.promoted-at"
TAG_BY: Final = "aml-train.promoted-by"
TAG_REASON: Final = "aml-train.promotion-reason"
TAG_RUN: Final = "aml-train.promotion-run"
TAG_AFTER: Final = "aml-train.promoted-after"
TAG_ARCHIVED_AT: Final = "aml-train.archived-at"
TAG_ARCHIVED_BY: Final = "aml-train.archived-by"
TAG_REPLACED: Final = "aml-train.replaced-by"
#: Tags of AzureML's runs are so long at most (https://learn.microsoft.com/azure/machine-learning/resource-limits-capacity); of models
#: the page says nothing.
_TAG_LENGTH: Final = 1000
_METRIC_PAUSE: Final = 0.05
_REASON_LENGTH: Final = 500
_SHOWN: Final = 8


@dataclass(frozen=True, kw_only=True)
class _Look:
    """What was there when something was decided."""

    record: Record
    versions: Sequence[ModelView]
    stage: str

    @property
    def present(self) -> tuple[ModelView, ...]:
        """The versions in the stage: normally one, the newest first."""
        return tuple(version for version in self.versions if version.staged == self.stage)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(version.version for version in self.present)

    def find(self, version: str) -> ModelView | None:
        return next((one for one in self.versions if one.version == version), None)


@dataclass(frozen=True, kw_only=True)
class Promoter:
    """Promotes and rolls back in one workspace.

    Attributes:
        service: the workspace's jobs and models.
        catalogue: changes tags.
        store: locks, and keeps the records.
        tracer: looks lineages up.
        clock: time.
        listener: is told everything that happens.
    """

    service: JobService
    catalogue: Catalogue
    store: PromotionStore
    tracer: Tracer
    clock: Clock
    listener: Listener

    def promote(self, request: Request) -> Promotion:
        """Have a version in a stage, if it meets what the stage asks for.

        Raises:
            GateFailedError: it does not meet the gate or comes from the wrong stage, its lineage is broken, or another version got
                into the stage meanwhile. Nothing is changed.
            InvalidError: the request cannot be understood.
            ServiceError: there is no such version, or the service or the storage refuses or does not answer.
        """
        stage = self._checked(request)
        look = self._settled_look(request, stage)
        chosen = self._choose(request, look)
        if look.names == (chosen.version,):
            self.listener(Notice(text=f"{_name(chosen)} is in {stage} already."))
            return Promotion(action="promote", status="unchanged", model=chosen, stage=stage)
        self._check_expected(request, look)
        _check_source(request, chosen)
        previous = [one for one in look.present if one.version != chosen.version]
        lineage = self._trace(chosen)
        if lineage.broken:
            raise GateFailedError(
                f"The lineage of {_name(chosen)} is broken: {_sentences(lineage)}",
                hint="Nothing was changed. See: aml-train model lineage; train it again, or promote another version.",
            )
        decision = self._decide(request, chosen, previous)
        change = _change(request, "promote", chosen, previous, lineage, decision)
        return self._carry_out(request, change, look, chosen, decision=decision, lineage=lineage)

    def rollback(self, request: Request) -> Promotion:
        """Have the version in a stage again that was there before the present one.

        A second rollback goes one further back. Rules are not decided anew: that version met them, and this is for emergencies.

        Raises:
            GateFailedError: no record says which version that is, or another one got into the stage meanwhile. Nothing is changed.
            InvalidError: the request cannot be understood.
            ServiceError: that version is gone, or the service or the storage refuses or does not answer.
        """
        stage = self._checked(request)
        look = self._settled_look(request, stage)
        self._check_expected(request, look)
        chosen = self._predecessor(request, look)
        lineage = self._trace(chosen)
        if lineage.broken:
            text = f"The lineage of {_name(chosen)} is broken: {_sentences(lineage)}"
            self.listener(Notice(text=text, level="warning"))
        change = _change(request, "rollback", chosen, look.present, lineage, None)
        return self._carry_out(request, change, look, chosen, decision=None, lineage=lineage)

    def record(self, model: str) -> Record:
        """Return what is written down of a model's promotions.

        Raises:
            ServiceError: it cannot be read.
        """
        return _decoded(self.store.read(model), model)

    def _checked(self, request: Request) -> str:
        stage = request.stage.lower()
        if stage == ARCHIVED:
            raise InvalidError(
                "Nothing is promoted to `archived`: a model gets there when another one takes its place.",
                hint="Name a stage such as production.",
            )
        if len(request.reason) > _REASON_LENGTH:
            raise InvalidError(f"The reason has {len(request.reason)} characters; {_REASON_LENGTH} are kept at most.")
        return stage

    def _look(self, model: str, stage: str) -> _Look:
        return _Look(record=self.record(model), versions=self.service.models(model), stage=stage)

    def _settled_look(self, request: Request, stage: str) -> _Look:
        """Look, once what somebody left half-done has been finished; a dry run only tells of it."""
        look = self._look(request.model, stage)
        if not look.versions:
            raise ServiceError(
                f"There is no model {request.model} in the workspace.", hint="See: aml-train model list"
            )
        if look.record.pending is None:
            return look
        if request.dry_run:
            unfinished = f"The {look.record.pending.action} of version {look.record.pending.version}"
            self.listener(
                Notice(text=f"{unfinished} is not finished; a run that changes something finishes it first.")
            )
            return look
        # Whoever is at it still holds the lock, and ends it by itself.
        with self.store.hold(request.model) as held:
            self._finish(held, request)
        return self._look(request.model, stage)

    def _choose(self, request: Request, look: _Look) -> ModelView:
        if request.version is not None:
            found = look.find(request.version)
            if found is None:
                known = ", ".join(one.version for one in look.versions[:_SHOWN])
                raise ServiceError(
                    f"There is no version {request.version} of the model {request.model}.",
                    hint=f"The newest are: {known}.",
                )
            return found
        wanted = request.policy.sources or (CANDIDATE,)
        # Without a word on it, a version that is in no stage yet is a candidate, too.
        stages = {*wanted, *(() if request.policy.sources else (None,))}
        candidates = [one for one in look.versions if one.staged in stages]
        passed = [one for one in candidates if one.tags.get(TAG_GATE) == "passed"]
        if not passed:
            have = ", ".join(f"{one.version} ({one.staged or 'no stage'})" for one in look.versions[:_SHOWN])
            raise GateFailedError(
                f"No version of {request.model} is in {' or '.join(wanted)} and has passed the gate of its run; there are: {have}.",
                hint=f"Nothing was changed. Name a version: aml-train promote {request.model}:VERSION --to {request.stage}",
            )
        where = passed[0].staged or "in no stage yet"
        self.listener(
            Notice(text=f"The newest candidate that passed its gate is version {passed[0].version} ({where}).")
        )
        return passed[0]

    def _check_expected(self, request: Request, look: _Look) -> None:
        expected = request.expect
        if expected is None:
            return
        if look.names != (() if expected.lower() == NOTHING else (expected,)):
            raise self._moved(look, "nothing" if expected.lower() == NOTHING else f"version {expected}", "expected")

    def _moved(self, look: _Look, before: str, word: str) -> GateFailedError:
        now = f"version {' and '.join(look.names)}" if look.names else "nothing"
        last = next((one for one in reversed(look.record.history) if one.stage == look.stage), None)
        who = f" ({last.action} by {last.actor}, {last.at})" if last and last.version in look.names else ""
        return GateFailedError(
            f"{look.record.model}: {now} is in {look.stage} by now{who}, and not {before}, as was {word}.",
            hint="Nothing was changed. Run it again to be judged against what is there now.",
        )

    def _predecessor(self, request: Request, look: _Look) -> ModelView:
        nothing = "Nothing was changed. Name the version: aml-train promote"
        if len(look.present) != 1:
            there = f"versions {', '.join(look.names)} are" if look.present else "nothing is"
            raise GateFailedError(
                f"{request.model}: {there} in {look.stage}: there is no saying what to go back to.",
                hint=f"{nothing} {request.model}:VERSION --to {look.stage}",
            )
        present = look.names[0]
        try:
            version = look.record.predecessor(look.stage, present)
        except ValueError as error:
            raise GateFailedError(
                f"{request.model}: version {present} is in {look.stage}, and by the record of promotions it should be {error}:"
                " something else changed the stage.",
                hint=f"{nothing} {request.model}:VERSION --to {look.stage}",
            ) from error
        if version is None:
            raise GateFailedError(
                f"{request.model}: nothing was in {look.stage} before version {present}.",
                hint=f"{nothing} {request.model}:VERSION --to {look.stage}",
            )
        found = look.find(version)
        if found is None:
            raise ServiceError(f"Version {version} of {request.model}, which was in {look.stage} before, is gone.")
        return found

    def _trace(self, model: ModelView) -> Step:
        with self._told("lineage", f"Look the lineage of {_name(model)} up") as summary:
            lineage = self.tracer.trace(model)
            states = [step.state for step in lineage.walk()]
            words = [f"{states.count(state)} {state}" for state in ("verified", "recorded", "unknown", "broken")]
            summary.append(", ".join(word for word in words if not word.startswith("0 ")))
            for step in lineage.walk():
                if step.state == "unknown":
                    self.listener(Notice(text=f"{step.kind} {step.name}: {step.detail}", level="warning"))
        return lineage

    def _decide(self, request: Request, chosen: ModelView, previous: Sequence[ModelView]) -> Decision:
        policy = request.policy
        if not policy.rules:
            self.listener(
                Notice(text=f"No rules are given for {request.stage}: nothing is decided.", level="warning")
            )
        against = f"version {previous[0].version}" if previous else "an empty stage"
        with self._told("gate", f"Decide the gate of {_name(chosen)} against {against}") as summary:
            baseline = BaselineConfig(
                model=request.model,
                version=previous[0].version if previous else None,
                stage=None if previous else request.stage.lower(),
                bootstrap=policy.bootstrap,
                where=policy.where or "promote",
            )
            job = chosen.tags[TAG_JOB]
            gated = decide_gate(self.service, job, policy.rules, baseline, clock=self.clock, pause=_METRIC_PAUSE)
            points = {name: [(one.step, one.value) for one in found] for name, found in gated.histories.items()}
            self.listener(MetricsSettled(job=job, metrics=gated.last, histories=points))
            for rule in gated.decision.rules:
                self.listener(
                    RuleDecided(
                        metric=rule.metric,
                        rule=rule.rule.text,
                        value=rule.value,
                        limit=rule.limit,
                        met=rule.met,
                        verdict=rule.verdict,
                        reason=rule.reason,
                        where=rule.where,
                    )
                )
            if not gated.decision.met:
                lines = [f"{rule.reason} ({rule.where})" for rule in gated.decision.missed]
                raise GateFailedError(
                    f"{_name(chosen)} does not meet the gate of {request.stage}: " + "\n".join(lines),
                    hint="Nothing was changed.",
                )
            summary.append(gated.decision.summary)
        return gated.decision

    def _carry_out(
        self,
        request: Request,
        change: Change,
        look: _Look,
        chosen: ModelView,
        *,
        decision: Decision | None,
        lineage: Step,
    ) -> Promotion:
        previous = change.previous[0] if change.previous else None
        result = Promotion(
            action=change.action,
            status="dry-run",
            model=chosen,
            stage=change.stage,
            previous=previous,
            decision=decision,
            lineage=lineage,
        )
        if request.dry_run:
            return result
        with self._told("promote", f"Put {_name(chosen)} into {change.stage}") as summary:
            with self.store.hold(request.model) as held:
                self._finish(held, request)
                now = _Look(
                    record=_decoded(held.read(), request.model),
                    versions=self.service.models(request.model),
                    stage=change.stage,
                )
                if now.names != look.names or now.record.revision != look.record.revision:
                    there = f"version {' and '.join(look.names)}" if look.names else "nothing"
                    raise self._moved(now, there, "decided against")
                record = now.record.begun(change)
                held.write(encode(record))
                self._apply(held, request.model, change)
                held.write(encode(record.ended()))
            summary.append(f"version {previous} is archived" if previous else "the stage was empty")
        self.listener(
            ModelPromoted(
                model=request.model,
                version=chosen.version,
                stage=change.stage,
                previous=previous,
                action=change.action,
                actor=change.actor,
                change=change.id,
            )
        )
        view = self.catalogue.version(request.model, chosen.version) or chosen
        return Promotion(
            action=change.action,
            status="changed",
            model=view,
            stage=change.stage,
            previous=previous,
            decision=decision,
            lineage=lineage,
            change=change.id,
        )

    def _apply(self, held: Held, model: str, change: Change) -> None:
        """Change the tags as *change* says; again where some of it was done already. The lock is renewed before each write."""
        tags: dict[str, str | None] = {
            TAG_STAGE: change.stage,
            TAG_CHANGE: change.id,
            TAG_AT: change.at,
            TAG_BY: change.actor[:_TAG_LENGTH],
            TAG_REASON: change.reason[:_TAG_LENGTH] or None,
            TAG_RUN: change.run_url,
            TAG_AFTER: change.previous[0] if change.previous else None,
            TAG_ARCHIVED_AT: None,
            TAG_ARCHIVED_BY: None,
            TAG_REPLACED: None,
        }
        self.catalogue.change_tags(model, change.version, tags, guard=held.renew)
        for version in change.previous:
            archived = {
                TAG_STAGE: ARCHIVED,
                TAG_ARCHIVED_AT: change.at,
                TAG_ARCHIVED_BY: change.actor[:_TAG_LENGTH],
                TAG_REPLACED: change.version,
            }
            self.catalogue.change_tags(model, version, archived, guard=held.renew)
        held.renew()
        there = [one.version for one in self.service.models(model) if one.staged == change.stage]
        if there != [change.version]:
            raise ServiceError(
                f"{model}: after the {change.action} of version {change.version}, {change.stage} holds {there}:"
                " something else changes the tags at the same time.",
                hint="Run it again: it finishes what was begun.",
                transient=True,
            )

    def _finish(self, held: Held, request: Request) -> None:
        """Do what was written down and not done, or strike it out where things are not as they were."""
        record = _decoded(held.read(), request.model)
        change = record.pending
        if change is None:
            return
        title = f"the {change.action} of version {change.version} to {change.stage}, which {change.actor} began {change.at}"
        versions = {one.version: one for one in self.service.models(request.model)}
        there = {name for name, one in versions.items() if one.staged == change.stage}
        known = [name for name in change.previous if name in versions]
        new = versions.get(change.version)
        fits = new is not None and new.path == change.path and len(known) == len(change.previous)
        expected = there <= {change.version, *change.previous} and bool(there or not change.previous)
        if not fits or not expected:
            held.write(encode(record.abandoned()))
            text = f"Struck out {title}, and did not finish: the stage was changed by something else since."
            self.listener(Notice(text=text, level="warning"))
            return
        self._apply(held, request.model, change)
        held.write(encode(record.ended(finished_by=request.actor)))
        self.listener(Notice(text=f"Finished {title} and did not finish.", level="warning"))

    @contextlib.contextmanager
    def _told(self, name: Stage, title: str) -> Iterator[list[str]]:
        """Report a stage. The block puts its summary, one line, into the list that it is given."""
        self.listener(StageStarted(stage=name, title=title))
        began = self.clock.now()
        summary: list[str] = []
        yield summary
        self.listener(StageFinished(stage=name, summary=" ".join(summary), seconds=self.clock.now() - began))


def _name(model: ModelView) -> str:
    return f"{model.name} version {model.version}"


def _sentences(lineage: Step) -> str:
    return "; ".join(f"{step.kind} {step.name}: {step.detail}" for step in lineage.broken)


def _check_source(request: Request, chosen: ModelView) -> None:
    sources = request.policy.sources
    if sources and chosen.staged not in sources:
        raise GateFailedError(
            f"{_name(chosen)} is in {chosen.staged or 'no stage'}, and a model gets to {request.stage} from"
            f" {' or '.join(sources)} only ({request.policy.where}).",
            hint="Nothing was changed. Promote it to that stage first.",
        )


def _decoded(content: bytes, model: str) -> Record:
    try:
        return decode(content, model)
    except (ValueError, TypeError) as error:
        raise ServiceError(
            f"The record of {model}'s promotions (aml-train/promotion/{model}.json in the workspace's default datastore)"
            f" cannot be read: {error}",
            hint="Restore it, or delete the blob: stages stay as the models' tags say, and only rollbacks lose their way.",
        ) from error


def _change(
    request: Request,
    action: Action,
    chosen: ModelView,
    present: Sequence[ModelView],
    lineage: Step,
    decision: Decision | None,
) -> Change:
    verdict = "not asked" if decision is None else "passed" if decision.rules else "none"
    image = next((step.name for step in lineage.walk() if step.kind == "image"), None)
    return Change(
        id=secrets.token_hex(8),
        action=action,
        stage=request.stage.lower(),
        version=chosen.version,
        previous=tuple(one.version for one in present if one.version != chosen.version),
        came_from=chosen.staged,
        path=chosen.path,
        digest=image,
        actor=request.actor,
        reason=request.reason,
        at=datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        run_url=request.run_url,
        gate=verdict,
        rules=tuple(rule.reason for rule in decision.rules) if decision is not None else (),
    )
