"""`command: promote` and `command: rollback`: the pipeline's promotions, asked for by a workflow."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from aml_train.core.errors import Fault, InvalidError
from aml_train.core.events import Broadcast, Listener
from aml_train_action.inputs.run import Inputs
from aml_train_action.session import Session

if TYPE_CHECKING:
    from aml_train.config import Config, StagePolicy
    from aml_train.models import Promoter, Promotion, PromotionRequest


def promote(
    here: Session, inputs: Inputs, config: Config, seen: Mapping[str, str], listeners: Sequence[Listener]
) -> None:
    """Do it, and tell the listeners everything, how it ended among it.

    Args:
        here: the step.
        inputs: what the workflow asks for.
        config: the checked-in policy, and the workspace.
        seen: the environment with what the inputs say of Azure.
        listeners: told everything.

    Raises:
        InvalidError: no model is named, or the target's workspace is not said.
        ServiceError: the sign-in fails.
    """
    from aml_train.pipeline import Host, open_promoter, run_promotion
    from aml_train_action.github.oidc import github_assertion

    request = _request(here, inputs, config)
    listener = Broadcast(*listeners)
    assertion = github_assertion(here.environment, fetched=here.hide)
    host = Host(environ=seen, assertion=assertion, on_token=here.hide)
    promoter: Promoter = open_promoter(host, config.target, config.directory, listener)

    def work() -> Promotion:
        return promoter.rollback(request) if inputs.command == "rollback" else promoter.promote(request)

    run_promotion(work, listener)


def policy_of(config: Config, stage: str) -> StagePolicy:
    """Return what a version must meet in *stage*: what `promote` says, else what the run's gate and baseline say."""
    from aml_train.config import StagePolicy

    found = config.promote.get(stage.lower())
    if found is not None:
        return found
    baseline = config.baseline
    return StagePolicy(
        rules=config.gate,
        bootstrap=baseline is not None and baseline.bootstrap,
        data=StagePolicy.data if baseline is None else baseline.data,
    )


def _request(here: Session, inputs: Inputs, config: Config) -> PromotionRequest:
    from aml_train.models import PromotionRequest

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
        actor=here.step.actor,
        policy=policy_of(config, wanted.to),
        expect=wanted.expect,
        reason=wanted.reason,
        run_url=here.step.run_url,
        dry_run=wanted.dry_run,
    )
