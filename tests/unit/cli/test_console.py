from __future__ import annotations

import io
import json
import os
import re
import sys
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from aml_train.cli.console import ConsoleListener, Verbosity
from aml_train.core.comparison import Comparison, Side
from aml_train.core.events import (
    BaselineCompared,
    Event,
    GraphNode,
    GraphPlanned,
    ImageReady,
    LogLine,
    LogLines,
    LogsEnded,
    LogTail,
    MetricsSettled,
    ModelRegistered,
    NodeChanged,
    Notice,
    Progress,
    RunFinished,
    StageFinished,
    StageStarted,
    TestsFinished,
    to_json,
)
from aml_train.core.tables import Table
from aml_train.core.text import printable, printable_lines


def shown(*events: Event) -> str:
    file = io.StringIO()
    console = ConsoleListener(file)
    for event in events:
        console(event)
    console.close()
    return file.getvalue()


def test_a_run_is_shown_in_plain_lines_where_there_is_no_terminal() -> None:
    text = shown(
        StageStarted(stage="image", title="Build the image"),
        LogLine(source="build", text="#7 RUN pip install"),
        StageFinished(stage="image", summary="built", seconds=12.34),
        ImageReady(
            reference="r/x@sha256:1", digest="sha256:1", address="a", how="built", compressed_bytes=52_000_000
        ),
        TestsFinished(passed=7, failed=0, skipped=1, seconds=2.0, cached=False),
        MetricsSettled(
            job="j",
            metrics={"val/accuracy": 0.9641},
            tables=(
                Table(name="note", kind="text", rows=(("fi\x1b[2Jne ##[error]",),)),
                Table(
                    name="lr", kind="list", head=("values", "min", "max", "last"), rows=(("3", "0.1", "0.4", "0.2"),)
                ),
                Table(
                    name="cm",
                    kind="matrix",
                    head=("actual ╲ predicted", "0"),
                    rows=(("0", "7"),),
                    total=30,
                    columns=2,
                ),
            ),
            more_tables=1,
        ),
        ModelRegistered(model="digits", version="3", found=False),
        RunFinished(status="passed", exit_code=0, message="The job completed and the gate is met."),
    )
    assert "\x1b" not in text
    for part in (
        "▸ image    Build the image",
        "│ build    #7 RUN pip install",
        "✓ image    built  (12.3 s)",
        "sha256:1 (built, 52.0 MB compressed)",
        "7 passed, 0 failed, 1 skipped",
        "val/accuracy=0.9641",
        "  note    fine ##\u200b[error]\n",
        "  LIST  VALUES  MIN  MAX  LAST\n  lr    3       0.1  0.4  0.2\n",
        "  cm\n    actual ╲ predicted  0\n    0                   7\n    and 29 more rows\n",
        "  and 1 more that the job logged\n",
        "digits version 3",
        "passed (exit code 0)",
    ):
        assert part in text


def test_the_job_is_shown_beside_its_baseline() -> None:
    left = Side(title="the job a", metrics={"acc": 0.97, "\x1b[2Jloss\n": 2.0}, data={"train": "digits:7"})
    right = Side(
        title="digits version 3 (\x1b[31mstage production)", metrics={"acc": 0.95}, data={"train": "digits:6"}
    )
    compared = BaselineCompared(comparison=Comparison(left=left, right=right))
    text = shown(compared, RunFinished(status="passed", exit_code=0, message="good"))
    assert "compared with the baseline, digits version 3 (stage production)\n" in text
    assert "  data train  digits:7  digits:6  differs\n" in text
    assert "  acc             0.97      0.95  +0.02 (+2.11 %)\n" in text
    assert "\x1b" not in text
    assert json.loads(to_json(compared))["comparison"]["right"]["data"] == {"train": "digits:6"}


def test_foreign_lines_cannot_take_the_terminal_over() -> None:
    evil = "\x1b[2J\x1b]0;title\x07[red]markup[/red]\x1b[31m red \x9b1m\x00\x08"
    assert printable(evil) == "[red]markup[/red] red 1m"
    assert printable("a ##[error]b") == "a ##\u200b[error]b"
    assert printable("ü \u202e\u2066\u061c\u200fz") == r"ü \u202e\u2066\u061c\u200fz"
    assert "[red]markup[/red] red" in shown(LogLine(source="job", text=evil))
    assert "\x1b" not in shown(LogLine(source="job", text=evil))


def test_a_reader_that_is_gone_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as file:  # noqa: PTH123 - a descriptor
        monkeypatch.setattr(sys, "stdout", file)
        with pytest.raises(SystemExit, match="1"):
            ConsoleListener(file)(Notice(text="text"))
        file.write("nothing fails any more")


def test_each_line_of_a_log_is_a_line_of_json() -> None:
    event = LogLines(
        text='a\n"\\n\u2028"\nlast', origin="user_logs/std_log_process_1.txt", rank="1", several=True, more=True
    )
    lines = [json.loads(line) for line in to_json(event).split("\n")]
    common = {
        "event": "log-line", "at": event.at.isoformat(), "source": "job",
        "origin": "user_logs/std_log_process_1.txt", "rank": "1",
    }  # fmt: skip
    assert lines == [
        {**common, "text": "a", "more": False},
        {**common, "text": '"\\n\u2028"', "more": False},
        {**common, "text": "last", "more": True},
    ]


@pytest.mark.parametrize(("streamed", "ranks", "count"), [(True, 1, 1), (False, 1, 1), (True, 2, 2)])
def test_the_end_of_one_log_is_shown_once(streamed: bool, ranks: int, count: int) -> None:
    names = [f"log{number}" for number in range(ranks)]
    lines = [LogLines(source="job", origin=name, text=f"broken {name}") for name in names if streamed]
    tails = tuple(LogTail(origin=name, rank="", lines=(f"broken {name}",), size=9) for name in names)
    message = "The job failed.\nThe last lines of its log:\nbroken log0"
    text = shown(
        *lines,
        LogsEnded(job="j", tails=tails, tracebacks=()),
        RunFinished(status="job-failed", exit_code=5, message=message),
    )
    assert text.count("broken log0") == count
    assert "The job failed." in text


def test_long_work_is_told_every_quarter_of_a_minute_without_a_terminal() -> None:
    start = datetime(2026, 1, 1, tzinfo=UTC)
    events = [
        Progress(
            stage="push",
            label="pushing",
            done=i * 10**6,
            total=60 * 10**6,
            unit="bytes",
            at=start + timedelta(seconds=i),
        )
        for i in range(60)
    ]
    lines = shown(*events).splitlines()
    assert len(lines) == 3
    assert "pushing: 15.0 MB of 60.0 MB" in lines[0]


def test_the_hint_stands_below_the_message() -> None:
    text = shown(RunFinished(status="gate-failed", exit_code=6, message="acc missed", hint="train longer"))
    assert text.strip().splitlines() == ["gate-failed (exit code 6)", "acc missed", "train longer"]


class _Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def on_a_terminal(*events: Event, verbosity: Verbosity = "normal") -> str:
    """Return what is left on a terminal of 80 columns, its escape sequences removed."""
    file = _Terminal()
    console = ConsoleListener(file, verbosity=verbosity)
    console._console = Console(file=file, force_terminal=True, width=80, color_system=None, soft_wrap=True)
    for event in events:
        console(event)
    console.close()
    return printable_lines(file.getvalue())


BUILD = (
    StageStarted(stage="image", title="image digits"),
    LogLine(source="build", text="#7 RUN pip install"),
)
BUILT = StageFinished(stage="image", summary="built", seconds=12.34)
FAILED = RunFinished(status="image-failed", exit_code=3, message="the build failed")


@pytest.mark.parametrize(
    ("end", "verbosity", "is_shown"),
    [(BUILT, "normal", False), (BUILT, "verbose", True), (FAILED, "normal", True), (FAILED, "verbose", True)],
)
def test_the_output_of_a_build_is_shown_on_a_terminal_if_it_fails(
    end: Event, verbosity: Verbosity, is_shown: bool
) -> None:
    text = on_a_terminal(*BUILD, end, verbosity=verbosity)
    assert text.count("│ build    #7 RUN pip install") == is_shown


def changed(node: str, status: str, *, reused: bool = False) -> NodeChanged:
    return NodeChanged(job="graph-1", node=node, run=f"run-{node}", status=status, reused=reused)


GRAPH = (
    GraphPlanned(job="graph-1", nodes=tuple(GraphNode(name=name) for name in ("prep", "[red]train", "score"))),
    StageStarted(stage="watch", title="Follow the job"),
    changed("prep", "Queued"),
    changed("prep", "Running"),
    changed("[red]train", "Running"),
    changed("prep", "Completed", reused=True),
)


def test_on_a_terminal_the_stage_says_how_many_nodes_have_ended() -> None:
    file, paper = _Terminal(), io.StringIO()
    console = ConsoleListener(file)
    console._console = Console(file=file, force_terminal=True, width=80, color_system=None)
    for event in GRAPH:
        console(event)
    assert console._live is not None
    Console(file=paper, width=80, color_system=None).print(console._live._progress.get_renderable())
    (row,) = [row.split("0:00")[0].rstrip() for row in paper.getvalue().splitlines() if "▸" in row]
    assert re.sub(r"[ ━╸╺]{2,}", "  ", row) == "▸ watch  Follow the job  1 of 3 nodes"
    console.close()


def test_without_a_terminal_each_change_of_a_node_is_a_line() -> None:
    lines = [line for line in shown(*GRAPH).splitlines() if " node  " in line]
    assert lines == [
        "· node     prep: Queued",
        "· node     prep: Running",
        "· node     [red]train: Running",
        "✓ node     prep: Completed, reused",
    ]


def test_quiet_shows_warnings_and_the_result() -> None:
    file = io.StringIO()
    console = ConsoleListener(file, verbosity="quiet")
    warning = Notice(text="the record is missing", level="warning")
    for event in (*BUILD, BUILT, Notice(text="found"), warning, ModelRegistered(model="m", version="1", found=False)):
        console(event)
    console(RunFinished(status="passed", exit_code=0, message="The job completed."))
    shown = [line for line in file.getvalue().splitlines() if line]
    assert shown == [
        "!          the record is missing",
        "model      m version 1",
        "passed (exit code 0)",
        "The job completed.",
    ]
