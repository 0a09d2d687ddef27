from __future__ import annotations

from aml_train.core.events import Event, LogLines, LogsEnded, LogTail, Notice, Traceback
from aml_train.jobs.logs.report import JobLogs, best, cause_of, quote_logs, without_noise
from aml_train.jobs.placement import Placement
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.fake_workspace import FakeService

RAISED = 'Traceback (most recent call last):\n  File "train.py", line 3, in f\n{}: {}\n'


def received(
    service: FakeService, *, every: bool = False, looks: int = 1, reason: str | None = None
) -> tuple[list[Event], LogsEnded]:
    service.script = [JobStatus.RUNNING] * (looks - 1) + [JobStatus.FAILED]
    service.jobs["j"] = JobView(name="j", status=JobStatus.QUEUED, placement=Placement(compute="gpu", nodes=2))
    events: list[Event] = []
    logs = JobLogs(service, "j", events.append, every=every)
    for _ in range(looks):
        view = service.details("j")
        logs.read(view, final=view.status.terminal)
    return events, logs.end(reason)


def ranks(**texts: str) -> dict[str, bytes]:
    return {f"user_logs/std_log_process_{name.removeprefix('r')}.txt": text.encode() for name, text in texts.items()}


def test_lines_carry_path_and_rank_and_azuremls_own_come_on_demand() -> None:
    logs = {**ranks(r0="a\n", r1="b\n"), "system_logs/x.log": b"system\n"}
    events, _ = received(FakeService(logs=logs))
    lines = [event for event in events if isinstance(event, LogLines)]
    assert [(line.origin, line.rank, line.label, line.text) for line in lines] == [
        ("user_logs/std_log_process_0.txt", "0", "rank 0", "a"),
        ("user_logs/std_log_process_1.txt", "1", "rank 1", "b"),
    ]
    events, _ = received(FakeService(logs=logs), every=True)
    assert [event.label for event in events if isinstance(event, LogLines)][-1] == "system_logs/x.log"


def test_the_report_has_the_last_lines_of_every_rank_and_the_first_traceback_first() -> None:
    service = FakeService(
        logs=ranks(
            r0="start 0\n" + RAISED.format("torch.distributed.DistBackendError", "NCCL error"),
            r1="start 1\n" + RAISED.format("ValueError", "bad label"),
            r2="start 2\n",
        )
    )
    events, ended = received(service)
    assert [tail.rank for tail in ended.tails] == ["0", "1", "2"]
    assert [one.message for one in ended.tracebacks] == [
        "ValueError: bad label",
        "torch.distributed.DistBackendError: NCCL error",
    ]
    assert events[-1] == ended
    text = quote_logs(ended)
    assert text.startswith("The first traceback, rank 1:\nTraceback (most recent call last):\n")
    assert text.index("The last lines of its log, rank 1:\nstart 1") < text.index(
        "The last lines of its log, rank 0:"
    )
    assert "The last lines of its log, rank 2:\nstart 2" in text


def test_the_rank_that_azureml_names_comes_first() -> None:
    logs = ranks(r1=RAISED.format("E", "1"), r4=RAISED.format("E", "4"))
    _, ended = received(
        FakeService(logs=logs), reason="Rank 4 of the job's command ended with exit code 1: lost rank 1"
    )
    assert [one.rank for one in ended.tracebacks] == ["4", "1"]


def test_many_ranks_are_told_in_bounded_space() -> None:
    tails = tuple(
        LogTail(origin=f"user_logs/std_log_{n}.txt", rank=f"{n}", lines=("x",) * 30, size=60) for n in range(100)
    )
    found = tuple(
        Traceback(frames=(), message="E", origin=f"user_logs/std_log_{n}.txt", rank=f"{n}", text="T")
        for n in range(100)
    )
    text = quote_logs(LogsEnded(job="j", tails=tails, tracebacks=best(found, failed="77")))
    assert text.startswith("The first traceback, rank 77:\nT\nThe last lines of its log, rank 77:")
    assert text.endswith("… and the logs of 84 more ranks.")
    assert len(text.splitlines()) < 120


def warnings(events: list[Event]) -> list[str]:
    return [event.text for event in events if isinstance(event, Notice) and event.level == "warning"]


def test_between_two_looks_the_logs_are_read_in_turn() -> None:
    service = FakeService(logs=ranks(**{f"r{number}": "a\n" for number in range(10)}), script=[JobStatus.RUNNING])
    service.jobs["j"] = JobView(name="j", status=JobStatus.QUEUED)
    logs = JobLogs(service, "j", lambda _event: None)
    assert logs.turn() == ()
    logs.read(service.details("j"), final=False)
    turns = [[name.rank for name, _ in logs.turn()] for _ in range(2)]
    assert [len(turn) for turn in turns] == [8, 8]
    assert {rank for turn in turns for rank in turn} == {str(number) for number in range(10)}


def test_a_job_that_failed_before_it_wrote_a_log_is_told_from_azuremls_own() -> None:
    service = FakeService(
        logs={"user_logs/std_log.txt": b"", "system_logs/lifecycler.log": b"pulling\nno such image\n"}
    )
    events, ended = received(service)
    assert [(tail.origin, tail.lines) for tail in ended.tails] == [
        ("system_logs/lifecycler.log", ("pulling", "no such image"))
    ]
    assert quote_logs(ended) == "The last lines of system_logs/lifecycler.log:\npulling\nno such image"
    assert [event for event in events if isinstance(event, LogLines)] == []


def test_the_cause_of_a_failure_is_its_exception_at_the_innermost_line_of_the_users_code() -> None:
    frames = (
        ("/mnt/azureml/cr/j/job/exe/wd/src/train.py", 9),
        ("/mnt/azureml/cr/j/job/exe/wd/src/model.py", 3),
        ("/usr/lib/python3/dist-packages/torch/nn/module.py", 1501),
        ("/usr/local/lib/python3.11/json/decoder.py", 355),
    )
    one = Traceback(
        frames=frames, message="ValueError: shapes differ", origin="user_logs/std_log_process_1.txt", rank="1"
    )
    tails = tuple(
        LogTail(origin=f"user_logs/std_log_process_{rank}.txt", rank=str(rank), lines=("x",), size=1)
        for rank in range(2)
    )
    assert (
        cause_of(LogsEnded(job="j", tails=tails[:1], tracebacks=(one,)))
        == "ValueError: shapes differ (src/model.py:3)"
    )
    assert (
        cause_of(LogsEnded(job="j", tails=tails, tracebacks=(one,)))
        == "ValueError: shapes differ (src/model.py:3, rank 1)"
    )
    assert cause_of(LogsEnded(job="j", tails=tails, tracebacks=())) == ""


def test_lines_of_mlflow_are_no_last_lines() -> None:
    own = ("🏃 View run job at: https://x", "🧪 View experiment at: https://x")
    assert without_noise(LogTail(origin="o", rank="", lines=("last", *own), size=9)).lines == ("last",)
    assert without_noise(LogTail(origin="o", rank="", lines=own, size=9)).lines == own
