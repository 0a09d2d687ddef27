"""The whole pipeline with the workspace in memory: no engine, no network, no SDK."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from aml_train.config.sections.gate import BaselineConfig
from aml_train.config.sections.watch import RetryConfig
from aml_train.core.clock import Clock
from aml_train.core.errors import AmlTrainError, ImageError
from aml_train.core.events import Event, ModelRegistered, RunFinished, StageFinished
from aml_train.image.spec import Tested
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.run import run
from tests.support.memory_workspace import MemoryJob, MemoryService, TrainingFailedError
from tests.unit.pipeline.test_run import ORIGIN, TESTED, FakeTarget, make_plan

PLAN = make_plan({"acc": [">= 0.9"]}, origin=ORIGIN)


def training(job: MemoryJob) -> Iterator[None]:
    job.say("epoch 1")
    yield
    job.log_metric("acc", 0.96)
    job.write("outputs/model/weights.txt", b"1 2 3")


@dataclass
class Execution:
    """Executions of plans in one workspace; time passes only when it is waited for."""

    service: MemoryService = field(default_factory=lambda: MemoryService(training=training))
    events: list[Event] = field(default_factory=list)
    image: Tested | AmlTrainError = TESTED
    seconds: float = 0.0

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds

    def run(self, plan: Plan = PLAN, options: RunOptions | None = None) -> RunResult:
        self.events.clear()
        return run(
            RunContext(
                plan=plan,
                options=options or RunOptions(),
                open_target=lambda: FakeTarget(service=self.service, image=self.image),
                emit=self.events.append,
                clock=Clock(now=lambda: self.seconds, sleep=self.sleep),
                prover=lambda _target: Recorded(origin=plan.origin),
            )
        )

    def stages(self) -> list[str]:
        return [event.stage for event in self.events if isinstance(event, StageFinished)]


def test_a_run_trains_gates_and_registers() -> None:
    execution = Execution()
    result = execution.run()
    assert (result.status, result.exit_code, result.message) == (
        "passed",
        0,
        "The job completed and the gate is met.",
    )
    assert execution.stages() == ["target", "submit", "watch", "gate", "register"]
    assert result.job is not None
    assert result.gate is not None
    assert (result.image, result.attached, dict(result.gate.metrics)) == (TESTED, False, {"acc": 0.96})
    assert [attempt.ending for attempt in result.attempts] == ["completed"]
    (model,) = execution.service.registered
    assert result.model == model
    (finished,) = [event for event in execution.events if isinstance(event, RunFinished)]
    assert (finished.facts, finished.status) == (result.facts(), "passed")
    tags = execution.service.jobs[result.job.name].tags
    assert (tags["aml-train.gate"], '"gate":"passed"' in tags["aml-train.verdict.main"]) == ("passed", True)


def test_the_same_run_again_finds_everything() -> None:
    execution = Execution()
    first, second = execution.run(), execution.run()
    assert (second.status, second.attached, second.model) == ("passed", True, first.model)
    assert [event.found for event in execution.events if isinstance(event, ModelRegistered)] == [True]
    assert (len(execution.service.jobs), second.attempts) == (1, ())


def test_submit_now_and_attach_later() -> None:
    execution = Execution()
    submitted = execution.run(options=RunOptions(wait=False))
    assert (submitted.status, submitted.gate, execution.stages()) == ("submitted", None, ["target", "submit"])
    attached = execution.run(options=RunOptions(attach=True))
    assert (attached.status, attached.attached) == ("passed", True)
    assert execution.stages() == ["target", "submit", "watch", "gate", "register"]


def test_a_missed_gate_registers_nothing_and_keeps_what_was_read() -> None:
    execution = Execution()
    result = execution.run(replace(PLAN, gate=make_plan({"acc": [">= 0.99"]}).gate))
    assert (result.status, result.exit_code, result.model) == ("gate-failed", 6, None)
    assert result.gate is not None
    assert result.facts()["metrics"] == {"acc": 0.96}
    assert not execution.service.registered
    (view,) = execution.service.jobs.values()
    assert view.tags["aml-train.gate"] == "failed"


def test_a_failed_job_keeps_its_attempt_and_its_cost() -> None:
    def failing(job: MemoryJob) -> Iterator[None]:
        yield
        raise TrainingFailedError("Execution failed. The job's command exited with status code 3.")

    execution = Execution(service=MemoryService(training=failing))
    result = execution.run(replace(PLAN, retry=RetryConfig(preempted=2)))
    assert (result.status, result.exit_code, result.gate) == ("job-failed", 5, None)
    assert [attempt.status for attempt in result.attempts] == ["Failed"]
    assert result.cost is not None
    assert result.facts()["ending"] == result.attempts[0].ending


def test_a_failure_of_the_image_ends_the_run_before_a_job() -> None:
    execution = Execution(image=ImageError("the disk is full"))
    result = execution.run()
    assert (result.status, result.exit_code, result.message) == ("image-failed", 3, "the disk is full")
    assert not execution.service.jobs


def test_the_next_run_of_a_branch_is_compared_with_the_last_that_passed() -> None:
    execution = Execution()
    first = execution.run()
    baseline = BaselineConfig(branch="main", where="aml-train.yml:3")
    plan = make_plan({"acc": [">= baseline"]}, origin=ORIGIN, baseline=baseline)
    document = {**plan.job.document, "inputs": {"epochs": 3}}
    second = execution.run(replace(plan, job=replace(plan.job, document=document)))
    assert first.job is not None
    assert second.gate is not None
    assert second.gate.comparison is not None
    assert (second.status, second.gate.comparison.right.job) == ("passed", first.job.name)
