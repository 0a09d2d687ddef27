from __future__ import annotations

import pytest

from aml_train.errors import CancelledError, JobFailedError, NotRespondingError, ServiceError, TimedOutError
from aml_train.events import Event, JobStatusChanged, LogLine, Notice
from aml_train.jobs.clock import Clock
from aml_train.jobs.service import JobView
from aml_train.jobs.states import JobStatus
from aml_train.jobs.watch import Limits, Pace, settle_metrics, watch
from tests.fake_service import NAN, FakeClock, FakeService, lost

S = JobStatus


def _watch(service: FakeService, clock: FakeClock, **limits: float) -> tuple[JobView, Exception | None, list[Event]]:
    service.jobs["j"] = JobView(name="j", status=S.QUEUED)
    events: list[Event] = []
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
    assert [event.text for event in events if isinstance(event, LogLine)] == ["one", "two", "last"]


@pytest.mark.parametrize(
    ("end", "kind"),
    [(S.FAILED, JobFailedError), (S.CANCELED, CancelledError), (S.NOT_RESPONDING, NotRespondingError)],
)
def test_no_other_end_than_completed_passes(end: JobStatus, kind: type[Exception]) -> None:
    service = FakeService(script=[S.RUNNING, S.CANCEL_REQUESTED, end], error="the disk is full", log=b"a\nb\n")
    _, failure, _ = _watch(service, FakeClock())
    assert isinstance(failure, kind)


def test_a_failure_tells_the_last_lines() -> None:
    service = FakeService(script=[S.FAILED], log=b"\n".join(b"line %d" % i for i in range(100)))
    _, failure, _ = _watch(service, FakeClock())
    assert failure is not None
    assert "line 99" in str(failure)
    assert "line 42" not in str(failure)


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
        _watch(service, FakeClock(), patience=600.0)
    assert "attach" in (caught.value.hint or "")
    assert "look at the status page" in (caught.value.hint or "")


def test_a_lasting_refusal_is_not_retried() -> None:
    service = FakeService(script=[S.RUNNING, ServiceError("403")])
    with pytest.raises(ServiceError, match="403"):
        _watch(service, FakeClock())
    assert service.looks == 2


def test_the_total_time_out_cancels() -> None:
    service = FakeService(script=[S.RUNNING])
    with pytest.raises(TimedOutError, match=r"has not ended within 60 s \(watch.timeout\)"):
        _watch(service, FakeClock(), total=60.0)
    assert service.cancelled == ["j"]


def test_the_queue_time_out_cancels_only_what_has_not_started() -> None:
    service = FakeService(script=[S.QUEUED])
    with pytest.raises(TimedOutError, match=r"has not started within 60 s .*its status is Queued"):
        _watch(service, FakeClock(), queue=60.0)
    assert service.cancelled == ["j"]
    running = FakeService(script=[S.RUNNING] * 50 + [S.COMPLETED])
    assert _watch(running, FakeClock(), queue=2.0)[1] is None


def test_twelve_hours_cost_few_calls() -> None:
    clock = FakeClock()
    service = FakeService(script=[S.RUNNING])
    with pytest.raises(TimedOutError):
        _watch(service, clock, total=12 * 3600.0)
    assert service.looks < 2000
    assert clock.sleeps[0] == 0.25
    assert max(clock.sleeps) == 30.0


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
