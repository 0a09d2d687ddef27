"""When a job is asked for: simulated jobs of twelve hours, second by second."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pytest

from aml_train.azure.target import AZURE_PACE as AZURE
from aml_train.jobs.pace import Cadence, Pace
from aml_train.jobs.states import JobStatus
from aml_train.local.target import LOCAL_PACE as LOCAL

S = JobStatus
HOURS = 3600.0


@dataclass(frozen=True, kw_only=True)
class Job:
    """A job: queued, running until *over*, then Finalizing. *lines* are the times at which its log grows."""

    queued: float = 60.0
    over: float
    finalizing: float = 0.0
    lines: Sequence[float] = ()

    def status(self, now: float) -> JobStatus:
        if now < self.queued:
            return S.QUEUED
        if now < self.over:
            return S.RUNNING
        return S.FINALIZING if now < self.over + self.finalizing else S.COMPLETED


def found(job: Job, pace: Pace) -> float:
    """Return how many seconds after its end the job's end is found, as the watch does it."""
    cadence, now, line = Cadence(pace, 0.0), 0.0, 0
    while True:
        status = job.status(now)
        cadence.scanned(now, status)
        if status is S.COMPLETED:
            return now - (job.over + job.finalizing)
        until = now + cadence.pause(now)
        while until - now > 1e-9:
            now += min(until - now, pace.log)
            grew = line < len(job.lines) and job.lines[line] <= now
            while line < len(job.lines) and job.lines[line] <= now:
                line += 1
            if cadence.received(now, grew=grew):
                break


def every(seconds: float, until: float) -> list[float]:
    return [60 + seconds * i for i in range(int((until - 60) / seconds) + 1)]


@pytest.mark.parametrize("hours", [0.01, 0.5, 3, 12])
@pytest.mark.parametrize("gap", [0.2, 1.0])
def test_a_job_that_logs_each_second_is_found_within_two_seconds(hours: float, gap: float) -> None:
    over = 60 + hours * HOURS
    late = found(Job(over=over, lines=every(gap, over)), AZURE)
    assert late <= 2.0


def test_the_time_that_reading_takes_is_no_silence() -> None:
    """Logs that grow so fast that reading what is new takes longer than the pause between two readings."""
    cadence, now = Cadence(AZURE, 0.0), 0.0
    cadence.scanned(now, S.RUNNING)
    for _ in range(5):
        began = now + AZURE.log
        now = began + 4.0
        assert not cadence.received(now, grew=True, began=began)
    assert not cadence.received(now + AZURE.log, grew=False)
    assert cadence.received(now + 2 * AZURE.log, grew=False)


@pytest.mark.parametrize("hours", [0.5, 3, 12, 24])
def test_finalizing_announces_the_end(hours: float) -> None:
    """A minute in which outputs are stored is seen by the slowest pace."""
    over = 60 + hours * HOURS
    late = found(Job(over=over, finalizing=61), AZURE)
    assert late <= 1.0


@pytest.mark.parametrize("hours", [0.5, 12, 24])
def test_a_silent_job_is_found_within_a_minute(hours: float) -> None:
    late = found(Job(over=60 + hours * HOURS), AZURE)
    assert late <= 60.0


@pytest.mark.parametrize("seconds", [1.0, 5.0, 20.0])
def test_a_short_job_is_found_at_once(seconds: float) -> None:
    assert found(Job(queued=2, over=2 + seconds), AZURE) <= 1.1
    assert found(Job(queued=2, over=2 + seconds), LOCAL) <= 0.3


def test_hours_in_the_queue_do_not_make_the_end_late() -> None:
    late = found(Job(queued=6 * HOURS, over=6 * HOURS + 90), AZURE)
    assert late <= 5.0


@pytest.mark.parametrize("hours", [0.1, 12])
def test_the_local_azureml_is_always_found_within_two_seconds(hours: float) -> None:
    assert found(Job(over=60 + hours * HOURS), LOCAL) <= 2.0
