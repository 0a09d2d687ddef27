"""An attempt after a preemption gets the checkpoints of the one before, and is known by exactly that."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from aml_train.config.sections.watch import ResumeConfig, RetryConfig
from aml_train.core.events import AttemptEnded, Event, Notice
from aml_train.core.tags import Tag
from aml_train.gate.history import MetricPoint
from aml_train.jobs.attempts import resumed_from
from aml_train.jobs.spec import artifacts_at, earlier_names, job_of_artifacts
from aml_train.jobs.workspace import JobView
from aml_train.pipeline.plan import Plan
from aml_train.pipeline.result import RunResult
from aml_train.testing.memory import MemoryJob, MemoryService, TrainingFailedError
from tests.unit.jobs.test_endings import PREEMPTED
from tests.unit.pipeline.test_run import make_plan, run

RESUME = ResumeConfig(path="outputs/checkpoints", metric="loss")


def plan_of(rule: str = "<= 1", **changes: Any) -> Plan:
    plan = make_plan({"loss": [rule]}, retry=RetryConfig(preempted=2), resume=RESUME, model=None)
    properties = {Tag.RESUME: RESUME.path, Tag.RESUME_METRIC: RESUME.metric}
    return replace(plan, job=replace(plan.job, properties=properties), **changes)


def resuming(*, saves: bool = True, loads: bool = True, preempted: int = 1) -> MemoryService:
    """Jobs of six steps, whose loss falls from 6 to 1; the first ones are preempted after four steps more."""

    def training(job: MemoryJob) -> Iterator[None]:
        yield
        given = (job.spec.document.get("inputs") or {}).get("resume")
        source = job_of_artifacts(given["path"]) if given is not None and loads else None
        begin = 0
        if source is not None:
            begin = int(service.work[source].artifacts["outputs/checkpoints/last"])
        number = int(job.spec.name.rpartition("-")[2])
        for step in range(begin, 6):
            job.log_metric("loss", 6.0 - step, step)
            if saves and step % 2 == 0:
                job.write("outputs/checkpoints/last", str(step).encode())
            if number <= preempted and step - begin == 3:
                raise TrainingFailedError(PREEMPTED)

    service = MemoryService(training=training, any_compute=True)
    return service


def attempts(events: list[Event]) -> list[tuple[str, str | None]]:
    return [
        (one.ending, one.resumed_from and one.resumed_from[-2:]) for one in events if isinstance(one, AttemptEnded)
    ]


def names(outcome: RunResult) -> list[str]:
    return [one.job for one in outcome.attempts]


def test_an_address_names_the_attempt() -> None:
    assert earlier_names("d-0123456789ab-3") == ["d-0123456789ab-1", "d-0123456789ab-2"]
    assert earlier_names("mine-retry2") == ["mine", "mine-retry1"]
    assert earlier_names("mine") == []
    address = artifacts_at("d-1", "outputs/checkpoints")
    assert address == "azureml://datastores/workspaceartifactstore/paths/ExperimentRun/dcid.d-1/outputs/checkpoints"
    long = address.replace("azureml://", "azureml://subscriptions/s/resourcegroups/r/workspaces/w/")
    assert job_of_artifacts(address) == job_of_artifacts(long) == "d-1"
    assert job_of_artifacts("azureml://datastores/other/paths/ExperimentRun/dcid.d-1/x") is None


def test_the_next_attempt_continues_and_what_was_before_counts_for_the_gate() -> None:
    service = resuming()
    outcome, events = run(plan_of("first == 6"), service)
    assert outcome.exit_code == 0, outcome.message
    assert attempts(events) == [("preempted", None), ("completed", "-1")]
    first, second = names(outcome)
    given = service.work[second].spec.document["inputs"]["resume"]
    assert given == {"type": "uri_folder", "mode": "ro_mount", "path": artifacts_at(first, RESUME.path)}
    assert "inputs" not in service.work[first].spec.document
    assert outcome.gate is not None
    assert [one.step for one in outcome.gate.histories["loss"]] == [0, 1, 2, 3, 4, 5]
    again, _ = run(plan_of("first == 6"), service)
    assert (again.exit_code, again.attached, again.job and again.job.name) == (0, True, second)
    assert resumed_from(service.jobs[second]) == first


def test_an_attempt_that_ignores_its_checkpoints_is_judged_alone() -> None:
    outcome, events = run(plan_of("count == 6"), resuming(loads=False))
    assert attempts(events) == [("preempted", None), ("completed", "-1")]
    assert (outcome.exit_code, outcome.message) == (
        0,
        "The job completed and the gate is met." + outcome.message[38:],
    )


def test_without_checkpoints_it_starts_afresh_and_says_so() -> None:
    outcome, events = run(plan_of("count == 6"), resuming(saves=False))
    assert outcome.exit_code == 0, outcome.message
    assert attempts(events) == [("preempted", None), ("completed", None)]
    (said,) = [one for one in events if isinstance(one, Notice) and "left no checkpoints" in one.text]
    assert (said.level, "outputs/checkpoints" in said.text) == ("warning", True)


def test_an_attempt_that_left_none_passes_those_on_that_it_got() -> None:
    service = resuming(preempted=2)
    saved = service.training

    def training(job: MemoryJob) -> Iterator[None]:
        yield from ()
        if job.spec.name.endswith("-2"):
            raise TrainingFailedError(PREEMPTED)
        yield from saved(job)

    service.training = training
    outcome, events = run(plan_of("count == 6"), service)
    assert outcome.exit_code == 0, outcome.message
    assert attempts(events) == [("preempted", None), ("preempted", "-1"), ("completed", "-1")]


@pytest.mark.parametrize("foreign", ["its own", "another's"])
def test_checkpoints_of_a_foreign_attempt_make_a_foreign_job(foreign: str) -> None:
    service = resuming()
    outcome, _ = run(plan_of(), service)
    first, second = names(outcome)
    if foreign == "its own":
        service.identities[first] = replace(
            service.identities[first], parts={**service.identities[first].parts, "command": frozenset({"evil"})}
        )
    else:
        address = frozenset({artifacts_at("evil-1", RESUME.path)})
        service.identities[second] = replace(
            service.identities[second], parts={**service.identities[second].parts, "inputs.resume": address}
        )
    again, events = run(plan_of(), service)
    assert again.job is not None
    assert again.job.name.endswith("-3")
    assert any(second in one.text and "is not it" in one.text for one in events if isinstance(one, Notice))


class Restarting(MemoryService):
    """A workspace that has put its jobs back into the queue, three milliseconds after the epoch."""

    def details(self, name: str) -> JobView:
        return replace(super().details(name), restarted=datetime.datetime.fromtimestamp(0.003, datetime.UTC))


def test_a_job_that_started_over_in_the_queue_has_the_metrics_of_its_last_attempt() -> None:
    def training(job: MemoryJob) -> Iterator[None]:
        for name in ("acc", "other"):
            for step, value in ((0, 0.5), (1, 0.9), (2, 0.99), (0, 0.1), (1, 0.3)):
                job.log_metric(name, value, step)
        job.metrics["early"] = [MetricPoint(step=0, value=1.0, timestamp=0)]
        yield

    plan = make_plan({"acc": ["<= 0.3"], "early": [">= 0"]}, model=None)
    outcome, _ = run(plan, Restarting(training=training, any_compute=True))
    assert outcome.exit_code == 6
    assert "early is missing (only an attempt before AzureML restarted the job logged it)" in outcome.message
    assert outcome.gate is not None
    assert [one.verdict for one in outcome.gate.decision.rules] == ["met", "missed"]
    assert outcome.gate.metrics == {"acc": 0.3, "other": 0.3}
    assert outcome.gate.histories.keys() == {"acc", "early"}


def test_who_attaches_gives_the_next_attempt_the_checkpoints_too() -> None:
    service = resuming()
    submitted, _ = run(plan_of(), service, wait=False)
    assert submitted.job is not None
    outcome, events = run(plan_of("<= 6"), service, attach=True, job=submitted.job.name)
    assert outcome.exit_code == 0, outcome.message
    assert attempts(events)[-1] == ("completed", "-1")
