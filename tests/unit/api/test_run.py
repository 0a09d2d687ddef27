"""A run by the Python interface: its events, its result, its cancellation, and how it is shown."""

from __future__ import annotations

import html
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

import pytest

import aml_train
from aml_train.core.errors import GateFailedError
from aml_train.core.events import Event, JobStatusChanged, RunFinished, StageStarted
from aml_train.jobs.states import JobStatus
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.testing import MemoryJob, MemoryService


def test_events_come_in_their_order_and_the_result_is_that_of_the_command_line(memory: MemoryService) -> None:
    events: list[Event] = []
    result = aml_train.run(aml_train.load_config(), on_event=events.append)
    assert [event.stage for event in events if isinstance(event, StageStarted)] == [
        "target", "submit", "watch", "gate", "register",
    ]  # fmt: skip
    last = events[-1]
    assert isinstance(last, RunFinished)
    assert (last.status, last.exit_code) == (result.status, result.exit_code) == ("passed", 0)
    assert [model.version for model in memory.registered] == ["1"]


def test_a_run_that_fails_has_a_result_which_can_be_raised(memory: MemoryService) -> None:
    del memory
    result = aml_train.run(aml_train.load_config(sets={"gate": {"val/accuracy": ">= 0.99"}}))
    assert (result.status, result.exit_code, result.passed) == ("gate-failed", 6, False)
    with pytest.raises(GateFailedError, match=r"val/accuracy = 0.97, wanted >= 0.99"):
        result.raise_for_status()


def endless(job: MemoryJob) -> Iterator[None]:
    while True:
        job.say("training")
        yield


def when_running(act: Callable[[], object]) -> Callable[[Event], None]:
    """Return a listener that acts, in another thread, when the job runs."""

    def listen(event: Event) -> None:
        if isinstance(event, JobStatusChanged) and event.status == JobStatus.RUNNING.value:
            threading.Thread(target=act).start()

    return listen


def test_another_thread_cancels_the_job_by_a_token(memory: MemoryService) -> None:
    memory.training = endless
    token = aml_train.CancelToken()
    result = aml_train.run(aml_train.load_config(), on_event=when_running(token.cancel), cancel=token)
    assert (result.status, result.exit_code, result.interrupted) == ("cancelled", 7, True)
    assert [view.status for view in memory.jobs.values()] == [JobStatus.CANCELED]


def test_a_run_that_was_cancelled_before_submits_nothing(memory: MemoryService) -> None:
    token = aml_train.CancelToken()
    token.cancel()
    assert aml_train.run(aml_train.load_config(), cancel=token).exit_code == 7
    assert not memory.jobs


def test_a_run_that_attached_leaves_the_job_alone(memory: MemoryService) -> None:
    memory.training = endless
    submitted = aml_train.run(aml_train.load_config(), RunOptions(wait=False))
    assert submitted.job is not None
    token = aml_train.CancelToken()
    name = submitted.job.name
    result = aml_train.attach(aml_train.load_config(), name, on_event=when_running(token.cancel), cancel=token)
    assert result.exit_code == 7
    assert memory.jobs[name].status is not JobStatus.CANCELED


def test_an_interruption_of_the_program_cancels_the_job_and_is_raised_again(memory: MemoryService) -> None:
    memory.training = endless
    before = signal.getsignal(signal.SIGINT)
    ended: list[Event] = []
    interrupt = when_running(lambda: signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT))

    def listen(event: Event) -> None:
        interrupt(event)
        if isinstance(event, RunFinished):
            ended.append(event)

    with pytest.raises(KeyboardInterrupt):
        aml_train.run(aml_train.load_config(), on_event=listen)
    assert signal.getsignal(signal.SIGINT) is before, "the library installs no handler"
    assert [view.status for view in memory.jobs.values()] == [JobStatus.CANCELED]
    assert [getattr(event, "status", "") for event in ended] == ["cancelled"]


def test_it_works_in_another_thread(memory: MemoryService) -> None:
    del memory
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(aml_train.run(aml_train.load_config())))
    thread.start()
    thread.join()
    assert [result.status for result in results] == ["passed"]


def test_a_result_is_shown_as_its_report_in_a_frame_and_prints_as_text(memory: MemoryService) -> None:
    del memory
    result = aml_train.run(aml_train.load_config())
    shown = result._repr_html_()
    found = re.fullmatch(r'<iframe srcdoc="([^"]*)" sandbox style="[^"]*"></iframe>', shown)
    assert found is not None
    page = html.unescape(found[1])
    assert "<script" not in page
    for text in ("passed", "val/accuracy", "met with 0.02 to spare", "<figure", "digits"):
        assert text in page, text
    assert str(result).splitlines()[0] == "passed (exit code 0)"
    assert "met: val/accuracy = 0.97, wanted >= 0.95: met with 0.02 to spare" in str(result)


@contextmanager
def traced() -> Iterator[None]:
    def trace(_frame: object, _event: str, _value: object) -> Any:
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    threading.settrace(trace)
    try:
        yield
    finally:
        threading.settrace(None)
        sys.settrace(before)


@contextmanager
def covered() -> Iterator[None]:
    coverage = pytest.importorskip("coverage")
    before, measured = sys.gettrace(), coverage.Coverage(data_file=None)
    measured.start()
    try:
        yield
    finally:
        measured.stop()
        sys.settrace(before)


@pytest.mark.parametrize("watched", [traced, covered])
def test_a_run_ends_also_under_a_debugger_and_coverage(
    watched: Callable[[], AbstractContextManager[None]], memory: MemoryService
) -> None:
    with watched():
        assert aml_train.run(aml_train.load_config()).passed
        memory.training = endless
        token = aml_train.CancelToken()
        config = aml_train.load_config(sets={"job.inputs.epochs": 9})
        assert aml_train.run(config, on_event=when_running(token.cancel), cancel=token).status == "cancelled"
