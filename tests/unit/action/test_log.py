from __future__ import annotations

import io
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
    RuleVerdict,
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
from aml_train_action.github.log import Channel, GitHubLog, LogLevel
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
    assert [line for line in read.shown if line] == ["│ #1 FROM", "✓ image: built  (1 min 01 s)"]


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
        st.builds(RuleVerdict, metric=word, rule=word, value=st.none(), limit=st.just(1.0), verdict=st.sampled_from(["met", "missed"]), reason=word, where=word),
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


def test_a_command_is_one_line_of_our_own() -> None:
    channel = Channel(io.StringIO(), Masker())
    for line in ("::a::\n::b::", "x", "::a::\r"):
        with pytest.raises(ValueError, match="a workflow command is one line"):
            channel.command(line)
