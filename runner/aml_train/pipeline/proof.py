"""Prove from git, registry and metrics that a job is a branch's own, and that its verdict holds.

Tags say what everybody who may write to the workspace wrote into them. What decides here cannot be written there: the branch's
history in git, the files of the commit by git's own objects, what a job was created with, the registry's tag of the commit,
and the rules of the commit's configuration, decided again from the job's metrics. Decision 18 has the table.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Literal

from aml_train.config.model import Config
from aml_train.config.sections.gate import GateRule
from aml_train.config.sections.replicates import ReplicatesConfig
from aml_train.core.boundary import repository_top
from aml_train.core.errors import AmlTrainError, ServiceError
from aml_train.core.events import RuleVerdict
from aml_train.core.git import Origin, export_commit, fault_of_branch_commit
from aml_train.core.references import ImageRef
from aml_train.core.release_tags import commit_tags
from aml_train.core.temporary import temporary_folder
from aml_train.gate.baseline import RunBaseline
from aml_train.gate.decide import Decision, Evidence, decide_gate
from aml_train.gate.history import aggregate
from aml_train.gate.recompute import fault_of_rule
from aml_train.gate.replicates import decide_replicates
from aml_train.gate.rules import parse_rule
from aml_train.image.spec import Tested
from aml_train.jobs.attempts import renamed, replicates_of, resumed_from
from aml_train.jobs.identity import Identity, identity_difference, job_identity
from aml_train.jobs.metrics import read_histories
from aml_train.jobs.spec import TargetNames, earlier_names, make_job, with_input
from aml_train.jobs.workspace import JobView, Workspace
from aml_train.pipeline.branch_verdicts import BranchVerdict, Proof
from aml_train.pipeline.evaluate import find_replicated, find_replicates
from aml_train.pipeline.plan import make_plan, named_images
from aml_train.pipeline.project_name import ProjectName
from aml_train.pipeline.resolve import Surroundings, resolve
from aml_train.pipeline.sdk import with_sdk
from aml_train.pipeline.target import Target

_COMMIT: Final = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
#: Clocks of two runners may differ by this.
_SKEW: Final = datetime.timedelta(minutes=5)


@dataclass(frozen=True)
class GitProver:
    """Proves verdicts of branches, and jobs, for the configuration and the checkout of this run.

    Attributes:
        config: the configuration of this run, which is loaded again at other commits.
        names: the target's names.
        origin: where this run comes from.
        project: what the project is called, for the names of its images.
        target: has the registry of the images.
    """

    config: Config
    names: TargetNames
    origin: Origin | None
    project: ProjectName | None
    target: Target
    _configs: dict[str, Config] = field(default_factory=dict)
    _faults: dict[tuple[str, str, str], str] = field(default_factory=dict)

    @functools.cached_property
    def sdk(self) -> Literal["v1", "v2"]:
        """The SDK that submits the configuration's job."""
        return with_sdk(self.config).sdk or "v2"

    def prove(self, service: Workspace, job: JobView, branch: str, verdict: BranchVerdict) -> Proof:
        """See :class:`aml_train.pipeline.branch_verdicts.Prover`."""
        try:
            at = datetime.datetime.fromisoformat(verdict.at)
        except ValueError:
            return Proof(fault=f"its time is {verdict.at[:40]!r}")
        if at.tzinfo is None or at > datetime.datetime.now(datetime.UTC) + _SKEW:
            return Proof(fault=f"its time, {verdict.at[:40]}, is in the future")
        if fault := self.fault_of_work(service, job, branch, verdict.commit):
            return Proof(fault=fault)
        config = self._configs[verdict.commit]
        if config.replicates is not None:
            fault = fault_of_replicates(service, job, config.gate, config.replicates, verdict)
        else:
            fault = fault_of_gate(service, job.name, config.gate, verdict)
        return Proof(fault=fault, altered=bool(fault))

    def fault_of_work(self, service: Workspace, job: JobView, branch: str, commit: str) -> str:
        """See :class:`aml_train.pipeline.branch_verdicts.Prover`."""
        key = (job.name, branch, commit)
        if key not in self._faults:
            self._faults[key] = self._fault_of_work(service, job, branch, commit)
        return self._faults[key]

    def _fault_of_work(self, service: Workspace, job: JobView, branch: str, commit: str) -> str:
        if not commit:
            return "it was without git, so that only `proof: recorded` takes it"
        if not _COMMIT.fullmatch(commit):
            return f"{commit[:80]!r} is no commit"
        here = self.origin is not None and self.origin.branch == branch and not self.origin.dirty
        if fault := fault_of_branch_commit(self.config.directory, branch, commit, checked_out=here):
            return fault
        directory = self.config.directory.resolve()
        top = repository_top(directory)
        if top is None or self.config.at is None:
            return "this is not a git repository"
        with temporary_folder("code") as folder:
            copy = folder / "files"
            if fault := export_commit(directory, commit, copy):
                return fault

            def move(path: Path) -> Path:
                real = path.resolve()
                return copy / real.relative_to(top) if path.is_absolute() and real.is_relative_to(top) else path

            try:
                config = with_sdk(self.config.at(move))
                self._configs[commit] = config
                return self._difference(service, job, config, commit)
            except AmlTrainError as error:
                if isinstance(error, ServiceError) and error.transient:
                    raise
                return f"what the commit {commit[:12]} trains cannot be read: {error.message}"

    def _difference(self, service: Workspace, job: JobView, config: Config, commit: str) -> str:
        """Return how *job* differs from what *config* trains; empty if it does not."""
        # No engine and no registry is asked for the job without its images.
        bare = dataclasses.replace(config, image=None, tests=None, images=())
        resolved = resolve(bare, Surroundings(platform="", commit=lambda _directory: None, given=False))
        template = make_plan(config, resolved, self.names).job
        others = [] if config.replicates is None else find_replicates(service, job, config.replicates)
        found = service.identity(job.name, sdk=config.sdk or "v2")
        images: dict[str, Tested] = {}
        project = self.project.repository if self.project is not None else ""
        for name, image in named_images(config, project).items():
            repository = str(image.repository)
            released = self._released(repository, commit, found)
            if released is None:
                return f"no tag of the commit {commit[:12]} leads to its image in the repository {repository}"
            images[name] = released
        wanted = [(job, template)]
        for place, one in enumerate(others):
            if config.replicates is not None and one is not None:
                document = with_input(template.document, config.replicates.input, config.replicates.values[place])
                wanted.append((one, dataclasses.replace(template, document=document)))
        difference: tuple[str, ...] = ()
        for one, own in wanted:  # and the attempts that they resumed from
            there = found if one is job else service.identity(one.name)
            difference += identity_difference(job_identity(renamed(make_job(own, images, 1), one.name)), there)
            if config.resume is not None and (source := resumed_from(one)) in earlier_names(one.name):
                before = service.find(source or "")
                difference += () if before is not None else (f"the attempt {source}, which is gone",)
                wanted += [(before, own)] if before is not None else []
        return f"it is not what the commit {commit[:12]} trains: {', '.join(difference[:3])}" if difference else ""

    def _released(self, repository: str, commit: str, found: Identity) -> Tested | None:
        """Return the image of *found* that the registry's tags of *commit* lead to; None for none."""
        location = self.target.image_registry()
        names = {name for part in found.parts.values() for name in part if _DIGEST.fullmatch(name)}
        with location.client() as registry:
            for digest in sorted(names):
                if any(registry.head_manifest(repository, tag) == digest for tag in commit_tags(commit, digest)):
                    reference = ImageRef.parse(f"{location.job_name}/{repository}@{digest}")
                    return Tested(
                        reference=reference,
                        digest=digest,
                        address="",
                        how="found",
                        record=None,
                        compressed_bytes=None,
                    )
        return None


def fault_of_gate(service: Workspace, job: str, rules: Sequence[GateRule], verdict: BranchVerdict) -> str:
    """Return why the verdict does not follow from the job's metrics by *rules*; empty if it does.

    Rules without a baseline are decided again. Of the others, the value is computed again, and the limit from the metrics of the
    baseline's job.
    """
    if len(verdict.rules) > len(rules):
        return f"{len(verdict.rules)} rules are recorded, and its configuration has {len(rules)}"
    files = {rule.metric: rule.source for rule in rules if rule.source is not None}
    histories = read_histories(
        service, job, {name for rule in rules for name in (rule.metric, *rule.rule.metrics)}, files
    )
    absolute = [rule for rule in rules if not rule.rule.needs_baseline]
    again = decide_gate(absolute, Evidence(histories=histories))
    if again.missed and verdict.gate != "failed":
        return f"decided again, its gate is not met: {again.missed[0].reason}"
    recorded = verdict.rules
    for rule, one in zip(rules, recorded, strict=False):
        if (one.metric, one.rule) != (rule.metric, rule.rule.text):
            return f"it is recorded for {one.metric} {one.rule}, and its configuration has {rule.metric} {rule.rule.text}"
    if len(recorded) == len(rules) and (word := Decision(rules=recorded).word) != verdict.gate:
        return f"it is recorded as {verdict.gate}, and its rules give {word}"
    for one in recorded:
        if fault := fault_of_rule(one, histories):
            return fault
    compared = [one for rule, one in zip(rules, recorded, strict=False) if rule.rule.needs_baseline]
    return _fault_of_limits(service, verdict.against, compared)


def fault_of_replicates(
    service: Workspace, job: JobView, rules: Sequence[GateRule], config: ReplicatesConfig, verdict: BranchVerdict
) -> str:
    """Return why the verdict does not follow from the metrics of the job's replicates; empty if it does.

    All is decided again, with the replicates of the baseline's job; without such a job rules that need it are left as they are recorded.
    """
    files = {rule.metric: rule.source for rule in rules if rule.source is not None}
    names = {name for rule in rules for name in (rule.metric, *rule.rule.metrics)}
    against = service.find(verdict.against) if verdict.against else None
    before = [] if against is None else replicates_of(service, against) or [against]
    baselines = [
        RunBaseline(title=one.name, histories=read_histories(service, one.name, names, {}))
        for one in sorted(before, key=lambda one: one.name != verdict.against)
    ]
    evidence = [
        Evidence(histories=read_histories(service, name, names, files), baseline=baselines[0] if baselines else None)
        for name in find_replicated(service, job, config).jobs
    ]
    again = decide_replicates(rules, evidence, baselines, config.sampling)
    if len(verdict.rules) > len(rules) or not again.final:
        return f"{len(verdict.rules)} rules over {len(evidence)} replicates are recorded, and its configuration has {len(rules)}"
    for rule, one, found in itertools.zip_longest(rules, verdict.rules, again.rules):
        if rule.rule.needs_baseline and not baselines:
            continue
        if one is not None and (one.metric, one.rule, one.verdict) != (found.metric, found.rule, found.verdict):
            return f"it is recorded for {one.metric} {one.rule} as {one.verdict}, and decided again {found.rule} is {found.verdict}"
        if found.verdict == "missed" and verdict.gate != "failed":
            return f"decided again, its gate is not met: {found.reason}"
    return ""


def _fault_of_limits(service: Workspace, against: str, compared: Sequence[RuleVerdict]) -> str:
    """Return why a limit does not follow from the metrics of the job *against*; empty if each does."""
    limited = [one for one in compared if one.limit is not None]
    if not limited or not against:
        return ""
    rules = [(one, parse_rule(one.rule)) for one in limited]
    histories = read_histories(service, against, {one.metric for one in limited}, {})
    for one, rule in rules:
        reference, points = rule.reference, histories[one.metric]
        if reference is None or not points:
            continue
        limit = reference.limit(aggregate(points, reference.aggregate or rule.aggregate, greater=rule.greater))
        if limit != one.limit:
            return f"{one.metric} {one.rule}: the limit was {one.limit:.6g}, and the metrics of {against} give {limit:.6g}"
    return ""
