"""The record of a model's promotions: the past ones, and the pending one. Pure.

It is one blob for each model, which is the lock as well (:mod:`aml_train.models.catalogue`). The stage of a version is
in the version's tags; the record has how it got there, and `rollback` follows it.
"""

from __future__ import annotations

import dataclasses
import json
from dataclasses import dataclass, field
from typing import Final, Literal

import msgspec

from aml_train.core.answers import check_format
from aml_train.core.answers import decode as parse

FORMAT: Final = 1
Action = Literal["promote", "rollback"]


@dataclass(frozen=True, kw_only=True)
class Change:
    """One change of a stage.

    Attributes:
        id: random; the two models carry it as a tag.
        action: promote or rollback.
        stage: the stage.
        version: the version that gets into it.
        previous: the versions that leave it for ``archived``; normally one, none for the first model.
        came_from: the stage that *version* was in before; None for none.
        path: the place of the version's files, which no change ever touches.
        digest: of the image that it was trained in; None where that is not known.
        actor: who asked for it.
        reason: why, in the actor's words; may be empty.
        at: when, in UTC, ISO 8601.
        run_url: the workflow's run; None outside one.
        gate: the verdict: ``passed``, ``none`` where there are no rules, ``skipped`` where all were skipped, ``not asked`` for a rollback.
        rules: each rule's reason.
        finished_by: who finished it, if not the actor.
        foreign: why the version was not proved to be the branch's own, and was allowed; None where it was.
        source: the version of another workspace that *version* is a copy of; None where it is none.
        to: the copy in another workspace that got into the stage there, which says nothing of the stages here; None for here.
    """

    id: str
    action: Action
    stage: str
    version: str
    previous: tuple[str, ...]
    came_from: str | None
    path: str
    digest: str | None
    actor: str
    reason: str
    at: str
    run_url: str | None
    gate: str
    rules: tuple[str, ...] = ()
    finished_by: str | None = None
    foreign: str | None = None
    source: str | None = None
    to: str | None = None


@dataclass(frozen=True, kw_only=True)
class Record:
    """Every change of a model's stages.

    Attributes:
        model: its name.
        revision: grows with each change that was begun.
        pending: the change that was begun, and not recorded as ended.
        history: those that ended, the oldest first.
    """

    model: str
    revision: int = 0
    pending: Change | None = None
    history: tuple[Change, ...] = field(default_factory=tuple)

    def begun(self, change: Change) -> Record:
        """Return the record with *change* under way."""
        return dataclasses.replace(self, revision=self.revision + 1, pending=change)

    def ended(self, *, finished_by: str | None = None) -> Record:
        """Return the record with the pending change in its history."""
        if self.pending is None:
            raise ValueError("no change is pending")
        done = dataclasses.replace(self.pending, finished_by=finished_by)
        return dataclasses.replace(self, pending=None, history=(*self.history, done))

    def noted(self, change: Change) -> Record:
        """Return the record with a change that was done in another workspace."""
        return dataclasses.replace(self, revision=self.revision + 1, history=(*self.history, change))

    def abandoned(self) -> Record:
        """Return the record without the pending change."""
        return dataclasses.replace(self, pending=None)

    def predecessor(self, stage: str, present: str) -> str | None:
        """Return the version in *stage* before *present*, not counting rolled-back ones.

        A rollback takes the newest promotion back, so that a second one goes a step further and not forward again.

        Raises:
            ValueError: by the record another version, or none, is in the stage; the message says which.
        """
        stack: list[str] = []
        for change in self.history:
            if change.stage != stage or change.to is not None:
                continue
            if not stack and change.previous:
                stack.append(change.previous[0])
            if change.action == "rollback" and change.version in stack:
                del stack[len(stack) - stack[::-1].index(change.version) :]
            else:
                stack.append(change.version)
        if not stack or stack[-1] != present:
            raise ValueError(f"version {stack[-1]}" if stack else "none")
        return stack[-2] if len(stack) > 1 else None


def encode(record: Record) -> bytes:
    """Return the record as JSON."""
    document = {"format": FORMAT, **dataclasses.asdict(record)}
    return json.dumps(document, indent=1, ensure_ascii=False).encode()


def decode(content: bytes, model: str) -> Record:
    """Read a record; nothing at all is a model that was never promoted.

    Raises:
        ValueError: it is no record of this model in this format.
    """
    if not content.strip():
        return Record(model=model)
    document = parse(content)
    found = document if isinstance(document, dict) else {}
    check_format(found.get("format"), FORMAT)
    if found.get("model") != model:
        raise ValueError(f"it is about the model {found.get('model')!r}")
    if not {"revision", "history"} <= found.keys():
        raise ValueError("it has no revision or no history")
    # Fields that a later version adds are left out, and no reason to stop.
    return msgspec.json.decode(content, type=Record)
