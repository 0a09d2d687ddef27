from __future__ import annotations

import re
from typing import Any

import pytest

from aml_train.config.sections.watch import RetryConfig, WatchConfig
from aml_train.core.events import AttemptEnded, JobSubmitted, Notice
from aml_train.core.tags import Tag
from aml_train.jobs.attempts import next_name, number_of
from aml_train.jobs.identity import Identity
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import FakeClock, FakeService, lost
from tests.unit.jobs.test_endings import PREEMPTED, SCRIPT
from tests.unit.pipeline.test_run import good_service, make_plan, run

S = JobStatus


def preempted(times: int, *, end: JobStatus = S.COMPLETED, **changes: Any) -> FakeService:
    """Jobs of which so many fail by a preemption, and the next one ends as *end*."""
    script = [*[status for _ in range(times) for status in (S.RUNNING, S.FAILED)], S.RUNNING, end]
    return good_service(script=script, error=PREEMPTED, codes=("UserError",), **changes)


@pytest.mark.parametrize(
    ("name", "number", "follower"),
    [
        ("digits-0123456789ab-1", 1, "digits-0123456789ab-2"),
        ("digits-0123456789ab-9", 9, "digits-0123456789ab-10"),
        ("resnet-50", 1, "resnet-50-retry1"),
        ("resnet-50-retry1", 2, "resnet-50-retry2"),
        ("x" * 255, 1, "x" * 240 + "-retry1"),
    ],
)
def test_the_next_attempts_name_follows_from_the_one_before(name: str, number: int, follower: str) -> None:
    assert (number_of(name), next_name(name)) == (number, follower)
    assert re.fullmatch(r"[A-Za-z0-9_-]{1,255}", follower)


def test_a_preempted_job_is_submitted_again_as_often_as_is_allowed() -> None:
    service = preempted(2)
    outcome, events = run(make_plan({"acc": [">= 0.95"]}, retry=RetryConfig(preempted=2)), service)
    assert (outcome.status, outcome.exit_code) == ("passed", 0)
    names = [job.name for job in service.submitted]
    assert [name[-2:] for name in names] == ["-1", "-2", "-3"]
    assert len({name[:-2] for name in names}) == 1
    tags = [job.document["tags"] for job in service.submitted]
    assert [(tag.get(Tag.RESUBMITTED), tag.get(Tag.RETRIES)) for tag in tags] == [
        (None, None),
        (names[0], "1"),
        (names[1], "2"),
    ]
    assert [event.attempt for event in events if isinstance(event, JobSubmitted)] == [1, 2, 3]
    ended = [(e.attempt, e.status, e.ending, e.again) for e in events if isinstance(e, AttemptEnded)]
    assert ended == [
        (1, "Failed", "preempted", names[1]),
        (2, "Failed", "preempted", names[2]),
        (3, "Completed", "completed", None),
    ]
    facts = outcome.facts()
    assert [attempt["job"] for attempt in facts["attempts"]] == names  # type: ignore[attr-defined]
    assert facts["ending"] == "completed"
    assert outcome.job is not None
    assert outcome.job.name == names[2]
    (model,) = service.registered
    assert model.tags["aml-train.job"] == names[2]
    assert "submitting it again as" in " ".join(e.text for e in events if isinstance(e, Notice))


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_retries_are_bounded_and_the_last_preemption_is_told(most: int) -> None:
    service = preempted(20)
    outcome, _ = run(make_plan(retry=RetryConfig(preempted=most)), service)
    assert (outcome.status, outcome.exit_code) == ("preempted", 8)
    assert len(service.submitted) == most + 1
    assert "was preempted: Azure took its nodes back" in outcome.message
    assert "retry: {preempted: N}" in (outcome.hint or "")
    assert not service.registered


@pytest.mark.parametrize(
    ("script", "error", "code"),
    [
        ([S.RUNNING, S.FAILED], SCRIPT, 5),
        ([S.RUNNING, S.FAILED], f"{SCRIPT} It printed: {PREEMPTED}", 5),
        ([S.RUNNING, S.FAILED], None, 5),
        ([S.RUNNING, S.CANCELED], PREEMPTED, 7),
        # Somebody cancelled it, and its nodes were taken away before it ended.
        ([S.RUNNING, S.CANCEL_REQUESTED, S.FAILED], PREEMPTED, 8),
        # It may still run.
        ([S.RUNNING, S.NOT_RESPONDING], PREEMPTED, 8),
        ([S.RUNNING, S.UNKNOWN], PREEMPTED, 8),
        ([S.RUNNING, lost()], PREEMPTED, 8),
    ],
)
def test_nothing_else_is_submitted_again(script: list[Any], error: str | None, code: int) -> None:
    service = good_service(script=script, error=error, codes=("UserError",) if error else ())
    outcome, _ = run(make_plan(retry=RetryConfig(preempted=5)), service)
    assert outcome.exit_code == code
    assert len(service.submitted) == 1
    assert service.again == []


def test_the_time_out_of_the_whole_spans_the_attempts() -> None:
    service = preempted(40)
    clock = FakeClock()
    plan = make_plan(retry=RetryConfig(preempted=50), watch=WatchConfig(timeout=5.0))
    outcome, _ = run(plan, service, clock=clock)
    assert outcome.status == "timed-out"
    assert 5 < clock.time < 10
    assert 1 < len(service.submitted) < 40


@pytest.mark.parametrize("named", [True, False])
def test_who_attaches_submits_again_from_what_the_service_has(named: bool) -> None:
    service = preempted(1)
    submitted, _ = run(make_plan(), service, wait=False)
    assert submitted.job is not None
    first = submitted.job.name
    plan = make_plan(retry=RetryConfig(preempted=1))
    outcome, events = run(plan, service, attach=True, job=first if named else None)
    assert outcome.exit_code == 0
    assert service.again == [next_name(first)]
    assert service.jobs[service.again[0]].tags[Tag.RETRIES] == "1"
    assert [event.attached for event in events if isinstance(event, JobSubmitted)] == [True, False]
    assert len(service.registered) == 1


def test_the_attempt_that_somebody_else_submitted_is_attached_to() -> None:
    service = preempted(1)
    plan = make_plan(retry=RetryConfig(preempted=1))
    first, _ = run(plan, service, wait=False)
    assert first.job is not None
    tags = {**first.job.view.tags, Tag.RETRIES: "1"}
    name = first.job.name
    second = next_name(name)
    clock = FakeClock()

    def other(_now: float) -> None:
        service.jobs.setdefault(second, JobView(name=second, status=S.QUEUED, tags=tags))
        service.identities[second] = service.identity(name)

    # It appears between the look that finds the preemption and the submission, or before.
    clock.on_sleep = other
    outcome, events = run(plan, service, attach=True, job=first.job.name, clock=clock)
    assert outcome.exit_code == 0
    assert (len(service.submitted), service.again) == (1, [])
    assert [event.attached for event in events if isinstance(event, JobSubmitted)] == [True, True]


def test_a_foreign_job_of_that_name_is_never_attached_to() -> None:
    service = preempted(1)
    first, _ = run(make_plan(), service, wait=False)
    assert first.job is not None
    second = next_name(first.job.name)
    service.jobs[second] = JobView(name=second, status=S.COMPLETED, tags=first.job.view.tags)
    service.identities[second] = Identity(parts={"command": frozenset({"another"})})
    outcome, events = run(make_plan(retry=RetryConfig(preempted=1)), service, attach=True, job=first.job.name)
    assert outcome.exit_code == 0
    assert service.again == [next_name(second)]
    (warning,) = [e.text for e in events if isinstance(e, Notice) and second in e.text and e.level == "warning"][1:]
    assert warning.startswith(f"The job {second} has the name of this run's job, and is not it: what differs is")


@pytest.mark.parametrize("attach", [True, False])
def test_an_interruption_cancels_the_attempt_that_this_run_submitted(attach: bool) -> None:
    service = preempted(1)
    service.script = [S.RUNNING, S.FAILED, S.RUNNING]
    first, _ = run(make_plan(), service, wait=False)
    assert first.job is not None
    second = next_name(first.job.name)
    clock = FakeClock()

    def interrupt(_now: float) -> None:
        if second in service.jobs and not service.cancelled:
            raise KeyboardInterrupt

    clock.on_sleep = interrupt
    outcome, _ = run(make_plan(retry=RetryConfig(preempted=1)), service, attach=attach, clock=clock)
    assert outcome.status == "cancelled"
    assert service.cancelled == [second]
