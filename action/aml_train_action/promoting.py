"""`command: promote` and `command: rollback`: promotions by a workflow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from aml_train.core.errors import Fault, InvalidError
from aml_train.core.events import Broadcast, Listener
from aml_train.models.promotion.change import PromotionRequest
from aml_train.pipeline.candidates import DEFAULT_BRANCH_VARIABLE
from aml_train.pipeline.passport import policy_of
from aml_train.pipeline.promotion import open_promoter, run_promotion
from aml_train_action.session import Invocation

if TYPE_CHECKING:
    from aml_train.models.promotion.change import Promotion
    from aml_train.models.promotion.promote import Promoter


def promote(invocation: Invocation, listeners: Sequence[Listener]) -> None:
    """Promote or roll back; the listeners receive every event, the end among them.

    Raises:
        InvalidError: no model is named, or the target names no workspace.
        ServiceError: the sign-in fails.
    """
    config = invocation.config
    request = _request(invocation)
    listener = Broadcast(*listeners)
    policy = policy_of(config.passport, None, config.directory)
    host, default = invocation.host(), invocation.session.step.event.default_branch
    if default is not None:
        host = replace(host, environ={DEFAULT_BRANCH_VARIABLE: default, **host.environ})
    promoter: Promoter = open_promoter(
        host, config.target, config.directory, listener, project=lambda: config, policy=policy, to=request.policy.to
    )

    def work() -> Promotion:
        rollback = invocation.inputs.command == "rollback"
        return promoter.rollback(request) if rollback else promoter.promote(request)

    run_promotion(work, listener)


def _request(invocation: Invocation) -> PromotionRequest:
    session, inputs, config = invocation.session, invocation.inputs, invocation.config
    wanted = inputs.promotion
    if wanted is None:  # pragma: no cover - the inputs of these commands have it
        raise AssertionError(f"{inputs.command} without its inputs")
    model = wanted.model or (config.model.name if config.model else None)
    if model is None:
        what = "which model? The configuration has no `model`"
        raise InvalidError([Fault(where="with.model", what=what, remedy="write NAME or NAME:VERSION")])
    return PromotionRequest(
        model=model,
        version=wanted.version,
        stage=wanted.to,
        actor=session.step.actor,
        policy=config.promote.of(wanted.to),
        expect=wanted.expect,
        reason=wanted.reason,
        run_url=session.step.run_url,
        dry_run=wanted.dry_run,
    )
