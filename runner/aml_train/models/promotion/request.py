"""The request of a promotion, and its result: values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from aml_train.config.sections.model import StagePolicy
from aml_train.gate.decide import Decision
from aml_train.jobs.workspace import ModelView
from aml_train.models.lineage import LineageStep
from aml_train.models.promotion.record import Action

#: What :attr:`PromotionRequest.expect` says where nothing is to be in the stage.
NOTHING = "none"


@dataclass(frozen=True, kw_only=True)
class PromotionRequest:
    """The request of a promotion or a rollback.

    Attributes:
        model: the model's name.
        stage: the stage to get into, or to roll back.
        actor: who asks.
        version: which version; None for the newest candidate that passed its gate. A rollback finds its own.
        policy: what the version must meet. A rollback meets nothing: what was in the stage had met it.
        expect: the version that must be in the stage now, or ``none``; None for whichever is there when the rules are decided.
        reason: why.
        run_url: the workflow's run that asks.
        dry_run: decide everything, and change nothing.
        allow_foreign: take a version that is not proved to be the branch's own; the record keeps why it is not.
    """

    model: str
    stage: str
    actor: str
    version: str | None = None
    policy: StagePolicy = field(default_factory=StagePolicy)
    expect: str | None = None
    reason: str = ""
    run_url: str | None = None
    dry_run: bool = False
    allow_foreign: bool = False


Confirm = Callable[[str], bool]
"""Asks a question of the user, and returns whether the answer is yes."""


@dataclass(frozen=True, kw_only=True)
class Promotion:
    """The result of a request.

    Attributes:
        action: promote or rollback.
        status: ``changed``; ``unchanged`` where the version was in the stage already; ``dry-run``.
        model: the version that is in the stage now, or with ``dry-run`` would be.
        stage: the stage.
        previous: the version that it took the place of, and that is archived now; None for none.
        decision: the gate's; None where it was not asked.
        lineage: the version's, looked up; None where it was not.
        change: the id that both versions carry as a tag; None where nothing was changed.
    """

    action: Action
    status: Literal["changed", "unchanged", "dry-run"]
    model: ModelView
    stage: str
    previous: str | None = None
    decision: Decision | None = None
    lineage: LineageStep | None = None
    change: str | None = None

    @property
    def message(self) -> str:
        """The result in a sentence."""
        name = f"{self.model.name} version {self.model.version}"
        if self.status == "unchanged":
            return f"{name} is in {self.stage} already: nothing was changed."
        after = f" after version {self.previous}" if self.previous else ", the first one"
        if self.status == "dry-run":
            archived = f", and version {self.previous} archived" if self.previous else ""
            return f"{name} would be in {self.stage}{archived}. Nothing was changed."
        if self.action == "rollback":
            return f"{name} is in {self.stage} again; version {self.previous} is archived."
        return f"{name} is in {self.stage}{after}."

    def facts(self) -> Mapping[str, Any]:
        """Return it as plain values, for the result and the outputs."""
        facts: dict[str, Any] = {
            "action": self.action,
            "promotion": self.status,
            "model": self.model.name,
            "model_version": self.model.version,
            "stage": self.stage,
            "promoted_version": self.model.version,
            "previous_version": self.previous,
            "change": self.change,
        }
        if self.decision is not None and self.decision.rules:
            facts["gate"] = self.decision.word
        if self.lineage is not None:
            facts["lineage"] = self.lineage.facts()
        return facts
