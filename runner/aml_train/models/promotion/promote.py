"""Promote and roll back: move a model's version into a stage.

Versions are judged again, one at a time; an interrupted change is finished by the next run.

The versions' tags say who is where; only tags change, never a version's files. The order is: decide, lock, look again, write down what
will be done, tag the new one, tag the old one, look, write down that it was done. A run that finds a change
written down and not done does it, and is then judged against it.
"""

from __future__ import annotations

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
from aml_train.models.catalogue import Catalogue, PromotionStore, no_model
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
from aml_train.models.promotion.record import Change, Record, encode

Evaluate = Callable[..., GateResult]
"""The pipeline's evaluation of a job: :func:`aml_train.pipeline.evaluate.evaluate`."""


@dataclass(frozen=True, kw_only=True)
class Promoter:
    """Promotes and rolls back in one workspace.

    Attributes:
        prove: returns why a version is not proved to be the branch's own; empty if it is.
        verify: verifies a version's passport, for stages that demand one; None if no policy is configured.
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
        state = self._settled_state(request, stage, confirm)
        chosen, foreign = choose(request, state, self.listener, self.prove)
        if state.names == (chosen.version,):
            self.listener(events.Notice(text=f"{title(chosen)} is in {stage} already."))
            return Promotion(action="promote", status="unchanged", model=chosen, stage=stage)
        check_expected(request, state)
        check_source(request, chosen)
        previous = [one for one in state.present if one.version != chosen.version]
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
        decision = self._decide(request, chosen, previous)
        change = new_change(request, "promote", chosen, previous, lineage, decision, foreign)
        return self._carry_out(request, change, state, chosen, decision=decision, lineage=lineage, confirm=confirm)

    def rollback(self, request: PromotionRequest, confirm: Confirm | None = None) -> Promotion:
        """Have the version in a stage again that was there before the present one.

        A second rollback goes one further back. Rules are not decided again: that version met them, and this is for emergencies.

        Raises:
            CancelledError: *confirm* returned False. Nothing is changed.
            GateFailedError: no record says which version that is, or another one got into the stage meanwhile. Nothing is changed.
            InvalidError: the request cannot be understood.
            ServiceError: that version is gone, or the service or the storage refuses or does not answer.
        """
        stage = wanted_stage(request)
        state = self._settled_state(request, stage, confirm)
        check_expected(request, state)
        chosen = predecessor(request, state)
        lineage = self._trace(chosen)
        if lineage.broken:
            text = f"The lineage of {title(chosen)} is broken: {'; '.join(lineage.broken)}"
            self.listener(events.Notice(text=text, level="warning"))
        change = new_change(request, "rollback", chosen, state.present, lineage, None)
        return self._carry_out(request, change, state, chosen, decision=None, lineage=lineage, confirm=confirm)

    def record(self, model: str) -> Record:
        """Return what is written down of a model's promotions.

        Raises:
            ServiceError: it cannot be read.
        """
        return decoded(self.store.read(model), model)

    def _state(self, model: str, stage: str) -> StageState:
        return StageState(record=self.record(model), versions=self.service.models(model), stage=stage)

    def _settled_state(self, request: PromotionRequest, stage: str, confirm: Confirm | None) -> StageState:
        """Return the state, after finishing an interrupted change; a dry run reports it."""
        state = self._state(request.model, stage)
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
                stage=None if previous else request.stage.lower(),
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
        *,
        decision: Decision | None,
        lineage: LineageStep,
        confirm: Confirm | None,
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
        self.listener(proposal(change, state.versions))
        if request.dry_run:
            return result
        _ask(confirm, question(change, request.model))
        with self._stage("promote", f"Put {title(chosen)} into {change.stage}") as summary:
            with self.store.hold(request.model) as held:
                finish(self.service, self.catalogue, held, request, self.listener)
                now = StageState(
                    record=decoded(held.read(), request.model),
                    versions=self.service.models(request.model),
                    stage=change.stage,
                )
                if now.names != state.names or now.record.revision != state.record.revision:
                    there = f"version {' and '.join(state.names)}" if state.names else "nothing"
                    raise moved(now, there, "decided against")
                record = now.record.begun(change)
                held.write(encode(record))
                apply(self.service, self.catalogue, held, request.model, change)
                held.write(encode(record.ended()))
            summary.append(f"version {previous} is archived" if previous else "the stage was empty")
        self.listener(
            events.ModelPromoted(
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
        return replace(result, status="changed", model=view, change=change.id)

    def _stage(self, name: events.Stage, title: str) -> AbstractContextManager[list[str]]:
        return events.report_stage(name, title, emit=self.listener, now=self.clock.now)


def question(change: Change, model: str) -> str:
    """Return the question whether to do what was decided, with the decision in short."""
    archived = f", and archive version {change.previous[0]}" if change.previous else ""
    if change.action == "rollback":
        return f"Roll {model} in {change.stage} back to version {change.version}{archived}?"
    return f"Promote {model} version {change.version} to {change.stage} (gate: {change.gate}){archived}?"


def _ask(confirm: Confirm | None, text: str) -> None:
    if confirm is not None and not confirm(text):
        raise CancelledError("Not confirmed: nothing was changed.")
