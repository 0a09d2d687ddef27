"""Passports: who signs, whose signatures count, and the step that issues one; seals of verdicts.

A seal is signed with the key or identity of `passport`. Where `passport.policy` says whose signatures count, verdicts of branches
are proved by their seals: tags and metrics that anybody edited do not agree with it.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.models import AzureCatalogue, AzurePassports
from aml_train.azure.sdk_v2 import AzureV2
from aml_train.config.policy import PolicyConfig, load_policy
from aml_train.config.sections.passport import PassportConfig
from aml_train.config.sections.targets import TargetConfig
from aml_train.core.clock import SYSTEM_CLOCK
from aml_train.core.errors import AmlTrainError, InvalidError, PassportError
from aml_train.core.events import Listener
from aml_train.core.git import Origin
from aml_train.gate.decide import GateResult
from aml_train.jobs.identity import Identity
from aml_train.jobs.workspace import JobView, ModelView, Workspace
from aml_train.models.passport.envelope import Signer
from aml_train.models.passport.issue import gate_fact, has_passport, issue_passport
from aml_train.models.passport.keyless import KeylessSigner
from aml_train.models.passport.keys import load_signer
from aml_train.models.passport.observe import Evidence
from aml_train.models.passport.seal import read_seal, seal_verdict
from aml_train.models.passport.trust import Trust, load_trust
from aml_train.models.passport.verify import Verifier, gate_claim
from aml_train.pipeline.branch_verdicts import BranchVerdict, Proof, branch_of, read_verdict
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.proof import GitProver
from aml_train.pipeline.target import Host, Target, open_workspace

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry


def make_signer(
    config: PassportConfig, environ: Mapping[str, str], identity: Callable[[str], str] | None = None
) -> Signer | None:
    """Return who signs passports; None if none are configured. Nothing is signed yet.

    Args:
        config: the configuration's ``passport``.
        environ: holds the key or its passphrase.
        identity: fetches the workflow's identity token for an audience, if this process can.

    Raises:
        InvalidError: the key cannot be used, or there is no identity to sign with.
    """
    if not config.signs:
        return None
    if not config.keyless:
        return load_signer(
            config.key_file,
            config.key_env,
            config.passphrase_env,
            environ=environ,
        )
    if identity is None:
        raise InvalidError(
            "`passport.keyless` signs with the identity of a workflow, and this process has none.",
            hint="Run in GitHub Actions with `permissions: {id-token: write}`, or sign with a key: `passport.key`.",
        )
    signer = KeylessSigner(token=identity, trust=config.trust)
    signer.check()
    return signer


def open_evidence(service: Workspace, registry: Callable[[str], Registry | None]) -> Evidence:
    """Return the services by which the facts of passports are looked up."""
    if not isinstance(service, AzureV2):  # pragma: no cover - targets are workspaces of Azure or like them
        raise TypeError("passports need the storage of a workspace")
    data = DataWorkspace(service)
    return Evidence(
        service=service,
        catalogue=AzureCatalogue(service, SYSTEM_CLOCK),
        registry=registry,
        store=AzurePassports(service, data),
    )


def open_verifier(
    host: Host, target: TargetConfig, directory: Path, emit: Listener, *, policy: PolicyConfig | None
) -> Verifier:
    """Open a workspace to verify the passports of its models.

    Raises:
        InvalidError: the workspace is not configured, or a key of the policy cannot be read.
        ServiceError: there is nothing to sign in with, or the local AzureML does not start.
    """
    trust = load_trust(policy) if policy is not None else None
    connection = open_workspace(host, target, directory, emit)
    evidence = open_evidence(connection.service, connection.registry)
    return Verifier(evidence=evidence, trust=trust)


def policy_of(config: PassportConfig | None, named: Path | None, directory: Path) -> PolicyConfig | None:
    """Return the policy that is named on the command line, else the configured one.

    Raises:
        InvalidError: it cannot be read.
    """
    file = named or (config.policy if config is not None else None)
    return None if file is None else load_policy(file, directory=directory)


def check_signer(ctx: RunContext) -> None:
    """Load the key before anything is built: a bad key should not cost GPU hours.

    Raises:
        InvalidError: it cannot be used.
    """
    if ctx.plan.config.model is not None and ctx.options.register and ctx.plan.config.passport.signs:
        ctx.signer()


def sign_model(ctx: RunContext, target: Target, job: JobView, gate: GateResult, model: ModelView) -> None:
    """Issue the passport of a registered model once, if passports are configured.

    Raises:
        PassportError: it cannot be issued; the model is registered.
    """
    signer = ctx.signer()
    if signer is None:
        return
    name = f"{model.name} version {model.version}"
    with ctx.stage("register", f"Sign the passport of {name}") as summary:
        with _failing(
            f"{name} is registered, and its passport could not be issued",
            f"`aml-train attach {job.name}` issues it.",
        ):
            evidence = open_evidence(target.service, target.registry)
            if has_passport(evidence, model):
                summary.append("it had been signed")
                return
            made = issue_passport(evidence, signer, model, job, gate.decision, ctx.plan.config.gate)
        for reason in made.left_out:
            ctx.warn(f"The passport does not state the {reason}")
        summary.append(f"sha256 {made.bundle.digest[:16]}, by {made.signer}")


@contextlib.contextmanager
def _failing(what: str, hint: str) -> Iterator[None]:
    """Raise PassportError for every expected error of the block; an error's own hint comes first."""
    try:
        yield
    except PassportError:
        raise
    except AmlTrainError as error:
        raise PassportError(f"{what}: {error.message}", hint=error.hint or hint) from error


_STATED = ("at", "commit", "repository", "configuration", "against")


@dataclass(frozen=True, kw_only=True)
class SealedProver:
    """Proves verdicts by their seals; jobs by git, as *git* does.

    Attributes:
        evidence: where seals are kept.
        trust: whose signatures count.
        git: proves what has no seal: the job that a run was told to attach to.
    """

    evidence: Evidence
    trust: Trust
    git: GitProver

    @property
    def origin(self) -> Origin | None:
        """See :class:`aml_train.pipeline.branch_verdicts.Prover`."""
        return self.git.origin

    def fault_of_work(self, service: Workspace, job: JobView, branch: str, commit: str) -> str:
        """See :class:`aml_train.pipeline.branch_verdicts.Prover`."""
        return self.git.fault_of_work(service, job, branch, commit)

    def prove(self, service: Workspace, job: JobView, branch: str, verdict: BranchVerdict) -> Proof:
        """See :class:`aml_train.pipeline.branch_verdicts.Prover`."""
        stated = read_seal(self.evidence.store, self.trust, job.name, branch)
        if isinstance(stated, str):
            return Proof(fault=stated)
        different = [name for name in _STATED if stated.optional_text(name) != getattr(verdict, name)]
        if stated.optional_text("gate.word") != verdict.gate:
            different.append("gate")
        if different:
            return Proof(fault=f"its tags are not what was sealed: {', '.join(different)}", altered=True)
        if stated.optional_text("identity") != identity_digest(service.identity(job.name, sdk=self.git.sdk)):
            return Proof(fault="the job is not the one that was sealed", altered=True)
        claim = gate_claim(service, job.name, stated.at("gate"), verdict.gate)
        return Proof(fault=claim.detail, altered=True) if claim.basis == "refused" else Proof()


def seal(ctx: RunContext, target: Target, job: JobView, gate: GateResult) -> None:
    """Sign the verdict that was just recorded in the tags of *job*, if `passport` signs and it is a branch's.

    Raises:
        PassportError: it cannot be signed or kept. The verdict is recorded.
    """
    plan = ctx.plan
    # Without git, nothing ties a branch to files.
    branch = branch_of(plan.origin) if plan.commit is not None else None
    if not (plan.config.passport.signs and ctx.options.register and branch is not None and ctx.options.job is None):
        return
    signer = ctx.signer()
    with _failing(
        f"The job {job.name} passes, and its verdict could not be sealed",
        "Run it again: nothing is trained a second time, and the verdict is sealed.",
    ):
        verdict = read_verdict((target.service.find(job.name) or job).tags, branch)
        if signer is None or verdict is None:
            return
        sdk = "v2" if plan.job.runconfig is None else "v1"
        facts: dict[str, Any] = {name: getattr(verdict, name) for name in _STATED}
        facts |= {
            "identity": identity_digest(target.service.identity(job.name, sdk=sdk)),
            "gate": gate_fact(gate.decision, plan.config.gate),
        }
        seal_verdict(open_evidence(target.service, target.registry).store, signer, job.name, branch, facts)


def identity_digest(identity: Identity) -> str:
    """Return the SHA-256 of what a job is, hexadecimal."""
    text = json.dumps({part: sorted(names) for part, names in identity.parts.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
