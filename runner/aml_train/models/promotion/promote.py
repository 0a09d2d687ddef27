"""Promote and roll back: move a model's version into a stage.

Versions are judged again, one at a time; an interrupted change is finished by the next run.

The versions' tags say who is where; only tags change, never a version's files. The order is: decide, lock, look again, write down what
will be done, tag the new one, tag the old one, look, write down that it was done. A run that finds a change
written down and not done does it, and is then judged against it.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace

from aml_train.config.sections.gate import BaselineConfig
from aml_train.core import events
from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, GateFailedError, InvalidError
from aml_train.gate.decide import Decision, GateResult
from aml_train.gate.history import series_of
from aml_train.jobs.workspace import ModelView, Workspace
from aml_train.models.catalogue import Catalogue, LockedRecord, PromotionStore, no_model
from aml_train.models.lineage import LineageStep, Tracer
from aml_train.models.passport.values import Verification
from aml_train.models.promotion.change import (
    Confirm,
    Promotion,
    PromotionRequest,
    apply,
    decoded,
    finish,
    new_change,
    place_of,
    proposal,
    title,
)
from aml_train.models.promotion.choose import (
    Prove,
    StageState,
    check_expected,
    check_source,
    choose,
    moved,
    predecessor,
    wanted_stage,
)
from aml_train.models.promotion.crossing import Crossing
from aml_train.models.promotion.record import Change, Record, encode

Evaluate = Callable[..., GateResult]
"""The pipeline's evaluation of a job: :func:`aml_train.pipeline.evaluate.evaluate`."""


@dataclass(frozen=True, kw_only=True)
class Promoter:
    """Promotes and rolls back in one workspace.

    Attributes:
        prove: returns why a version is not proved to be the branch's own; empty if it is.
        verify: verifies a version's passport, for stages that demand one; None if no policy is configured.
        workspace: the name of the workspace, if it is another one than that of the models; else empty.
        crossing: the way to the workspace that has the stages; None for this one.
        there: what promotes in that workspace; None for this one.
    """

    service: Workspace
    catalogue: Catalogue
    store: PromotionStore
    tracer: Tracer
    evaluate: Evaluate
    clock: Clock
    listener: events.Listener
    prove: Prove
    verify: Callable[[ModelView], Verification] | None = None
    workspace: str = ""
    crossing: Crossing | None = None
    there: Promoter | None = None

    def promote(self, request: PromotionRequest, confirm: Confirm | None = None) -> Promotion:
        """Have a version in a stage, if it meets what the stage asks for.

        Everything is decided and reported before *confirm* is called, and before anything is changed.

        Raises:
            CancelledError: *confirm* returned False. Nothing is changed.
            GateFailedError: it does not meet the gate or comes from the wrong stage, its lineage is broken, its passport does not
                show what the stage demands, or another version got into the stage meanwhile. Nothing is changed.
            InvalidError: the request cannot be understood, or there is no such version.
            ServiceError: the service or the storage refuses or does not answer.
        """
        stage = wanted_stage(request)
        if request.allow_foreign and not request.reason:
            raise InvalidError("`--allow-foreign` needs a reason, which the record keeps.", hint="Add --reason TEXT.")
        where, crossing = self.there or self, self.crossing
        state = where._settled_state(request, stage, confirm, empty=crossing is not None)
        own = state if crossing is None else self._state(request.model, stage)
        if not own.versions:
            raise no_model(self.catalogue, request.model)
        chosen, foreign = choose(request, own, self.listener, self.prove)
        copy = chosen if crossing is None else crossing.find(chosen, state.versions)
        entering = copy or (crossing.planned(chosen, state.versions) if crossing is not None else chosen)
        result = Promotion(
            action="promote",
            status="dry-run",
            model=entering,
            stage=stage,
            workspace=where.workspace,
            source=chosen.version if crossing is not None else None,
        )
        if copy is not None and state.names == (copy.version,):
            self.listener(events.Notice(text=f"{title(chosen)} is in {place_of(stage, where.workspace)} already."))
            if crossing is not None:
                crossing.check(copy)
                self._note_earlier(request, state, chosen, copy)
            return replace(result, status="unchanged")
        check_expected(request, state)
        check_source(request, chosen)
        previous = [one for one in state.present if one.version != entering.version]
        lineage = self._trace(chosen)
        if lineage.broken:
            raise GateFailedError(
                f"The lineage of {title(chosen)} is broken: {'; '.join(lineage.broken)}",
                hint="Nothing was changed. See: aml-train model lineage; train it again, or promote another version.",
            )
        if foreign:
            text = f"{title(chosen)} is foreign, and is promoted all the same: {foreign}"
            self.listener(events.Notice(text=text, level="warning"))
        self._demand(request, chosen)
        decision = self._decide(request, chosen, self._originals(request, previous, own))
        source = None if crossing is None else crossing.id_of(chosen)
        change = new_change(request, "promote", entering, previous, lineage, decision, foreign, source)
        result = replace(
            result,
            previous=change.previous[0] if change.previous else None,
            decision=decision,
            lineage=lineage,
        )
        return self._carry_out(request, change, state, chosen, result, confirm)

    def rollback(self, request: PromotionRequest, confirm: Confirm | None = None) -> Promotion:
        """Have the version in a stage again that was there before the present one.

        A second rollback goes one further back. Rules are not decided again: that version met them, and this is for emergencies.

        Raises:
            CancelledError: *confirm* returned False. Nothing is changed.
            GateFailedError: no record says which version that is, or another one got into the stage meanwhile. Nothing is changed.
            InvalidError: the request cannot be understood.
            ServiceError: that version is gone, or the service or the storage refuses or does not answer.
        """
        if self.there is not None:
            return self.there.rollback(request, confirm)
        stage = wanted_stage(request)
        state = self._settled_state(request, stage, confirm)
        check_expected(request, state)
        chosen = predecessor(request, state)
        lineage = self._trace(chosen)
        if lineage.broken:
            text = f"The lineage of {title(chosen)} is broken: {'; '.join(lineage.broken)}"
            self.listener(events.Notice(text=text, level="warning"))
        change = new_change(request, "rollback", chosen, state.present, lineage, None)
        result = Promotion(
            action="rollback",
            status="dry-run",
            model=chosen,
            stage=stage,
            previous=change.previous[0],
            lineage=lineage,
            workspace=self.workspace,
        )
        return self._carry_out(request, change, state, chosen, result, confirm)

    def record(self, model: str) -> Record:
        """Return what is written down of a model's promotions.

        Raises:
            ServiceError: it cannot be read.
        """
        return decoded(self.store.read(model), model)

    def _state(self, model: str, stage: str) -> StageState:
        return StageState(record=self.record(model), versions=self.service.models(model), stage=stage)

    def _originals(
        self, request: PromotionRequest, previous: Sequence[ModelView], own: StageState
    ) -> Sequence[ModelView]:
        """Return the versions of this workspace that *previous*, those in the stage, are.

        Raises:
            GateFailedError: the stage is in another workspace, and has something that did not come from here, to which rules compare.
        """
        if self.crossing is None or not previous:
            return previous
        original = self.crossing.original(previous[0], own.versions)
        if original is None and any(rule.rule.needs_baseline for rule in request.policy.rules):
            place = place_of(request.stage.lower(), self.crossing.workspace)
            raise GateFailedError(
                f"{title(previous[0])} is in {place}, and is no copy of a version here: its metrics are not known"
                f" ({request.policy.where}).",
                hint="Nothing was changed. A gate without `baseline` decides without it.",
            )
        return [original] if original is not None else []

    def _settled_state(
        self, request: PromotionRequest, stage: str, confirm: Confirm | None, *, empty: bool = False
    ) -> StageState:
        """Return the state, after finishing an interrupted change; a dry run reports it.

        With *empty*, there need not be a model of that name yet.
        """
        state = self._state(request.model, stage)
        if not state.versions and empty:
            return state
        if not state.versions:
            raise no_model(self.catalogue, request.model)
        if state.record.pending is None:
            return state
        if request.dry_run:
            unfinished = f"The {state.record.pending.action} of version {state.record.pending.version}"
            self.listener(
                events.Notice(text=f"{unfinished} is not finished; a run that changes something finishes it first.")
            )
            return state
        begun = state.record.pending
        _ask(
            confirm,
            f"Finish the {begun.action} of version {begun.version} to {begun.stage}, which {begun.actor} began {begun.at}?",
        )
        # A run that is still at it holds the lock, and ends the change itself.
        with self.store.hold(request.model) as held:
            finish(self.service, self.catalogue, held, request, self.listener)
        return self._state(request.model, stage)

    def _trace(self, model: ModelView) -> LineageStep:
        with self._stage("lineage", f"Look up the lineage of {title(model)}") as summary:
            lineage = self.tracer.trace(model)
            summary.append(lineage.summary)
            for step in lineage.walk():
                if step.state == "unknown":
                    self.listener(events.Notice(text=f"{step.kind} {step.name}: {step.detail}", level="warning"))
        return lineage

    def _demand(self, request: PromotionRequest, chosen: ModelView) -> None:
        """Verify the version's passport, if the stage demands one."""
        policy = request.policy
        if not policy.require:
            return
        if self.verify is None:
            raise InvalidError(
                f"`promote.{request.stage}.require` needs `passport.policy` ({policy.where}).",
                hint="Name a policy file with the public keys or identities that may sign: docs/passport.md",
            )
        with self._stage("lineage", f"Verify the passport of {title(chosen)}") as summary:
            found = self.verify(chosen)
            if faults := found.faults(policy.require):
                raise GateFailedError(
                    f"The passport of {title(chosen)} does not show what {request.stage} demands ({policy.where}):\n"
                    + "\n".join(faults),
                    hint=f"Nothing was changed. See: aml-train verify {chosen.name}:{chosen.version}",
                )
            summary.append(f"signed by {found.signer}" if found.signer else "nothing is refused")

    def _decide(self, request: PromotionRequest, chosen: ModelView, previous: Sequence[ModelView]) -> Decision:
        policy = request.policy
        if not policy.rules:
            self.listener(
                events.Notice(text=f"No rules are given for {request.stage}: nothing is decided.", level="warning")
            )
        against = f"version {previous[0].version}" if previous else "an empty stage"
        with self._stage("gate", f"Decide the gate of {title(chosen)} against {against}") as summary:
            baseline = BaselineConfig(
                model=request.model,
                version=previous[0].version if previous else None,
                # A stage of another workspace may have a namesake here, which is no baseline.
                stage=None if previous else place_of(request.stage.lower(), (self.there or self).workspace),
                bootstrap=policy.bootstrap,
                data=policy.data,
                where=policy.where or "promote",
            )
            # A lineage without a job is broken, and has ended the promotion by now.
            job = chosen.origin or ""
            gated = self.evaluate(self.service, job, policy.rules, baseline, clock=self.clock)
            self.listener(events.MetricsSettled(job=job, metrics=gated.metrics, histories=series_of(gated.histories)))
            if gated.comparison is not None:
                self.listener(events.BaselineCompared(comparison=gated.comparison, where=baseline.where))
            for event in gated.decision.rules:
                self.listener(event)
            if not gated.decision.met:
                lines = [f"{rule.reason} ({rule.where})" for rule in gated.decision.missed]
                raise GateFailedError(
                    f"{title(chosen)} does not meet the gate of {request.stage}: " + "\n".join(lines),
                    hint="Nothing was changed.",
                )
            summary.append(gated.decision.summary)
        return gated.decision

    def _carry_out(
        self,
        request: PromotionRequest,
        change: Change,
        state: StageState,
        chosen: ModelView,
        result: Promotion,
        confirm: Confirm | None,
    ) -> Promotion:
        """Change the stage as was decided: *chosen*, or its copy in the workspace that has the stage, gets into it."""
        where, crossing, model = self.there or self, self.crossing, request.model
        known = state.versions if state.find(change.version) is not None else [*state.versions, result.model]
        self.listener(proposal(change, known, result.workspace))
        if request.dry_run:
            return result
        place = place_of(change.stage, result.workspace)
        _ask(confirm, question(change, model, place, chosen))
        if crossing is not None:
            with self._stage("promote", f"Copy {title(chosen)} to the workspace {crossing.workspace}") as summary:
                copy = crossing.bring(chosen)
                change = replace(change, version=copy.version, path=copy.path)
                summary.append(f"{title(copy)}, image {change.digest or 'of the job'}")
        with self._stage("promote", f"Put {title(chosen)} into {place}") as summary, contextlib.ExitStack() as locks:
            own = locks.enter_context(self.store.hold(model)) if crossing is not None else None
            held = locks.enter_context(where.store.hold(model))
            finish(where.service, where.catalogue, held, request, self.listener)
            now = StageState(
                record=decoded(held.read(), model), versions=where.service.models(model), stage=change.stage
            )
            if now.names != state.names or now.record.revision != state.record.revision:
                there = f"version {' and '.join(state.names)}" if state.names else "nothing"
                raise moved(now, there, "decided against")
            if own is not None:
                self._check_unmoved(chosen)
            record = now.record.begun(change)
            held.write(encode(record))
            apply(where.service, where.catalogue, held, model, change)
            held.write(encode(record.ended()))
            if own is not None:
                _note(own, model, _as_of(change, chosen))
            summary.append(f"version {result.previous} is archived" if result.previous else "the stage was empty")
        self.listener(
            events.ModelPromoted(
                model=model,
                version=change.version,
                stage=change.stage,
                previous=result.previous,
                action=change.action,
                actor=change.actor,
                change=change.id,
                workspace=result.workspace,
            )
        )
        view = where.catalogue.version(model, change.version) or result.model
        return replace(result, status="changed", model=view, change=change.id)

    def _check_unmoved(self, chosen: ModelView) -> None:
        """Raise GateFailedError if *chosen*, which stays in this workspace, got into another stage since it was chosen."""
        now = self.catalogue.version(chosen.name, chosen.version)
        if now is None or now.staged != chosen.staged:
            present = "gone" if now is None else f"in {now.staged or 'no stage'}"
            raise GateFailedError(
                f"{title(chosen)} was in {chosen.staged or 'no stage'} when it was chosen, and is {present} by now.",
                hint="Nothing was changed. Run it again to be judged by what is there now.",
            )

    def _note_earlier(self, request: PromotionRequest, state: StageState, chosen: ModelView, copy: ModelView) -> None:
        """Write down here what a promotion did in the other workspace, if it ended before it could."""
        done = [one for one in state.record.history if one.stage == state.stage and one.version == copy.version]
        if request.dry_run or not done or done[-1].source is None:
            return
        noted = _as_of(done[-1], chosen)
        if all(one.id != noted.id for one in self.record(request.model).history):
            with self.store.hold(request.model) as own:
                _note(own, request.model, replace(noted, finished_by=request.actor))

    def _stage(self, name: events.Stage, title: str) -> AbstractContextManager[list[str]]:
        return events.report_stage(name, title, emit=self.listener, now=self.clock.now)


def question(change: Change, model: str, place: str, chosen: ModelView) -> str:
    """Return the question whether to do what was decided, with the decision in short."""
    archived = f", and archive version {change.previous[0]}" if change.previous else ""
    if change.action == "rollback":
        return f"Roll {model} in {place} back to version {change.version}{archived}?"
    return f"Promote {title(chosen)} to {place} (gate: {change.gate}){archived}?"


def _as_of(change: Change, chosen: ModelView) -> Change:
    """Return a change in another workspace as the record of *chosen*, of which a copy got into a stage, has it."""
    to = f"{change.path} (version {change.version})"
    return replace(change, version=chosen.version, previous=(), path=chosen.path, source=None, to=to)


def _note(held: LockedRecord, model: str, change: Change) -> None:
    """Write down a change of another workspace, unless it is."""
    record = decoded(held.read(), model)
    if all(one.id != change.id for one in record.history):
        held.write(encode(record.noted(change)))


def _ask(confirm: Confirm | None, text: str) -> None:
    if confirm is not None and not confirm(text):
        raise CancelledError("Not confirmed: nothing was changed.")
