"""What an interruption does to the job, at each moment of its life."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, ServiceError
from aml_train.core.events import Event, JobNamed, Notice
from aml_train.core.threads import CancelToken
from aml_train.jobs.live import LiveJob
from aml_train.jobs.spec import JobSpec
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import FakeClock, FakeService, lost

JOB = JobSpec(
    name="j-1",
    document={"command": "true", "tags": {}},
    directory=Path("/p"),
    code=None,
    images={},
    fingerprint="f",
)


class SlowService(FakeService):
    """Its submissions stay where they are until they are let on: before the request leaves, or while it is on its way."""

    def __init__(self, stays: str, **changes: Any) -> None:
        super().__init__(**changes)
        self.stays = stays
        self.there, self.go_on = threading.Event(), threading.Event()

    def submit(self, job: JobSpec, submission: CancelToken) -> JobView:
        if self.stays == "uploading":
            self._stay()
        submission.commit()
        if self.stays == "sent":
            self._stay()
        return super().submit(job, submission)

    def _stay(self) -> None:
        self.there.set()
        assert self.go_on.wait(300)


@pytest.fixture
def clock() -> FakeClock:
    return FakeClock()


def live(service: FakeService, clock: FakeClock, events: list[Event] | None = None) -> LiveJob:
    listener = events.append if events is not None else lambda _: None
    return LiveJob("j-1", service, Clock(now=clock.now, sleep=clock.sleep), listener)


@pytest.fixture
def submitting() -> Iterator[list[threading.Thread]]:
    threads: list[threading.Thread] = []
    yield threads
    for thread in threads:
        thread.join(300)
        assert not thread.is_alive()


def begin(job: LiveJob, service: SlowService, threads: list[threading.Thread]) -> list[object]:
    """Submit in a thread that stands for the main one, until it stays."""
    ended: list[object] = []

    def submit() -> None:
        try:
            ended.append(job.submit(JOB))
        except CancelledError as error:
            ended.append(error.message)

    threads.append(threading.Thread(target=submit))
    threads[-1].start()
    assert service.there.wait(300)
    return ended


def test_a_submission_whose_code_uploads_is_called_off(clock: FakeClock, submitting: list[threading.Thread]) -> None:
    service = SlowService("uploading")
    job = live(service, clock)
    ended = begin(job, service, submitting)
    # The thread is let on as soon as the submission has been called off.
    assert job._submission is not None
    job._submission.add_action(service.go_on.set)
    assert job.interrupt(cancel=True).message == "Interrupted before the job was submitted."
    submitting[0].join(300)
    assert ended == ["The submission was cancelled."]
    assert (service.submitted, service.cancelled) == ([], [])


def test_a_submission_on_its_way_is_cancelled_as_soon_as_the_job_appears(
    clock: FakeClock, submitting: list[threading.Thread]
) -> None:
    service = SlowService("sent")
    job = live(service, clock)
    begin(job, service, submitting)

    def arrive(now: float) -> None:
        if now > 2 and not service.go_on.is_set():
            service.go_on.set()
            submitting[0].join(300)

    clock.on_sleep = arrive
    assert job.interrupt(cancel=True).message == "Interrupted: the job j-1 is Canceled."
    assert service.cancelled.count("j-1") > 2, "it was told again until the job was there"
    assert service.jobs["j-1"].status is JobStatus.CANCELED


def test_a_submission_that_was_refused_leaves_no_job(clock: FakeClock) -> None:
    service = FakeService()
    job = live(service, clock)
    job.submit(JOB)
    service.jobs.clear()
    assert job.interrupt(cancel=True).message == "Interrupted while submitting; there is no job j-1."


def test_the_service_is_told_again_until_it_takes_note(clock: FakeClock) -> None:
    service = FakeService(cancel_answers=[lost(), lost(), None])
    events: list[Event] = []
    job = live(service, clock, events)
    job.submit(JOB)
    assert "is Canceled" in job.interrupt(cancel=True).message
    assert service.cancelled == ["j-1"] * 3
    assert clock.time < 3, "the service is told within seconds"
    assert isinstance(events[0], JobNamed)
    assert any("taken note" in event.text for event in events if isinstance(event, Notice))


def test_what_cannot_be_cancelled_is_said(clock: FakeClock) -> None:
    service = FakeService(cancel_answers=[ServiceError("AzureML answered 403")])
    job = live(service, clock)
    job.submit(JOB)
    ended = job.interrupt(cancel=True)
    assert "could not be cancelled: AzureML answered 403" in ended.message
    assert ended.hint == "It may still be running: cancel it in the studio."
