"""Promote, roll back and compare, as the commands of the same names do."""

from __future__ import annotations

import datetime
import functools
import getpass
import os
from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.api.planning import host_for
from aml_train.api.workspace import Workspace
from aml_train.core.comparison import Comparison, Side
from aml_train.core.errors import InvalidError
from aml_train.core.events import Broadcast, Listener
from aml_train.core.notebook import Curve, Sheet
from aml_train.core.series import History
from aml_train.core.values import dataclass

if TYPE_CHECKING:
    from aml_train.models import Confirm, Promotion
    from aml_train.pipeline import Project

#: Who promotes: the action and workflows set it.
ACTOR_VARIABLE: Final = "AML_TRAIN_ACTOR"
_MOST_CURVES: Final = 12


@dataclass(frozen=True, kw_only=True)
class Compared(Comparison):
    """Two sides and what differs; a notebook shows a table and the curves.

    Attributes:
        histories: (step, value) of each metric: left, right.
    """

    histories: Mapping[str, tuple[History, History]] = field(default_factory=dict)

    def _sheet(self) -> Sheet:
        from aml_train.pipeline import comparison_grid

        drawn = list(self.histories.items())[:_MOST_CURVES]
        return Sheet(
            title=f"{self.left.title} compared with {self.right.title}",
            grids=(comparison_grid(self, ("", "A", "B", "A - B")),),
            curves=tuple(
                Curve(name=name, points=left, other=right, labels=("A", "B")) for name, (left, right) in drawn
            ),
        )

    def __str__(self) -> str:
        return self._sheet().plain()

    def _repr_html_(self) -> str:
        return self._sheet().html()

    def _repr_markdown_(self) -> str:
        return self._sheet().markdown()


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
    from aml_train.pipeline import find_side, parse_reference

    file = None if config is None else Path(config)
    names = [parse_reference(text) for text in (left, right)]
    opened = functools.cache(lambda: workspace or Workspace.open(target, directory=directory, config=file))
    configured = functools.cache(lambda: _project(Path(directory), file, target))
    jobs = [name.name if name.kind == "job" else None for name in names]
    now = datetime.datetime.now(datetime.UTC)
    sides = [
        find_side(lambda: opened().backend.service, name, configured, now=now, besides=other)
        for name, other in zip(names, reversed(jobs), strict=True)
    ]
    first, second = choose_metrics(sides, metrics)
    shown = Comparison(left=first, right=second).metrics
    histories = {name: (_history(opened, first, name), _history(opened, second, name)) for name in shown}
    return Compared(left=first, right=second, histories=histories)


def choose_metrics(sides: Sequence[Side], metrics: Sequence[str]) -> list[Side]:
    """Return the sides with these metrics only; with all if none are named.

    Raises:
        InvalidError: neither side logged one of them.
    """
    if unknown := [metric for metric in metrics if not any(metric in side.metrics for side in sides)]:
        raise InvalidError(f"{unknown[0]}: neither side logged it.")
    return [
        replace_metrics(side, {name: value for name, value in side.metrics.items() if not metrics or name in metrics})
        for side in sides
    ]


def replace_metrics(side: Side, metrics: Mapping[str, float]) -> Side:
    """Return the side with other metrics."""
    from dataclasses import replace

    return replace(side, metrics=metrics)


def _project(directory: Path, file: Path | None, target: str | None) -> Project:
    from aml_train.config import load_config
    from aml_train.pipeline import Project, origin_of, read_commit

    config = load_config(file, directory=directory.absolute(), target=target)
    return Project(config=config, origin=origin_of(config, read_commit(config.directory)))


def _history(opened: object, side: Side, metric: str) -> History:
    # A model keeps the metrics of a job that is gone, which has no status; its histories are lost.
    if side.job is None or side.status is None or metric not in side.metrics or not callable(opened):
        return []
    workspace: Workspace = opened()
    return workspace.history(side.job, metric)


def promote(
    model: str | None = None,
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
    from aml_train.config import load_promotion
    from aml_train.models import PromotionRequest
    from aml_train.pipeline import open_promoter, policy_of

    found = load_promotion(None if config is None else Path(config), directory=Path(directory), target=target)
    name, _, version = (model or found.model or "").partition(":")
    if not name:
        raise InvalidError("Which model? aml-train.yml has no `model`.", hint='promote("NAME:VERSION", to=…)')
    host = host_for(found.target.kind, environ)
    policy = found.policy(to)
    rules = policy_of(found.passport, None, found.directory) if policy.require else None
    request = PromotionRequest(
        model=name,
        version=version or None,
        stage=to,
        actor=actor or actor_of(host.environ),
        policy=policy,
        expect=expect,
        reason=reason,
        run_url=host.environ.get("AML_TRAIN_RUN_URL") or None,
        dry_run=dry_run,
    )
    promoter = open_promoter(host, found.target, found.directory, Broadcast(*listeners), policy=rules)
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
    from aml_train.config import load_targets
    from aml_train.models import PromotionRequest
    from aml_train.pipeline import open_promoter

    targets = load_targets(None if config is None else Path(config), directory=Path(directory))
    chosen = targets.named(target)
    host = host_for(chosen.kind, environ)
    request = PromotionRequest(
        model=model,
        stage=to,
        actor=actor or actor_of(host.environ),
        expect=expect,
        reason=reason,
        run_url=host.environ.get("AML_TRAIN_RUN_URL") or None,
        dry_run=dry_run,
    )
    return open_promoter(host, chosen, targets.directory, Broadcast(*listeners)).rollback(request, confirm)


def actor_of(environ: Mapping[str, str]) -> str:
    """Return who promotes: the environment's actor, else the user of this process."""
    if named := environ.get(ACTOR_VARIABLE):
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return f"user {os.getuid()}"
