"""Promotions: open a workspace for them, and end one as a run ends."""

from __future__ import annotations

import functools
import getpass
import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from aml_train.azure.acr import password_of
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.lease import AzureLeases
from aml_train.azure.blob.operations import copy_model
from aml_train.azure.names import find_workspace
from aml_train.azure.target import WorkspaceTarget
from aml_train.config.model import Config
from aml_train.config.policy import PolicyConfig
from aml_train.config.sections.model import StagePlace
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import AmlTrainError, CancelledError, InvalidError
from aml_train.core.events import Listener, RunFinished
from aml_train.models.passport.observe import Evidence
from aml_train.models.passport.trust import load_trust
from aml_train.models.passport.verify import Verifier
from aml_train.models.promotion.change import Promotion, PromotionRequest
from aml_train.models.promotion.crossing import Crossing
from aml_train.models.promotion.promote import Promoter
from aml_train.pipeline.candidates import proved, sealed
from aml_train.pipeline.evaluate import evaluate
from aml_train.pipeline.passport import open_evidence
from aml_train.pipeline.target import Host, open_workspace, target_override

#: Who promotes: the action and workflows set it.
_ACTOR_VARIABLE: Final = "AML_TRAIN_ACTOR"
_STATUS: Final = {"promote": "promoted", "rollback": "rolled-back"}


def open_promoter(
    host: Host,
    target: TargetConfig,
    directory: Path,
    emit: Listener,
    *,
    project: Callable[[], Config] | None = None,
    policy: PolicyConfig | None = None,
    to: StagePlace | None = None,
) -> Promoter:
    """Open a workspace for promotions; start the local AzureML if it does not run.

    Args:
        host: this process.
        target: which target.
        directory: the project folder, which may have a config.json.
        emit: receives every event.
        project: loads the configuration of which the jobs of models are proved; not needed if nothing is promoted.
        policy: whose signatures of passports count; with one, only signed versions count.
        to: the other workspace that has the stage; None for the target's own.

    Raises:
        InvalidError: the target's workspace is not configured, a key of the policy cannot be read, or the password of the registry's user is missing.
        ServiceError: there is nothing to sign in with, or the local AzureML does not start.
    """
    if (instead := target_override()) is not None:
        return instead.promoter(emit)

    where = _other_workspace(host, target, directory, to)
    # The variables of a local AzureML are those of the workspace that is opened last.
    there = None if where is None else open_workspace(*where, directory, emit)
    connection = open_workspace(host, target, directory, emit)
    for settings in (target, *(where[1:] if where is not None else ())):
        if settings.kind == "azure":
            password_of(settings, host.environ)  # a missing one is reported before anything is looked up
    evidence = open_evidence(connection.service, connection.registry)
    verifier = Verifier(evidence=evidence, trust=load_trust(policy)) if policy is not None else None
    promoter = replace(
        _promoter(connection, evidence, emit),
        prove=sealed(verifier) if verifier is not None else proved(host, connection, directory, project),
        verify=verifier.verify if verifier is not None else None,
    )
    return promoter if there is None else _across(promoter, connection, evidence, there, emit)


def _promoter(connection: WorkspaceTarget, evidence: Evidence, emit: Listener) -> Promoter:
    """Return what changes stages in a workspace; no version counts as the branch's own yet."""
    return Promoter(
        service=connection.service,
        catalogue=evidence.catalogue,
        store=AzureLeases(connection.service, clock=SYSTEM_CLOCK),
        tracer=evidence,
        evaluate=evaluate,
        clock=SYSTEM_CLOCK,
        listener=emit,
        prove=lambda _model, _policy: "it is a copy: promote it from the workspace that trained it",
    )


def _other_workspace(
    host: Host, target: TargetConfig, directory: Path, to: StagePlace | None
) -> tuple[Host, TargetConfig] | None:
    """Return how the other workspace that has a stage is opened; None without one.

    From the local AzureML nothing is promoted to Azure: there it is a workspace of the local AzureML.
    """
    if to is None:
        return None
    if target.kind == "local":
        return replace(host, environ={**host.environ, "AML_TRAIN_EMULATOR_WORKSPACE": to.workspace}), target
    if to.target is not None:
        return host, to.target
    here = find_workspace(target, directory, host.environ)
    settings = TargetConfig(
        name=to.workspace,
        kind="azure",
        subscription_id=here.subscription_id,
        resource_group=here.resource_group,
        workspace=to.workspace,
        sign_in=target.sign_in,
    )
    return host, settings


def _across(
    promoter: Promoter, connection: WorkspaceTarget, evidence: Evidence, there: WorkspaceTarget, emit: Listener
) -> Promoter:
    """Return what promotes from the workspace of *promoter* into *there*.

    Raises:
        InvalidError: the two are one.
    """
    here, other = connection.service.workspace, there.service.workspace
    if here.path.lower() == other.path.lower():
        raise InvalidError(
            f"`promote.STAGE.to` is the workspace {here.name} itself, from which models are promoted.",
            hint="Leave `to` out, or name another workspace.",
        )
    crossing = Crossing(
        workspace=other.name,
        origin=here.path,
        source=evidence,
        target=open_evidence(there.service, there.registry),
        image_host=functools.cache(there.registries.host),
        copy_files=functools.partial(copy_model, DataWorkspace(connection.service), DataWorkspace(there.service)),
    )
    stages = replace(_promoter(there, crossing.target, emit), workspace=other.name)
    return replace(promoter, crossing=crossing, there=stages)


def run_promotion(work: Callable[[], Promotion], emit: Listener) -> tuple[RunFinished, Promotion | None]:
    """Carry out a promotion, and report how it ended, as a run does.

    Returns:
        the last event, with the exit code: 0 also if nothing had to be changed; and the promotion, None after a failure.
    """
    promotion: Promotion | None = None
    try:
        promotion = work()
    except AmlTrainError as error:
        end = _failed(error)
    except KeyboardInterrupt:
        hint = "Run it again: what was begun is finished, or nothing was begun."
        end = _failed(CancelledError("Interrupted.", hint=hint))
    else:
        status = _STATUS[promotion.action] if promotion.status == "changed" else promotion.status
        end = RunFinished(status=status, exit_code=0, message=promotion.message, facts=promotion.facts())
    emit(end)
    return end, promotion


def _failed(error: AmlTrainError) -> RunFinished:
    return RunFinished(status=error.status, exit_code=error.exit_code, message=error.message, hint=error.hint)


def promotion_request(
    model: str | None, *, environ: Mapping[str, str], actor: str | None, **given: Any
) -> PromotionRequest:
    """Return the request for a change of the model's stage.

    Args:
        model: the model's name; None if neither the user nor the configuration names one.
        environ: names the workflow's run, and who promotes if *actor* does not.
        actor: who promotes; None for the environment's actor.
        given: the stage, and further fields of the request.

    Raises:
        InvalidError: nothing names a model.
    """
    if not model:
        raise InvalidError(
            "Which model? aml-train.yml has no `model`.",
            hint="Name it before `--to STAGE`, or write `model: {name: …}`.",
        )
    run_url = environ.get("AML_TRAIN_RUN_URL") or None
    return PromotionRequest(model=model, actor=actor or actor_of(environ), run_url=run_url, **given)


def actor_of(environ: Mapping[str, str]) -> str:
    """Return who promotes: the environment's actor, else the user of this process."""
    if named := environ.get(_ACTOR_VARIABLE):
        return named
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a user id without a name, as in containers
        return f"user {os.getuid()}"
