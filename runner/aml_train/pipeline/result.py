"""A run's options and its result: the sum of the results of its stages."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import error_of
from aml_train.core.events import AttemptEnded, CostCounted, LogsEnded, ReplicateChanged, StopFound
from aml_train.core.text import printable_line
from aml_train.gate.decide import GateResult
from aml_train.image.spec import Tested
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.workspace import JobView, ModelView

#: The facts that a printed result has.
_SHOWN: Final = ("job", "attached", "run_url", "model", "model_version", "data_changed", "image", "cost")


@dataclass(frozen=True, kw_only=True)
class Group:
    """Runs of which a later one supersedes the earlier, as in a pull request.

    Attributes:
        name: the same for all of them; no secret, since the jobs carry it as a tag.
        sequence: grows from run to run.
    """

    name: str
    sequence: int


@dataclass(frozen=True, kw_only=True)
class RunOptions:
    """Options that may vary between two executions of the same plan.

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
        register: whether the model is registered; False only checks that the job wrote it, as for a pull request.
        branch: a named job is registered only if its tags say that it is this branch's; None for any.
        decide: whether the job's metrics are read, the gate decided and the model registered.
        submit: whether a job is submitted; False ends with the image in the registry.
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
    submit: bool = True


@dataclass(frozen=True, kw_only=True)
class SubmittedJob:
    """The job of a run.

    Attributes:
        view: the job as it was when it was submitted or found.
        spec: what it was submitted from; None if only the service knows.
        attached: whether it was found, rather than submitted by this run.
        ours: whether this run wanted it: then an interruption cancels it. Attaching to a job does not make it ours.
        settled: it had ended before this run: its metrics do not change any more.
    """

    view: JobView
    spec: JobSpec | None = None
    attached: bool
    ours: bool = True
    settled: bool = False

    @property
    def name(self) -> str:
        """The job's name."""
        return self.view.name


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The ending of a run, and the results of its stages.

    A run that failed has the results of the stages before.

    Attributes:
        status, exit_code, message, hint: the ending; see the table of endings in docs/architecture.md.
        interrupted: whether Ctrl-C or a :class:`aml_train.CancelToken` ended it.
        images: what the job runs in, under the empty name, and further images of a pipeline by theirs.
        job: the last attempt.
        attempts: the attempts that have ended, also those that failed.
        logs: what was read of the last attempt's logs.
        cost: what all attempts cost.
        stops: the rules of `watch.stop` that were found.
        gate: the decision, and what it was made from.
        model: the version that was registered or found.
        replicates: the jobs that differ in one input, *job* first, with their statuses and metrics; none for the only job.
        data_changed: how data changed after the job was submitted, so that its result is not reproducible; empty if none did.
    """

    status: str = "error"
    exit_code: int = 1
    message: str = ""
    hint: str | None = None
    interrupted: bool = False
    images: Mapping[str, Tested] = dataclasses.field(default_factory=dict)
    job: SubmittedJob | None = None
    attempts: tuple[AttemptEnded, ...] = ()
    logs: LogsEnded | None = None
    cost: CostCounted | None = None
    stops: tuple[StopFound, ...] = ()
    gate: GateResult | None = None
    model: ModelView | None = None
    data_changed: str = ""
    replicates: tuple[ReplicateChanged, ...] = ()

    @property
    def image(self) -> Tested | None:
        """The image that the job runs in; None for its own environment."""
        return self.images.get("")

    @property
    def attached(self) -> bool:
        """Whether the job was found, rather than submitted by this run."""
        return self.job is not None and self.job.attached

    @property
    def passed(self) -> bool:
        """Whether the run ended well: its exit code is 0."""
        return self.exit_code == 0

    def raise_for_status(self) -> None:
        """Return if the run ended well.

        Raises:
            AmlTrainError: of the class of its ending, with message and hint, if it did not.
        """
        if not self.passed:
            raise error_of(self.status, self.message, self.hint)

    def __str__(self) -> str:
        lines = [f"{self.status} (exit code {self.exit_code})", self.message, self.hint or ""]
        facts = self.facts()
        lines += [f"{name}: {facts[name]}" for name in _SHOWN if facts.get(name)]
        rules = self.gate.decision.rules if self.gate is not None else ()
        lines += [f"{rule.verdict}: {rule.reason}" for rule in rules]
        return "\n".join(printable_line(line) for line in lines if line)

    def facts(self) -> dict[str, object]:
        """Return it as plain values, for `--json` and the outputs."""
        job, gate = self.job, self.gate
        facts: dict[str, object] = {
            "metrics": dict(gate.metrics) if gate else {},
            "attached": self.attached,
        }
        images = {
            name: {"image": str(one.reference), "digest": one.digest, "address": one.address}
            for name, one in self.images.items()
        }
        facts |= images.pop("", {})
        if images:
            facts["images"] = images
        if job:
            facts |= {"job": job.name, "experiment": job.view.experiment, "run_url": job.view.studio_url}
        if self.replicates:
            facts["replicates"] = [
                {"replicate": one.replicate, "job": one.job, "status": one.status, "metrics": dict(one.metrics)}
                for one in self.replicates
            ]
        if self.attempts:
            facts["attempts"] = [
                {"job": one.job, "number": one.attempt, "status": one.status, "ending": one.ending}
                for one in self.attempts
            ]
            facts["ending"] = self.attempts[-1].ending
        if self.logs:
            facts["logs"] = [{"origin": one.origin, "rank": one.rank, "bytes": one.size} for one in self.logs.tails]
            if self.logs.tracebacks:
                first = self.logs.tracebacks[0]
                facts["traceback"] = {"origin": first.origin, "rank": first.rank, "message": first.message}
        if self.cost:
            facts |= {"node_hours": self.cost.node_hours, "gpu_hours": self.cost.gpu_hours, "cost": self.cost.cost}
            facts["currency"] = self.cost.currency
        if self.stops:
            facts["stops"] = [
                {"rule": one.label, "found": one.rule.reason, "cancelled": one.cancels, "node_hours": one.node_hours}
                for one in self.stops
            ]
        if gate and gate.decision.rules:
            facts["gate"] = gate.decision.word
        if gate and gate.comparison:
            compared = gate.comparison.facts()
            facts |= {"candidate": compared["left"], "baseline": compared["right"]}
            facts |= {"differences": compared["metrics"]}
            facts |= {name: value for name, value in compared.items() if name.startswith("different_")}
        if self.data_changed:
            facts["data_changed"] = self.data_changed
        if self.model:
            facts |= {"model": self.model.name, "model_version": self.model.version}
        return facts
