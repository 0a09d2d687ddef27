"""Change tags as a record says, or finish an interrupted change; under the lock."""

from __future__ import annotations

import datetime
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from aml_train.config.sections.model import StagePolicy
from aml_train.core.errors import ServiceError
from aml_train.core.events import Listener, Notice, PromotionDecided, TagChange
from aml_train.core.tags import VALUE_LENGTH, Tag
from aml_train.gate.decide import Decision
from aml_train.jobs.workspace import ModelView, Workspace
from aml_train.models.catalogue import Catalogue, LockedRecord
from aml_train.models.lineage import LineageStep
from aml_train.models.promotion.record import Action, Change, Record, decode, encode

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

    >>> model = run(load_config()).model
    >>> promote(f"{model.name}:{model.version}", to="production", actor="ann").previous is None
    True

    Attributes:
        action: promote or rollback.
        status: ``changed``; ``unchanged`` where the version was in the stage already; ``dry-run``.
        model: the version that is in the stage now, or with ``dry-run`` would be.
        stage: the stage.
        previous: the version that it took the place of, and that is archived now; None for none.
        decision: the gate's; None where it was not asked.
        lineage: the version's, looked up; None where it was not.
        change: the id that both versions carry as a tag; None where nothing was changed.
        workspace: the workspace that has the stage, if another one than that of the models; empty for the same.
        source: the version here that *model* is the copy of there; None in the same workspace.
    """

    action: Action
    status: Literal["changed", "unchanged", "dry-run"]
    model: ModelView
    stage: str
    previous: str | None = None
    decision: Decision | None = None
    lineage: LineageStep | None = None
    change: str | None = None
    workspace: str = ""
    source: str | None = None

    @property
    def message(self) -> str:
        """The result in a sentence."""
        name = title(self.model) if self.source is None else f"{self.model.name} version {self.source}"
        stage = place_of(self.stage, self.workspace)
        stage += "" if self.source is None else f" as version {self.model.version}"
        if self.status == "unchanged":
            return f"{name} is in {stage} already: nothing was changed."
        after = f" after version {self.previous}" if self.previous else ", the first one"
        if self.status == "dry-run":
            archived = f", and version {self.previous} archived" if self.previous else ""
            return f"{name} would be in {stage}{archived}. Nothing was changed."
        if self.action == "rollback":
            return f"{name} is in {stage} again; version {self.previous} is archived."
        return f"{name} is in {stage}{after}."

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
        facts |= {"workspace": self.workspace, "source_version": self.source} if self.workspace else {}
        if self.decision is not None and self.decision.rules:
            facts["gate"] = self.decision.word
        if self.lineage is not None:
            facts["lineage"] = self.lineage.facts()
        return facts


ARCHIVED: Final = "archived"
TAG_CHANGE: Final = "aml-train.promotion"
TAG_AT: Final = "aml-train.promoted-at"
TAG_BY: Final = "aml-train.promoted-by"
TAG_REASON: Final = "aml-train.promotion-reason"
TAG_RUN: Final = "aml-train.promotion-run"
TAG_AFTER: Final = "aml-train.promoted-after"
TAG_ARCHIVED_AT: Final = "aml-train.archived-at"
TAG_ARCHIVED_BY: Final = "aml-train.archived-by"
TAG_REPLACED: Final = "aml-train.replaced-by"


def place_of(stage: str, workspace: str) -> str:
    """Return what a stage is called in sentences."""
    return f"{stage} of the workspace {workspace}" if workspace else stage


def title(model: ModelView) -> str:
    """Return what a version is called in sentences."""
    return f"{model.name} version {model.version}"


def apply(service: Workspace, catalogue: Catalogue, held: LockedRecord, model: str, change: Change) -> None:
    """Change the tags as *change* says, renewing the lock before each; repeatable.

    Raises:
        ServiceError: the lock was lost, the service refuses or does not answer, or something else changes the stage at the same time.
    """
    for version, tags in tags_of(change).items():
        catalogue.change_tags(model, version, tags, guard=held.renew)
    held.renew()
    there = [one.version for one in service.models(model) if one.staged == change.stage]
    if there != [change.version]:
        raise ServiceError(
            f"{model}: after the {change.action} of version {change.version}, {change.stage} holds {there}:"
            " something else changes the tags at the same time.",
            hint="Run it again: it finishes what was begun.",
            transient=True,
        )


def tags_of(change: Change) -> dict[str, dict[str, str | None]]:
    """Return the tags that *change* sets, by version; the promoted one comes first."""
    promoted: dict[str, str | None] = {
        Tag.STAGE: change.stage,
        TAG_CHANGE: change.id,
        TAG_AT: change.at,
        TAG_BY: change.actor[:VALUE_LENGTH],
        TAG_REASON: change.reason[:VALUE_LENGTH] or None,
        TAG_RUN: change.run_url,
        TAG_AFTER: change.previous[0] if change.previous else None,
        TAG_ARCHIVED_AT: None,
        TAG_ARCHIVED_BY: None,
        TAG_REPLACED: None,
    }
    archived: dict[str, str | None] = {
        Tag.STAGE: ARCHIVED,
        TAG_CHANGE: change.id,
        TAG_ARCHIVED_AT: change.at,
        TAG_ARCHIVED_BY: change.actor[:VALUE_LENGTH],
        TAG_REPLACED: change.version,
    }
    return {change.version: promoted, **{version: dict(archived) for version in change.previous}}


def proposal(change: Change, versions: Sequence[ModelView], workspace: str) -> PromotionDecided:
    """Return what *change* would do to *versions* of its model, in the workspace that has its stage."""
    views = {one.version: one for one in versions}
    changes = [
        TagChange(version=version, tag=tag, before=before, after=after)
        for version, tags in tags_of(change).items()
        for tag, after in tags.items()
        if (before := views[version].staged if tag == Tag.STAGE else views[version].tags.get(tag)) != after
    ]
    return PromotionDecided(
        model=views[change.version].name,
        version=change.version,
        stage=change.stage,
        previous=change.previous[0] if change.previous else None,
        action=change.action,
        gate=change.gate,
        changes=tuple(changes),
        workspace=workspace,
    )


def finish(
    service: Workspace, catalogue: Catalogue, held: LockedRecord, request: PromotionRequest, listener: Listener
) -> None:
    """Finish the pending change, or drop it if the stage changed; as :func:`apply`."""
    record = decoded(held.read(), request.model)
    change = record.pending
    if change is None:
        return
    what = (
        f"the {change.action} of version {change.version} to {change.stage}, which {change.actor} began {change.at}"
    )
    versions = {one.version: one for one in service.models(request.model)}
    there = {name for name, one in versions.items() if one.staged == change.stage}
    known = [name for name in change.previous if name in versions]
    new = versions.get(change.version)
    fits = new is not None and new.path == change.path and len(known) == len(change.previous)
    expected = there <= {change.version, *change.previous} and bool(there or not change.previous)
    if not fits or not expected:
        held.write(encode(record.abandoned()))
        text = f"Struck out {what}, and did not finish: the stage was changed by something else since."
        listener(Notice(text=text, level="warning"))
        return
    apply(service, catalogue, held, request.model, change)
    held.write(encode(record.ended(finished_by=request.actor)))
    listener(Notice(text=f"Finished {what} and did not finish.", level="warning"))


def decoded(content: bytes, model: str) -> Record:
    """Return what is written down. Raises ServiceError where it cannot be read."""
    try:
        return decode(content, model)
    except (ValueError, TypeError) as error:
        raise ServiceError(
            f"The record of {model}'s promotions (aml-train/promotion/{model}.json in the workspace's default datastore)"
            f" cannot be read: {error}",
            hint="Restore it, or delete the blob: stages stay as the models' tags say, and only rollbacks lose their way.",
        ) from error


def new_change(
    request: PromotionRequest,
    action: Action,
    chosen: ModelView,
    present: Sequence[ModelView],
    lineage: LineageStep,
    decision: Decision | None,
    foreign: str = "",
    source: str | None = None,
) -> Change:
    """Return the change that puts *chosen* into the stage in place of *present*.

    *foreign* is why it is not proved to be the branch's own; empty if it is. *source* is the version that it is a copy of.
    """
    verdict = "not asked" if decision is None else decision.word
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
        foreign=foreign or None,
        source=source,
    )
