"""What the command line does where its output cannot be written as it is, or not at all."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from aml_train.cli.console import ConsoleListener
from aml_train.cli.process import run_command_line
from aml_train.core.events import LogLines, Notice, RunFinished, StageFinished, StageStarted
from aml_train.core.streams import lasting_output, prepare_streams
from aml_train.pipeline.execute import json_listener


def _as(encoding: str) -> tuple[io.TextIOWrapper, io.BytesIO]:
    held = io.BytesIO()
    return io.TextIOWrapper(held, encoding=encoding, newline="\n"), held


@pytest.fixture
def standard(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """Give the test streams of its own; what main() changes of them is undone."""
    with monkeypatch.context() as changes:
        yield changes


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "iso-8859-15", "cp437", "utf-8"])
def test_every_sign_can_be_printed_in_every_encoding(standard: pytest.MonkeyPatch, encoding: str) -> None:
    stream, held = _as(encoding)
    standard.setattr(sys, "stdout", stream)
    prepare_streams()
    console = ConsoleListener(stream)
    console(StageStarted(stage="image", title="Build · 1…"))
    console(StageFinished(stage="image", summary="built → pushed", seconds=1))
    console(Notice(text="a note – ##[group] \udcff 日本 \N{GRINNING FACE}"))
    console(LogLines(origin="user_logs/std_log.txt", text="a line │ ✓ é"))
    console(RunFinished(status="passed", exit_code=0, message="The gate is met — «ok».", hint=None, facts={}))
    stream.flush()
    text = held.getvalue().decode(encoding)
    assert "built" in text


class _Full(io.StringIO):
    """A stream of a disk that becomes full after some lines."""

    def __init__(self, room: int, error: OSError) -> None:
        super().__init__()
        self.room, self.error = room, error

    def write(self, text: str) -> int:
        if self.room <= 0:
            raise self.error
        self.room -= 1
        return super().write(text)


@pytest.mark.parametrize("room", [0, 2])
@pytest.mark.parametrize(
    ("error", "why"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "No space left on device"),
        (BrokenPipeError(errno.EPIPE, "Broken pipe"), "Broken pipe"),
    ],
)
def test_a_run_outlives_its_output(error: OSError, why: str, room: int) -> None:
    aside = io.StringIO()
    console = ConsoleListener(lasting_output(_Full(room, error), aside))
    for number in range(5):
        console(Notice(text=f"note {number}"))
        console(LogLines(origin="user_logs/std_log.txt", text="a line"))
    console.close()
    assert aside.getvalue() == f"aml-train: The output cannot be written any more: {why}. The run continues.\n"


def test_a_record_that_cannot_be_written_does_not_end_the_run(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    full = _Full(1, OSError(errno.ENOSPC, "No space left on device"))
    monkeypatch.setattr(Path, "open", lambda *_args, **_kwargs: full)
    with json_listener(tmp_path / "record") as listeners:
        for number in range(3):
            listeners[0](Notice(text=str(number)))
    said = capsys.readouterr().err
    assert said == f"aml-train: --events {tmp_path / 'record'} cannot be written any more: No space left on device. The run continues.\n"  # fmt: skip


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/f"), 3, "aml-train: /tmp/f cannot be written: No space left on device\n"),
        (FileNotFoundError(errno.ENOENT, "No such file or directory"), 2, "aml-train: The working directory does not exist any more.\n"),
    ],
)  # fmt: skip
def test_the_command_line_names_them(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], error: OSError, code: int, said: str
) -> None:
    from aml_train.cli import process
    from aml_train.core import machine

    def fail(**_options: object) -> None:
        raise error

    monkeypatch.setattr(process, "cli", fail)
    monkeypatch.setattr(machine, "_is_gone", lambda: True)
    assert run_command_line() == code
    assert capsys.readouterr().err.startswith(said)
