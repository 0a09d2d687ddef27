"""What may vary between executions of a plan, and how one ended."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field

from aml_train.core.events import LogsEnded
from aml_train.gate import Comparison, Decision
from aml_train.image import JobImage, Tested
from aml_train.jobs import Attempt, Cost, JobView, ModelView


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of which a later one supersedes the earlier, such as those of a pull request.

    Attributes:
        name: the same for all of them; no secret, since the jobs carry it as a tag.
        sequence: grows from run to run.
    """

    name: str
    sequence: int


@dataclass(frozen=True, kw_only=True)
class Options:
    """What may vary between two executions of the same plan.

    Attributes:
        fresh: train again, even if the same job has completed.
        force_build: build the image again, even if its address is in the registry.
        keep_tests: run the tests in any case, and keep their container.
        wait: follow the job to its end; False submits and returns.
        attach: build and submit nothing; follow, gate and register what was submitted before.
        job: the name of the job to attach to; None for the latest one that was submitted from the same configuration.
        group: what the run belongs to; the job carries it.
        supersede: cancel the jobs of older runs of the group.
        name: submit a job of exactly this name; None for the computed name, by which the same job is found again.
        register: whether the model is registered; False only looks whether the job wrote it, as for a pull request.
        branch: a job that is named is registered only if its tags say that it is this branch's; None for any.
        decide: whether metrics are read and gate and model have their say after the job.
    """

    fresh: bool = False
    force_build: bool = False
    keep_tests: bool = False
    wait: bool = True
    attach: bool = False
    job: str | None = None
    group: Group | None = None
    supersede: bool = False
    name: str | None = None
    register: bool = True
    branch: str | None = None
    decide: bool = True


@dataclass(kw_only=True)
class Outcome:
    """Everything that is known of a run; filled as it goes on, so that a failure keeps what was reached."""

    status: str = "error"
    exit_code: int = 1
    message: str = ""
    hint: str | None = None
    image: JobImage | None = None
    job: JobView | None = None
    job_ended: str | None = None
    attached: bool = False
    attempts: list[Attempt] = field(default_factory=list)
    logs: LogsEnded | None = None
    cost: Cost | None = None
    metrics: Mapping[str, float] = field(default_factory=dict)
    decision: Decision | None = None
    comparison: Comparison | None = None
    model: ModelView | None = None

    def facts(self) -> dict[str, object]:
        """Return the outcome as plain values for the ``--json`` file and the outputs."""
        facts: dict[str, object] = {"metrics": dict(self.metrics), "attached": self.attached}
        if isinstance(self.image, Tested):
            facts |= {"image": str(self.image.reference), "digest": self.image.digest, "address": self.image.address}
        if self.job:
            facts |= {"job": self.job.name, "experiment": self.job.experiment, "run_url": self.job.studio_url}
        if self.attempts:
            facts["attempts"] = [dataclasses.asdict(attempt) for attempt in self.attempts]
            facts["ending"] = self.attempts[-1].ending
        if self.logs:
            facts["logs"] = [{"origin": one.origin, "rank": one.rank, "bytes": one.size} for one in self.logs.tails]
            if self.logs.tracebacks:
                first = self.logs.tracebacks[0]
                facts["traceback"] = {"origin": first.origin, "rank": first.rank, "message": first.message}
        if self.cost:
            facts |= {"node_hours": self.cost.node_hours, "gpu_hours": self.cost.gpu_hours, "cost": self.cost.amount}
            facts["currency"] = self.cost.currency
        if self.decision and self.decision.rules:
            facts["gate"] = self.decision.word
        if self.comparison:
            compared = self.comparison.facts()
            facts |= {"candidate": compared["left"], "baseline": compared["right"]}
            facts |= {"differences": compared["metrics"], "different_data": compared["different_data"]}
        if self.model:
            facts |= {"model": self.model.name, "model_version": self.model.version}
        return facts
