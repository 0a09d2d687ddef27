"""Promote, roll back and compare, as the commands of the same names do."""

from __future__ import annotations

import datetime
import functools
import itertools
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.api.planning import host_for
from aml_train.api.workspace import Workspace
from aml_train.comparison import find_comparison, histories, parse_reference, project_of
from aml_train.config.load import load_config, load_promotion
from aml_train.core.comparison import Comparison
from aml_train.core.events import Broadcast, Listener
from aml_train.core.text import aligned, printable_line
from aml_train.pipeline.passport import policy_of
from aml_train.pipeline.promotion import open_promoter, promotion_request
from aml_train.report.series import History, plot

if TYPE_CHECKING:
    from aml_train.comparison import Project
    from aml_train.jobs.workspace import Workspace as JobService
    from aml_train.models.promotion.change import Confirm, Promotion

_MOST_CURVES: Final = 12


@dataclass(frozen=True, kw_only=True)
class Compared(Comparison):
    """Two sides and what differs, which print as a table and curves.

    Attributes:
        histories: (step, value) of each metric: left, right.
    """

    histories: Mapping[str, tuple[History, History]] = field(default_factory=dict)

    def __repr__(self) -> str:
        rows = [(row.name, row.left, row.right, row.difference) for row in self.rows()]
        lines = [f"{self.left.title} compared with {self.right.title}", *aligned([("", "A", "B", "A - B"), *rows])]
        for name, (left, right) in itertools.islice(self.histories.items(), _MOST_CURVES):
            if drawn := plot(left, right):
                lines += ["", f"{printable_line(name)} over steps   ● A   ○ B", *drawn]
        return "\n".join(lines)


def compare(
    left: str,
    right: str,
    *,
    workspace: Workspace | None = None,
    metrics: Sequence[str] = (),
    directory: str | Path = ".",
    config: str | Path | None = None,
    target: str | None = None,
) -> Compared:
    """Compare two jobs, models or files of metrics; nothing is changed.

    >>> jobs = Workspace.open().jobs()
    >>> found = compare(jobs[0].name, "model:digits:1")
    >>> found.metrics["val/accuracy"].difference
    0.0

    Args:
        left: a job's name, ``model:NAME:VERSION``, ``model:NAME@STAGE``, ``stage:STAGE``, ``branch:NAME``, ``baseline``, or a file
            of metrics.
        right: the same; differences are left less right.
        workspace: where the sides are looked up; by default the one of the configuration.
        metrics: only these; none for all.
        directory: the project folder.
        config: another file than aml-train.yml.
        target: one of ``targets:``.

    Raises:
        InvalidError: a side is not named as above, or neither side logged one of *metrics*.
        ServiceError: there is none of that name, or the service does not answer.
    """
    file = None if config is None else Path(config)
    names = parse_reference(left), parse_reference(right)
    opened = functools.cache(lambda: workspace or Workspace.open(target, directory=directory, config=file))
    configured = functools.cache(lambda: _project(Path(directory), file, target))

    def service() -> JobService:
        return opened().service

    found = find_comparison(service, names, configured, now=datetime.datetime.now(datetime.UTC), metrics=metrics)
    curves = {name: histories(service, found, name) for name in found.metrics}
    return Compared(left=found.left, right=found.right, histories=curves)


def _project(directory: Path, file: Path | None, target: str | None) -> Project:
    return project_of(load_config(file, directory=directory.absolute(), target=target), os.environ)


def promote(
    model: str | None = None,
    *,
    to: str,
    expect: str | None = None,
    reason: str = "",
    actor: str | None = None,
    dry_run: bool = False,
    allow_foreign: bool = False,
    confirm: Confirm | None = None,
    directory: str | Path = ".",
    config: str | Path | None = None,
    target: str | None = None,
    environ: Mapping[str, str] | None = None,
    listeners: Sequence[Listener] = (),
) -> Promotion:
    """Promote a model version if it passes the stage's gate; return what was done.

    >>> done = promote("digits:1", to="production", actor="ann")
    >>> done.status, done.message
    ('changed', 'digits version 1 is in production, the first one.')

    Args:
        model: ``NAME`` or ``NAME:VERSION``; by default the model of aml-train.yml and its newest candidate that passed.
        to: the stage.
        expect: the version that must be in the stage now, or ``none``.
        reason: the reason, which is stored with the model.
        actor: who promotes; AML_TRAIN_ACTOR by default, else the user of this process.
        dry_run: decide everything, and change nothing.
        allow_foreign: take a version that is not proved to be the branch's own; this needs a *reason*.
        confirm: receives the question once everything is decided, and returns the answer; None asks nothing.
        directory: the project folder, whose aml-train.yml has the rules of the stage.
        config: another file than aml-train.yml.
        target: one of ``targets:``.
        environ: the environment variables; the process's by default.
        listeners: receive every event.

    Raises:
        InvalidError: there is no aml-train.yml, or nothing names a model.
        GateFailedError: the version does not meet the stage's gate, comes from the wrong stage, or another one got there meanwhile.
        CancelledError: *confirm* returned False.
        ServiceError: there is no such version, or the service refuses or does not answer.
    """
    found = load_promotion(None if config is None else Path(config), directory=Path(directory), target=target)
    name, _, version = (model or found.model or "").partition(":")
    host = host_for(found.target.kind, environ)
    policy = found.promote.of(to)
    signers = policy_of(found.passport, None, found.directory)
    request = promotion_request(
        name,
        environ=host.environ,
        stage=to,
        actor=actor,
        expect=expect,
        reason=reason,
        dry_run=dry_run,
        allow_foreign=allow_foreign,
        version=version or None,
        policy=policy,
    )
    promoter = open_promoter(
        host,
        found.target,
        found.directory,
        Broadcast(*listeners),
        project=found.project,
        policy=signers,
        to=policy.to,
    )
    return promoter.promote(request, confirm)


def rollback(
    model: str,
    *,
    to: str,
    expect: str | None = None,
    reason: str = "",
    actor: str | None = None,
    dry_run: bool = False,
    confirm: Confirm | None = None,
    directory: str | Path = ".",
    config: str | Path | None = None,
    target: str | None = None,
    environ: Mapping[str, str] | None = None,
    listeners: Sequence[Listener] = (),
) -> Promotion:
    """Return a stage to its previous model version; no gate is decided.

    Arguments and errors are those of :func:`promote`.
    """
    found = load_promotion(None if config is None else Path(config), directory=Path(directory), target=target)
    host = host_for(found.target.kind, environ)
    request = promotion_request(
        model, environ=host.environ, stage=to, actor=actor, expect=expect, reason=reason, dry_run=dry_run
    )
    listener, there = Broadcast(*listeners), found.promote.of(to).to
    return open_promoter(host, found.target, found.directory, listener, to=there).rollback(request, confirm)
