"""Prove that a registered version is a branch's own: its job, its verdict and its files."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final, cast

from aml_train.azure.blob.address import parse_address
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.target import WorkspaceTarget
from aml_train.config.model import Config
from aml_train.config.sections.model import StagePolicy
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.git import Checkout, default_branch
from aml_train.core.tags import Tag
from aml_train.jobs.workspace import ModelView
from aml_train.models.passport.verify import Verifier
from aml_train.models.promotion.choose import Prove
from aml_train.models.register import fault_of_registration
from aml_train.pipeline.branch_verdicts import read_verdict
from aml_train.pipeline.plan import origin_of
from aml_train.pipeline.proof import GitProver
from aml_train.pipeline.resolve import read_commit, read_project, target_names
from aml_train.pipeline.target import Host

if TYPE_CHECKING:
    from aml_train.azure.blob.address import Remote
    from aml_train.azure.sdk_v2 import AzureV2

DEFAULT_BRANCH_VARIABLE: Final = "AML_TRAIN_DEFAULT_BRANCH"
"""Names the repository's default branch; the action sets it, and elsewhere git is asked."""


def sealed(verifier: Verifier) -> Prove:
    """Return what proves a version by the signature of its passport."""

    def prove(model: ModelView, policy: StagePolicy) -> str:
        found = verifier.verify(model)
        if faults := found.faults(("signature",)):
            return "; ".join(faults[:3])
        branch = Answer(dict(found.statement), ValueError).optional_text("predicate.source.branch")
        wanted = policy.branch
        return (
            f"its passport is one of the branch {branch}, and not of {wanted}" if wanted not in (None, branch) else ""
        )

    return prove


def proved(host: Host, connection: WorkspaceTarget, directory: Path, project: Callable[[], Config] | None) -> Prove:
    """Return what proves a version from git, registry and metrics."""
    service = connection.service

    @functools.cache
    def prover() -> GitProver:
        if project is None:
            raise InvalidError("no configuration says what the job of a model is")
        config = project()
        checkout = Checkout(config.directory)
        name = read_project(config.directory, host.environ, checkout=checkout)
        origin = origin_of(config, read_commit(config.directory, checkout=checkout), name)
        return GitProver(config, target_names(config, host.environ), origin, name, connection)

    def prove(model: ModelView, policy: StagePolicy) -> str:
        branch = policy.branch or host.environ.get(DEFAULT_BRANCH_VARIABLE) or default_branch(directory)
        if model.origin is None:
            return "no job made it: neither its tags nor AzureML name one"
        job = service.find(model.origin)
        if job is None:
            return f"there is no job {model.origin}"
        if branch is None:
            return "nothing says which branch counts: write `from-branch` into `promote`"
        verdict = read_verdict(job.tags, branch)
        if verdict is None or verdict.gate == "failed":
            return f"its job {job.name} has not passed a run of the branch {branch}"
        try:
            if fault := prover().prove(service, job, branch, verdict).fault:
                return fault
        except InvalidError as error:
            return error.message
        return fault_of_registration(service, model, job.name) or _fault_of_place(service, model)

    return prove


def _fault_of_place(service: AzureV2, model: ModelView) -> str:
    """Return why the files of *model* are not those that its job wrote; empty if they are."""
    data = DataWorkspace(service)
    try:
        source, path = (
            data.locate(cast("Remote", parse_address(text))) for text in (model.tags.get(Tag.SOURCE, ""), model.path)
        )
    except (InvalidError, ServiceError) as error:
        if isinstance(error, ServiceError) and error.transient:
            raise
        return f"the place of its files is not known: {error.message}"
    same = (source.datastore, source.path.strip("/")) == (path.datastore, path.path.strip("/"))
    return "" if same else f"its files are in {path.datastore}, at {path.path}, and not where its job wrote them"
