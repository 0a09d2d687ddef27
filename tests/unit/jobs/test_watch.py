from __future__ import annotations

import datetime
from typing import Any

import pytest

from aml_train.core.clock import Clock
from aml_train.core.errors import CancelledError, JobFailedError, NotRespondingError, ServiceError, TimedOutError
from aml_train.core.events import Event, JobStatusChanged, LogLines, Notice
from aml_train.jobs.metrics import settle_metrics
from aml_train.jobs.pace import Cap, Limits, Pace
from aml_train.jobs.placement import Placement
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import NAN, FakeClock, FakeService, lost
from tests.support.watching import watch

S = JobStatus


def _watch(
    service: FakeService, clock: FakeClock, received: list[Event] | None = None, **limits: Any
) -> tuple[JobView, Exception | None, list[Event]]:
    service.jobs["j"] = JobView(name="j", status=S.QUEUED, placement=Placement(compute="gpu"))
    events: list[Event] = [] if received is None else received
    view, failure = watch(
        service,
        "j",
        clock=Clock(now=clock.now, sleep=clock.sleep),
        pace=Pace(),
        limits=Limits(**limits),
        listener=events.append,
    )
    return view, failure, events


def test_each_status_is_told_once_and_the_log_whole() -> None:
    service = FakeService(script=[S.QUEUED, S.QUEUED, S.RUNNING, S.FINALIZING, S.COMPLETED], log=b"one\ntwo\nlast")
    view, failure, events = _watch(service, FakeClock())
    assert failure is None
    assert view.status is S.COMPLETED
    told = [event.status for event in events if isinstance(event, JobStatusChanged)]
    assert told == ["Queued", "Running", "Finalizing", "Completed"]
    assert "\n".join(event.text for event in events if isinstance(event, LogLines)) == "one\ntwo\nlast"


@pytest.mark.parametrize(
    ("end", "kind"),
    [(S.FAILED, JobFailedError), (S.CANCELED, CancelledError), (S.NOT_RESPONDING, NotRespondingError)],
)
def test_no_other_end_than_completed_passes(end: JobStatus, kind: type[Exception]) -> None:
    service = FakeService(script=[S.RUNNING, S.CANCEL_REQUESTED, end], error="the disk is full", log=b"a\nb\n")
    _, failure, _ = _watch(service, FakeClock())
    assert isinstance(failure, kind)


def test_an_outage_is_borne_and_told_once() -> None:
    service = FakeService(script=[S.RUNNING, lost(), lost(), lost(), S.COMPLETED])
    _, failure, events = _watch(service, FakeClock())
    assert failure is None
    texts = [event.text for event in events if isinstance(event, Notice)]
    assert len(texts) == 2
    assert "does not answer" in texts[0]
    assert "answers again" in texts[1]


def test_an_outage_beyond_patience_ends_the_watch_without_a_verdict() -> None:
    out = ServiceError("connection refused", hint="look at the status page", transient=True)
    service = FakeService(script=[S.RUNNING, out])
    with pytest.raises(ServiceError, match=r"has not answered for \d+ s: connection refused") as caught:
        _watch(service, FakeClock(), outage=600.0)
    assert "attach" in (caught.value.hint or "")
    assert "look at the status page" in (caught.value.hint or "")


def test_a_lasting_refusal_is_not_retried() -> None:
    service = FakeService(script=[S.RUNNING, ServiceError("403")])
    with pytest.raises(ServiceError, match="403"):
        _watch(service, FakeClock())
    assert service.looks == 2


def test_the_queue_time_out_cancels_only_what_has_not_started() -> None:
    service = FakeService(script=[S.QUEUED])
    with pytest.raises(TimedOutError, match=r"has not started within 60 s .*its status is Queued"):
        _watch(service, FakeClock(), queue=60.0)
    assert service.cancelled == ["j"]
    running = FakeService(script=[S.RUNNING] * 50 + [S.COMPLETED])
    assert _watch(running, FakeClock(), queue=2.0)[1] is None


def test_a_job_that_waits_for_long_is_told_why() -> None:
    service = FakeService(script=[S.QUEUED], waits="The compute gpu cannot grow: ClusterCoreQuotaReached: no cores.")
    events: list[Event] = []
    with pytest.raises(TimedOutError, match=r"has not started within 900 s .* ClusterCoreQuotaReached: no cores\."):
        _watch(service, FakeClock(), received=events, queue=900.0)
    told = [event.text for event in events if isinstance(event, Notice) and "still waits" in event.text]
    assert told == ["The job j still waits. The compute gpu cannot grow: ClusterCoreQuotaReached: no cores."]


def test_the_run_time_out_counts_from_running() -> None:
    service = FakeService(script=[S.QUEUED] * 30 + [S.RUNNING])
    clock = FakeClock()
    with pytest.raises(TimedOutError, match=r"has run for more than 100 s \(watch.run-timeout\); .*is Canceled\."):
        _watch(service, clock, run=100.0)
    queued = 30 * 0.25
    assert queued + 100 < clock.time < queued + 100 + 10
    assert service.cancelled == ["j"]


def test_a_run_that_was_attached_to_has_run_before() -> None:
    """By the service's clock alone: this machine's date may be wrong by years."""
    service = FakeService(script=[S.RUNNING])
    began = datetime.datetime(2011, 1, 1, tzinfo=datetime.UTC)
    service.dates = {"started": began, "observed": began + datetime.timedelta(seconds=90)}
    clock = FakeClock()
    with pytest.raises(TimedOutError, match=r"watch\.run-timeout"):
        _watch(service, clock, run=100.0)
    assert clock.time < 12


def test_a_job_that_was_queued_before_the_watch_has_waited() -> None:
    service = FakeService(script=[S.QUEUED])
    made = datetime.datetime(2031, 1, 1, tzinfo=datetime.UTC)
    service.dates = {"created": made, "observed": made + datetime.timedelta(seconds=59)}
    clock = FakeClock()
    with pytest.raises(TimedOutError, match=r"watch\.queue-timeout"):
        _watch(service, clock, queue=60.0)
    assert clock.time < 5


def test_a_job_that_was_put_back_into_the_queue_waits_and_runs_anew() -> None:
    service = FakeService(script=[S.RUNNING] * 130 + [S.QUEUED] * 20 + [S.RUNNING] * 130 + [S.COMPLETED])
    clock = FakeClock()
    view, failure, events = _watch(service, clock, run=2000.0, queue=100.0)
    assert failure is None
    assert clock.time > 2000
    assert view.status is S.COMPLETED
    assert [e.text for e in events if isinstance(e, Notice)] == [
        "AzureML has put the job j back into the queue: its nodes were taken away."
    ]


def test_a_time_out_waits_until_the_cancellation_is_confirmed() -> None:
    service = FakeService(script=[S.RUNNING] * 40 + [S.CANCEL_REQUESTED] * 3 + [S.CANCELED])
    service.slow_cancel = True
    with pytest.raises(TimedOutError, match="its cancellation was requested, and it is Canceled") as caught:
        _watch(service, FakeClock(), total=5.0)
    assert caught.value.exit_code == 7
    assert service.jobs["j"].status is S.CANCELED


def test_a_time_out_that_cannot_cancel_says_so() -> None:
    service = FakeService(script=[S.RUNNING])
    service.cancel_answers = [ServiceError("403")]
    with pytest.raises(TimedOutError, match="it could not be cancelled: 403") as caught:
        _watch(service, FakeClock(), total=5.0)
    assert "may still be running" in (caught.value.hint or "")


def test_a_job_that_may_not_cost_more_is_cancelled() -> None:
    service = FakeService(script=[S.QUEUED] * 30 + [S.RUNNING])
    with pytest.raises(CancelledError, match=r"has reached its bound: 2 node hours.*is Canceled"):
        _watch(service, FakeClock(), cap=Cap(seconds=30.0, text="2 node hours"))
    assert service.cancelled == ["j"]


def test_a_job_that_does_not_answer_may_come_back() -> None:
    service = FakeService(script=[S.RUNNING, S.NOT_RESPONDING, S.NOT_RESPONDING, S.RUNNING, S.COMPLETED])
    _, failure, events = _watch(service, FakeClock())
    assert failure is None
    told = [event.status for event in events if isinstance(event, JobStatusChanged)]
    assert told == ["Running", "NotResponding", "Running", "Completed"]


def test_a_job_that_does_not_come_back_is_given_up_in_minutes() -> None:
    clock = FakeClock()
    _, failure, _ = _watch(FakeService(script=[S.RUNNING, S.NOT_RESPONDING]), clock)
    assert isinstance(failure, NotRespondingError)
    assert 300 <= clock.time < 330


@pytest.mark.parametrize("status", [S.UNKNOWN, S.PAUSED, S.PAUSING])
def test_a_state_that_says_nothing_neither_passes_nor_hangs(status: JobStatus) -> None:
    clock = FakeClock()
    service = FakeService(script=[S.RUNNING, status])
    with pytest.raises(ServiceError, match=f"has been {status.value} for 36\\d\\d s") as caught:
        _watch(service, clock)
    assert caught.value.exit_code == 8
    assert service.cancelled == []
    assert clock.time < 3800


def test_hours_of_sleep_are_no_outage() -> None:
    """A laptop that was shut during an outage has not asked for hours; the network comes back after the clock."""
    service = FakeService(script=[S.RUNNING] * 8 + [lost()] * 6 + [S.COMPLETED])
    clock = FakeClock()

    def shut(now: float) -> None:
        if service.looks == 10 and now < 3600:
            clock.time += 8 * 3600

    clock.on_sleep = shut
    _, failure, _ = _watch(service, clock)
    assert failure is None
    assert clock.time > 8 * 3600


def test_sleep_counts_for_the_time_outs() -> None:
    service = FakeService(script=[S.RUNNING])
    clock = FakeClock()

    def shut(now: float) -> None:
        if 5 < now < 3600:
            clock.time += 8 * 3600

    clock.on_sleep = shut
    with pytest.raises(TimedOutError, match="has not ended within 3600 s"):
        _watch(service, clock, total=3600.0)
    assert clock.time < 8 * 3600 + 120


def test_a_log_that_cannot_be_read_between_two_looks_is_read_at_the_next() -> None:
    service = FakeService(script=[S.RUNNING] * 60 + [S.COMPLETED], log=b"one\n")
    clock = FakeClock()

    def fail(now: float) -> None:
        service.log_fails = 30 < now < 60
        service.log = b"one\ntwo\n" if now > 20 else service.log

    clock.on_sleep = fail
    _, failure, events = _watch(service, clock)
    assert failure is None
    assert [event.text for event in events if isinstance(event, LogLines)] == ["one", "two"]


def test_metrics_settle_when_two_reads_agree() -> None:
    clock = FakeClock()
    service = FakeService(metrics={"acc": [0.5, 0.9], "loss": [NAN]})
    last, histories = settle_metrics(service, "j", ["acc"], clock=Clock(now=clock.now, sleep=clock.sleep))
    assert last["acc"] == 0.9
    assert [point.value for point in histories["acc"]] == [0.5, 0.9]
    assert len(clock.sleeps) == 1


def test_late_metrics_are_waited_for() -> None:
    clock = FakeClock()
    service = FakeService(metrics={})

    def arrive(now: float) -> None:
        service.metrics = {"acc": [0.5], "loss": [0.1]} if now > 0.9 else {"acc": [0.5]}

    clock.on_sleep = arrive
    last, _ = settle_metrics(service, "j", ["loss"], clock=Clock(now=clock.now, sleep=clock.sleep))
    assert last == {"acc": 0.5, "loss": 0.1}


def test_a_metric_that_never_comes_is_not_waited_for_without_end() -> None:
    clock = FakeClock()
    last, histories = settle_metrics(
        FakeService(metrics={"acc": [1.0]}), "j", ["loss"], clock=Clock(now=clock.now, sleep=clock.sleep)
    )
    assert (dict(last), dict(histories)) == ({"acc": 1.0}, {})
    assert clock.time <= 3.0
