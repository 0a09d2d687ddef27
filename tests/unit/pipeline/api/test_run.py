"""A run in the background: its events, its result, its cancellation, and how a notebook shows it."""

from __future__ import annotations

import asyncio
import html.parser
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest

import aml_train
from aml_train.core import interrupts
from aml_train.core.errors import GateFailedError, TestsFailedError
from aml_train.core.events import Event, LogLine, Notice, RunFinished, StageFinished, StageStarted
from aml_train.core.threads import CancelToken, run_parallel, temporary, wait_for
from aml_train.jobs.states import JobStatus
from aml_train.pipeline.api import running
from aml_train.pipeline.api.running import Run
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.testing import MemoryJob, MemoryService


def planned(**sets: object) -> Any:
    return aml_train.plan(aml_train.load_config(sets={f"job.inputs.{name}": value for name, value in sets.items()}))


def test_events_come_in_their_order_each_once_and_the_result_is_that_of_the_command_line(
    memory: MemoryService,
) -> None:
    with aml_train.run(planned()) as running_one:
        events = list(running_one)
    assert [event.stage for event in events if isinstance(event, StageStarted)] == [
        "target", "submit", "watch", "gate", "register",
    ]  # fmt: skip
    last = events[-1]
    assert isinstance(last, RunFinished)
    result = running_one.result()
    assert (last.status, last.exit_code) == (result.status, result.exit_code) == ("passed", 0)
    assert list(running_one) == []
    assert [model.version for model in memory.registered] == ["1"]
    assert running_one.done
    assert "ended: passed, job " in repr(running_one)


def test_a_run_that_fails_has_a_result_which_can_be_raised(memory: MemoryService) -> None:
    del memory
    config = aml_train.load_config(sets={"gate": {"val/accuracy": ">= 0.99"}})
    result = aml_train.run(aml_train.plan(config)).result()
    assert (result.status, result.exit_code, result.passed) == ("gate-failed", 6, False)
    with pytest.raises(GateFailedError, match=r"val/accuracy = 0.97, wanted >= 0.99"):
        result.raise_for_status()


def test_listeners_receive_every_event(memory: MemoryService) -> None:
    del memory
    received: list[Event] = []
    begun = aml_train.run(planned(), listeners=[received.append])
    assert list(begun) == received


def endless(job: MemoryJob) -> Iterator[None]:
    while True:
        job.say("training")
        yield


def _until(check: Callable[[], bool]) -> None:
    """Wait for another thread; a hang is a failure."""
    deadline = time.monotonic() + 60
    while not check():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_cancelling_cancels_the_job(memory: MemoryService) -> None:
    memory.training = endless
    begun = aml_train.run(planned())
    _until(lambda: any(view.status is JobStatus.RUNNING for view in memory.jobs.values()))
    begun.cancel()
    result = begun.result(timeout=60)
    assert (result.status, result.exit_code) == ("cancelled", 7)
    assert [view.status for view in memory.jobs.values()] == [JobStatus.CANCELED]
    begun.cancel()
    assert begun.result() is result


def test_a_run_that_attached_leaves_the_job_alone(memory: MemoryService) -> None:
    memory.training = endless
    submitted = aml_train.run(planned(), RunOptions(wait=False)).result()
    assert submitted.job is not None
    begun = aml_train.attach(aml_train.load_config(), submitted.job.name)
    _until(lambda: any(isinstance(event, StageStarted) and event.stage == "watch" for event in begun))
    begun.cancel()
    assert begun.result(timeout=60).exit_code == 7
    assert memory.jobs[submitted.job.name].status is not JobStatus.CANCELED


@pytest.mark.parametrize("waiting", ["result", "events"])
def test_an_interruption_of_the_program_cancels_the_job_and_is_raised_again(
    waiting: str, memory: MemoryService
) -> None:
    memory.training = endless
    begun = aml_train.run(planned())
    _until(lambda: any(view.status is JobStatus.RUNNING for view in memory.jobs.values()))
    before = signal.getsignal(signal.SIGINT)
    threading.Timer(0.2, signal.raise_signal, [signal.SIGINT]).start()
    with pytest.raises(KeyboardInterrupt):
        begun.result() if waiting == "result" else list(begun)
    assert signal.getsignal(signal.SIGINT) is before, "the library installs no handler"
    assert begun.done
    assert begun.result().status == "cancelled"
    assert [view.status for view in memory.jobs.values()] == [JobStatus.CANCELED]


def test_an_interruption_between_two_waits_for_events_cancels_the_job_too(memory: MemoryService) -> None:
    memory.training = endless
    begun = aml_train.run(planned())
    events = iter(begun)
    assert isinstance(events, Generator)
    assert isinstance(next(events), Event)
    _until(lambda: any(view.status is JobStatus.RUNNING for view in memory.jobs.values()))
    # A signal is handled between two instructions: here at the first one after an event was given.
    with pytest.raises(KeyboardInterrupt):
        events.throw(KeyboardInterrupt())
    assert begun.done
    assert begun.result().status == "cancelled"
    assert [view.status for view in memory.jobs.values()] == [JobStatus.CANCELED]


def test_an_exception_of_the_block_cancels_the_run(memory: MemoryService) -> None:
    memory.training = endless
    begun = aml_train.run(planned())

    def use() -> None:
        with begun:
            for event in begun:
                if isinstance(event, StageStarted) and event.stage == "watch":
                    raise RuntimeError("of the user")

    with pytest.raises(RuntimeError, match="of the user"):
        use()
    assert begun.result().status == "cancelled"


def test_it_works_in_another_thread_and_next_to_an_event_loop(memory: MemoryService) -> None:
    del memory
    results: list[RunResult] = []
    thread = threading.Thread(target=lambda: results.append(aml_train.run(planned()).result()))
    thread.start()
    thread.join()

    async def main() -> list[str]:
        begun = aml_train.run(planned(epochs=3))
        found = [event.name async for event in begun]
        results.append(begun.result())
        return found

    names = asyncio.run(main())
    assert (names[0], names[-1]) == ("stage-started", "run-finished")
    assert [result.status for result in results] == ["passed", "passed"]


def test_a_fault_of_ours_is_raised_where_the_result_is_wanted() -> None:
    def work(_emit: object) -> RunResult:
        raise ValueError("ours")

    begun = Run(work)
    for _ in range(2):
        with pytest.raises(ValueError, match="ours"):
            begun.result()
    with pytest.raises(ValueError, match="ours"):
        list(begun)


def test_waiting_for_a_result_has_a_time_out() -> None:
    over = threading.Event()

    def work(_emit: object) -> RunResult:
        assert over.wait(60)
        return RunResult(status="passed", exit_code=0)

    begun = Run(work)
    with pytest.raises(TimeoutError, match=r"has not ended within 0.01 seconds; it continues"):
        begun.result(timeout=0.01)
    over.set()
    assert begun.result().passed


def test_unread_logs_are_bounded_and_everything_else_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_MOST_UNREAD", 3)

    def work(emit: Callable[[Event], None]) -> RunResult:
        for number in range(10):
            emit(LogLine(source="job", text=str(number)))
        emit(Notice(text="kept"))
        return RunResult(status="passed", exit_code=0)

    begun = Run(work)
    begun.result()
    assert begun.left_out == 7
    assert [getattr(event, "text", "") for event in begun] == ["0", "1", "2", "kept"]


def _join_forever() -> None:
    thread = threading.Thread(target=threading.Event().wait, daemon=True)
    run_parallel(lambda _token: None, lambda token: _wait_for_cancel(token, thread), name="aside", ended="")


def _wait_for_cancel(token: CancelToken, _thread: threading.Thread) -> None:
    over = threading.Event()
    with token.on_cancel(over.set):
        over.wait()


def _future_forever() -> None:
    from concurrent.futures import Future

    wait_for(Future[None]())


def _make_forever() -> None:
    with temporary(threading.Event().wait, lambda _made: None):
        pass


@pytest.mark.parametrize(
    "wait", [_join_forever, _future_forever, _make_forever, lambda: interrupts.sleep_in_slices(3600)]
)
def test_waiting_in_a_thread_is_interrupted(wait: Callable[[], None]) -> None:
    interrupt, raised = interrupts.ThreadInterrupt(), list[bool]()

    def work() -> None:
        try:
            with interrupt.receive():
                wait()
        except KeyboardInterrupt:
            raised.append(interrupts.interrupted())

    thread = threading.Thread(target=work)
    thread.start()
    interrupt.send()
    thread.join(60)
    assert not thread.is_alive()
    assert raised == [False], "outside of the block, nothing is interrupted"


@pytest.mark.parametrize("fails", [False, True])
def test_a_call_that_does_not_return_is_freed(*, fails: bool) -> None:
    interrupt, over, inside, ended = interrupts.ThreadInterrupt(), threading.Event(), threading.Event(), list[str]()

    def work() -> None:
        try:
            with interrupt.receive(), interrupts.freed_by_interrupt(over.set):
                inside.set()
                over.wait()
                if fails:
                    raise TestsFailedError("the tests were killed")
        except KeyboardInterrupt:
            ended.append("interrupted")

    thread = threading.Thread(target=work)
    thread.start()
    assert inside.wait(60)
    interrupt.send()
    thread.join(60)
    assert ended == ["interrupted"]


def _busy(seconds: float) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        pass


def test_an_interruption_that_was_lost_comes_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interrupts, "_FORCE_SECONDS", 0.05)
    monkeypatch.setattr(interrupts, "_LOST_SECONDS", 0.05)
    interrupt, count = interrupts.ThreadInterrupt(), 0
    began = threading.Event()

    def work() -> None:
        nonlocal count
        with interrupt.receive():
            while count < 3:
                try:
                    began.set()
                    _busy(60)
                except KeyboardInterrupt:  # as a finalizer would lose it
                    count += 1
            interrupts.acknowledge()

    thread = threading.Thread(target=work)
    thread.start()
    assert began.wait(60)
    interrupt.send()
    thread.join(60)
    assert count == 3


def test_an_interruption_before_the_work_or_after_it() -> None:
    early = interrupts.ThreadInterrupt()
    early.send()
    with pytest.raises(KeyboardInterrupt), early.receive():
        raise AssertionError("the work must not begin")
    late = interrupts.ThreadInterrupt()
    with late.receive():
        pass
    late.send()


class Checker(html.parser.HTMLParser):
    """Collects the tags of HTML."""

    def __init__(self) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes |= {name for name, _ in attrs}


def test_a_result_is_shown_with_its_gate_and_curves_and_without_scripts(memory: MemoryService) -> None:
    del memory
    begun = aml_train.run(planned())
    result = begun.result()
    shown = result._repr_html_()
    checker = Checker()
    checker.feed(shown)
    assert checker.tags <= {"div", "b", "span", "table", "thead", "tbody", "tr", "th", "td", "figure", "figcaption", "svg", "polyline"}  # fmt: skip
    assert not {name for name in checker.attributes if name.startswith("on") or name in ("href", "src")}
    for text in ("passed (exit code 0)", "val/accuracy", "met with 0.02 to spare", "<polyline", "digits version 1"):
        assert text in shown, text
    assert begun._repr_html_() == shown
    plain = str(result)
    assert "✓ passed (exit code 0)" in plain
    assert "val/accuracy over steps" in plain
    assert "| ✓ met | val/accuracy | \\>= 0.95 |" in result._repr_markdown_()


HOSTILE = '<script>alert(1)</script>"><img src=x onerror=alert(2)>|`![x](http://evil)\n# title\x1b[31m'


def test_hostile_text_stays_text() -> None:
    from aml_train.core.notebook import Curve, Grid, Sheet

    sheet = Sheet(
        title=HOSTILE,
        sign="✗",
        text=HOSTILE,
        facts={HOSTILE: HOSTILE},
        grids=(Grid(title=HOSTILE, head=(HOSTILE,), rows=[(HOSTILE,)]),),
        curves=(Curve(name=HOSTILE, points=[(0, 1.0), (1, float("nan")), (5, 2.0)], labels=(HOSTILE, HOSTILE), other=[(0, 2.0)]),),
    )  # fmt: skip
    checker = Checker()
    checker.feed(sheet.html())
    assert not {"script", "img"} & checker.tags
    assert "onerror" not in checker.attributes
    markdown = sheet.markdown()
    assert "\\<script\\>" in markdown
    assert "\n# title" not in markdown
    assert "](" not in markdown.replace("\\]\\(", "")
    assert "\x1b" not in sheet.plain()


class Cell:
    """Stands for the output of a notebook's cell."""

    def __init__(self) -> None:
        self.shown: list[str] = []

    def __call__(self, value: Any, *, display_id: bool) -> Cell:
        assert display_id
        self.update(value)
        return self

    def update(self, value: Any) -> None:
        self.shown.append(value._repr_html_())


def test_a_notebook_updates_its_cell_until_the_end(memory: MemoryService, monkeypatch: pytest.MonkeyPatch) -> None:
    del memory
    cell = Cell()
    monkeypatch.setattr(running, "_notebook_display", lambda: cell)
    monkeypatch.setattr(running, "_UPDATE_SECONDS", 0.0)
    aml_train.run(planned())._ipython_display_()
    assert any("aml-train is running" in shown for shown in cell.shown)
    assert "passed (exit code 0)" in cell.shown[-1]
    assert aml_train.run(planned()).watch().attached


def test_a_terminal_gets_lines(memory: MemoryService, capsys: pytest.CaptureFixture[str]) -> None:
    del memory
    begun = aml_train.run(planned())
    assert begun.watch().passed
    lines = capsys.readouterr().out.splitlines()
    assert any(line.startswith("▸ submit: Submit the job") for line in lines)
    assert any(line.startswith("✓ gate: 1 rule met") for line in lines)
    begun._ipython_display_()
    assert "<Run ended: passed" in capsys.readouterr().out


def test_progress_shows_stages_warnings_and_output() -> None:
    from aml_train.core.events import LogLines, Progress
    from aml_train.pipeline.api.progress import RunProgress

    progress = RunProgress()
    for event in (
        StageStarted(stage="image", title="build it"),
        Progress(stage="image", label="layers", done=1024, total=2048, unit="bytes"),
        LogLines(origin="user_logs/std_log.txt", text="one\ntwo"),
        Notice(text="the disk is nearly full", level="warning"),
    ):
        assert progress.take(event)
    shown = progress.sheet().plain()
    for text in ("layers: 1.0 kB of 2.0 kB", "two", "the disk is nearly full"):
        assert text in shown, shown
    progress.take(StageFinished(stage="image", summary="built", seconds=61))
    assert "✓ image" in progress.sheet().plain()
