from __future__ import annotations

import dataclasses
import io
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.events import (
    Event,
    ImageReady,
    JobStatusChanged,
    JobSubmitted,
    LogLine,
    LogLines,
    ModelRegistered,
    Notice,
    Progress,
    RuleDecided,
    RunFinished,
    Stage,
    StageFinished,
    StageStarted,
    TestFailure,
    TestsFinished,
)
from aml_train.core.masking import Masker
from aml_train.core.text import LONGEST_LINE
from aml_train_action.github.annotations import Annotations, Places
from aml_train_action.github.log import Channel, ChannelText, GitHubLog, LogLevel
from tests.unit.action.runner_model import COMMANDS, Done, Runner

HOSTILE = [
    "::set-output name=x::1",
    "  ::add-mask::a",
    "\u00a0::error::x",
    "##[error]x",
    "text ##[set-env name=PATH]evil",
    "::stop-commands::guess",
    "::guess::",
    "##[endgroup]",
    "harmless\r::set-output name=x::1",
    "a\r\n::debug::b\n::warning::c",
    "%0A::set-output name=x::1",
    "\x1b[0m::set-output name=x::1",
    "\x00::notice::x\x00",
    "\udcff::notice::x",
    "::add-matcher::/etc/passwd",
    "\u2028::error::x",
    "::::",
    "::",
    "",
]


def logged(*events: Event, level: LogLevel = "info", secrets: tuple[str, ...] = ()) -> str:
    stream = io.StringIO()
    masker = Masker(secrets)
    log = GitHubLog(Channel(stream, masker), masker, level=level)
    for event in events:
        log(event)
    log.close()
    return stream.getvalue()


def names(log: str) -> list[str]:
    return [command.name for command in Runner().read(log).done]


def test_a_stage_is_a_group_and_its_end_stands_below() -> None:
    text = logged(
        StageStarted(stage="image", title="build 100%"),
        LogLine(source="build", text="#1 FROM"),
        StageFinished(stage="image", summary="built", seconds=61),
    )
    read = Runner().read(text)
    assert read.done == [Done("group", "", "image: build 100%25"), Done("endgroup", "", "")]
    assert read.token is None
    assert [line for line in read.shown if line] == ["│ #1 FROM", "✓ image: built (1 min 01 s)"]


def test_stages_at_the_same_time_are_not_nested() -> None:
    text = logged(
        StageStarted(stage="push", title="push"),
        StageStarted(stage="tests", title="tests"),
        StageFinished(stage="push", summary="pushed", seconds=1),
        StageFinished(stage="tests", summary="passed", seconds=1),
    )
    assert names(text) == ["group", "endgroup", "group", "endgroup"]


def test_the_end_closes_what_is_open() -> None:
    text = logged(
        StageStarted(stage="watch", title="follow"),
        RunFinished(status="job-failed", exit_code=5, message="line 1\n::error::line 2", hint="look"),
    )
    read = Runner().read(text)
    assert [command.name for command in read.done] == ["group", "endgroup"]
    assert "✗ job-failed (exit code 5)" in read.shown
    assert "  ::error::line 2" in read.shown
    assert read.token is None


@pytest.mark.parametrize("line", HOSTILE)
@pytest.mark.parametrize("source", ["build", "tests", "job"])
def test_hostile_lines_are_shown_and_not_obeyed(line: str, source: str) -> None:
    text = logged(LogLine(source=source, text=line, origin="user_logs/std_log.txt"))  # type: ignore[arg-type]
    read = Runner().read(text)
    assert read.done == []
    assert read.token is None
    text.encode()


def _events() -> st.SearchStrategy[Event]:
    word = st.one_of(
        st.text(),
        st.sampled_from(HOSTILE),
        st.builds(
            "{}::{} {}::{}".format,
            st.sampled_from(["", " ", "\r", "\n", "x"]),
            st.sampled_from(sorted(COMMANDS)),
            st.text(max_size=3),
            st.text(max_size=3),
        ),
        st.builds(
            "{}##[{} {}]{}".format,
            st.text(max_size=3),
            st.sampled_from(sorted(COMMANDS)),
            st.text(max_size=3),
            st.text(max_size=3),
        ),
    )
    stage: st.SearchStrategy[Stage] = st.sampled_from(["image", "tests", "watch"])
    return st.one_of(
        st.builds(LogLine, source=st.sampled_from(["build", "tests", "job"]), text=word, origin=word),
        st.builds(LogLines, text=word, origin=word, rank=word, several=st.booleans(), more=st.booleans()),
        st.builds(StageStarted, stage=stage, title=word),
        st.builds(StageFinished, stage=stage, summary=word, seconds=st.just(1.0)),
        st.builds(Notice, text=word, level=st.sampled_from(["info", "warning"])),
        st.builds(JobSubmitted, job=word, attached=st.booleans(), studio_url=word),
        st.builds(JobStatusChanged, job=word, status=word),
        st.builds(ModelRegistered, model=word, version=word, found=st.booleans()),
        st.builds(ImageReady, reference=word, digest=word, address=word, how=st.just("built")),
        st.builds(RuleDecided, metric=word, rule=word, value=st.none(), limit=st.just(1.0), met=st.booleans(), reason=word, where=word),
        st.builds(
            TestsFinished,
            passed=st.just(1), failed=st.just(1), skipped=st.just(0), seconds=st.just(1.0), cached=st.just(False),
            failures=st.tuples(st.builds(TestFailure, name=word, file=st.none() | word, line=st.none() | st.just(3), message=word)),
        ),
        st.builds(RunFinished, status=st.sampled_from(["passed", "job-failed"]), exit_code=st.sampled_from([0, 5]), message=word, hint=st.none() | word),
    )  # fmt: skip


PLACE = Path(__file__).parent
OURS = {"group", "endgroup", "error", "warning"}


@given(st.lists(_events(), max_size=8), st.lists(st.text("0123456789abcdef", min_size=8), min_size=40, max_size=40))
def test_nothing_foreign_ever_takes_effect(events: list[Event], tokens: list[str]) -> None:
    stream = io.StringIO()
    masker = Masker()
    supply = iter(enumerate(tokens * 10))

    def token() -> str:
        index, word = next(supply)
        return f"token-{index}-{word}"

    channel = Channel(stream, masker, token=token)
    sent: list[str] = []
    send = channel.command
    channel.command = lambda line: (sent.append(line), send(line))[1]  # type: ignore[method-assign, func-returns-value]
    log = GitHubLog(channel, masker)
    annotations = Annotations(channel, masker, Places(workspace=PLACE, directory=PLACE, project=PLACE))
    for event in events:
        log(event)
        annotations(event)
    log.close()
    stream.getvalue().encode()
    read = Runner().read(stream.getvalue())
    assert [(done.name, done.properties, done.data) for done in read.done] == [
        (found.name, found.properties, found.data) for line in sent if (found := Runner().parse(line))
    ]
    assert len(sent) == len(read.done)
    assert {done.name for done in read.done} <= OURS
    assert read.token is None


def test_every_pause_has_a_token_of_its_own() -> None:
    text = logged(
        Notice(text="a"),
        StageStarted(stage="image", title="t"),
        Notice(text="b"),
        StageStarted(stage="tests", title="t"),
    )
    tokens = [
        line.removeprefix("::stop-commands::") for line in text.splitlines() if line.startswith("::stop-commands")
    ]
    assert len(set(tokens)) == len(tokens) == 2
    assert all(len(token) > 30 for token in tokens)


def test_a_line_of_ten_megabytes_is_shown_in_pieces_and_nothing_is_lost() -> None:
    line = "0123456789" * 1_000_000
    text = logged(LogLine(source="build", text=line))
    shown = [part.removeprefix("│ ") for part in text.splitlines() if part.startswith("│")]
    assert "".join(shown) == line
    assert max(map(len, shown)) <= 60_000


def test_a_secret_cut_in_two_by_the_reader_of_the_log_is_masked() -> None:
    secret = "a-very-long-secret"
    origin = "user_logs/std_log.txt"
    whole = "x" * (LONGEST_LINE - 5) + secret + "tail"
    text = logged(
        LogLine(source="job", text=whole[:LONGEST_LINE], origin=origin, more=True),
        LogLine(source="job", text=whole[LONGEST_LINE:], origin=origin),
        LogLine(source="job", text="next", origin=origin),
        secrets=(secret,),
    )
    assert secret[:5] not in text
    shown = [part.removeprefix("│ ") for part in text.splitlines() if part.startswith("│")]
    assert "".join(shown) == "x" * (LONGEST_LINE - 5) + "***tail" + "next"


def test_a_piece_that_has_no_successor_is_shown_at_the_end() -> None:
    text = logged(
        LogLine(source="job", text="x" * (LONGEST_LINE - 3) + "abc", origin="a", more=True), secrets=("abcdef",)
    )
    assert "abc" in text


def test_the_logs_of_ranks_carry_their_names() -> None:
    one = LogLines(text="hello\nworld", origin="user_logs/std_log_process_1.txt", rank="1")
    assert "│ hello\n│ world\n" in logged(one)
    assert "│ rank 1: hello\n│ rank 1: world\n" in logged(dataclasses.replace(one, several=True))
    system = LogLines(text="hello", origin="system_logs/x.log")
    assert "│ system_logs/x.log: hello\n" in logged(system)


@pytest.mark.parametrize("line", HOSTILE)
def test_hostile_lines_among_others_are_shown_and_not_obeyed(line: str) -> None:
    event = LogLines(text=f"before\n{line}\nafter", origin="user_logs/std_log.txt", rank=line, several=True)
    read = Runner().read(logged(event, dataclasses.replace(event, more=True), event))
    assert read.done == []
    assert read.token is None
    assert sum("before" in one for one in read.shown) == 3


def test_a_secret_over_the_border_of_two_readings_is_masked() -> None:
    def lines(text: str, *, more: bool = False) -> LogLines:
        return LogLines(text=text, origin="user_logs/std_log.txt", more=more)

    text = logged(
        lines("one verysecret\ntwo very", more=True), lines("se", more=True), lines("cret\nthree\nfour verysec", more=True),
        lines("ret end"), secrets=("verysecret",),
    )  # fmt: skip
    shown = [part for part in text.splitlines() if part.startswith("│")]
    assert "secret" not in "".join(part.removeprefix("│ ") for part in shown)
    assert "│ one ***" in shown
    assert "│ three" in shown
    assert "".join(part.removeprefix("│ ") for part in shown) == "one ***two ***threefour *** end"


def test_what_many_lines_show_is_what_each_would() -> None:
    lines = [*HOSTILE, "plain", "", "x" * 130_000, "\x1b[31mverysecret\x1b[0m", "very\x1b[1msecret"]
    together = logged(LogLines(text="\n".join(lines), origin="std_log.txt"), secrets=("verysecret",))
    apart = logged(*(LogLines(text=line, origin="std_log.txt") for line in lines), secrets=("verysecret",))
    assert [line for line in together.splitlines() if line.startswith("│")] == [
        line for line in apart.splitlines() if line.startswith("│")
    ]
    assert "verysecret" not in together


def test_quiet_leaves_foreign_output_out() -> None:
    text = logged(LogLine(source="job", text="noise"), Notice(text="kept"), level="warning")
    assert "noise" not in text
    assert "kept" in text


def test_long_work_is_told_every_quarter_of_a_minute() -> None:
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
    assert logged(*events).count("pushing:") == 3


def test_a_command_is_one_line_of_our_own() -> None:
    channel = Channel(io.StringIO(), Masker())
    for line in ("::a::\n::b::", "x", "::a::\r"):
        with pytest.raises(ValueError, match="a workflow command is one line"):
            channel.command(line)


def test_what_libraries_print_goes_the_same_way() -> None:
    stream = io.StringIO()
    channel = Channel(stream, Masker())
    printed = ChannelText(channel)
    printed.write("::set-output ")
    printed.write("name=x::1\nrest")
    printed.finish()
    channel.resume()
    read = Runner().read(stream.getvalue())
    assert read.done == []
    assert "  ::set-output name=x::1" in read.shown
    assert "  rest" in read.shown
