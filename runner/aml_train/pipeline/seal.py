"""Seal the verdicts of a protected branch, and let only sealed ones count.

A seal is signed with the key or identity of `passport`. Where `passport.policy` says whose signatures count, verdicts of branches
are proved by their seals: tags and metrics that anybody edited do not agree with it.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from aml_train.core.errors import AmlTrainError, PassportError
from aml_train.core.git import Origin
from aml_train.gate.decide import GateResult
from aml_train.jobs.identity import Identity
from aml_train.jobs.workspace import JobView, Workspace
from aml_train.models.passport.issue import gate_fact
from aml_train.models.passport.observe import Evidence
from aml_train.models.passport.seal import read_seal, seal_verdict
from aml_train.models.passport.trust import Trust
from aml_train.models.passport.verify import gate_claim
from aml_train.pipeline.branch_verdicts import BranchVerdict, Proof, branch_of, read_verdict
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.passport import open_evidence
from aml_train.pipeline.proof import GitProver
from aml_train.pipeline.target import Target

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
    branch, plan = branch_of(ctx.plan.origin), ctx.plan
    if not (plan.passport.signs and ctx.options.register and branch is not None and ctx.options.job is None):
        return
    signer = ctx.signer()
    try:
        verdict = read_verdict((target.service.find(job.name) or job).tags, branch)
        if signer is None or verdict is None:
            return
        sdk = "v2" if plan.job.runconfig is None else "v1"
        facts: dict[str, Any] = {name: getattr(verdict, name) for name in _STATED}
        facts |= {
            "identity": identity_digest(target.service.identity(job.name, sdk=sdk)),
            "gate": gate_fact(gate.decision, plan.gate),
        }
        seal_verdict(open_evidence(target.service, target.registry).store, signer, job.name, branch, facts)
    except PassportError:
        raise
    except AmlTrainError as error:
        raise PassportError(
            f"The job {job.name} passes, and its verdict could not be sealed: {error.message}",
            hint=error.hint or "Run it again: nothing is trained a second time, and the verdict is sealed.",
        ) from error


def identity_digest(identity: Identity) -> str:
    """Return the SHA-256 of what a job is, hexadecimal."""
    text = json.dumps({part: sorted(names) for part, names in identity.parts.items()}, sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()
