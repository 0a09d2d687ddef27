"""Foreign output that would command, hide or flood: from the job, through the built action."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.e2e.hosted_runner import HostedRunner
from tests.e2e.test_endings import quick
from tests.unit.action.runner_model import Runner

pytestmark = pytest.mark.full

LONG = 10_000_000
#: The action with azure-ai-ml loaded takes about half of it; ten times the long line would not fit.
MEMORY = "--memory=320m", "--memory-swap=320m"
#: Text → what of it must be found in the log. Each carries a mark of its own, so that its arrival can be seen.
CORPUS = {
    b"::set-output name=digest::mark01": "::set-output name=digest::mark01",
    b"  ::add-mask::mark02": "::add-mask::mark02",
    b"::error file=README.md,line=1::mark03": "mark03",
    b"::stop-commands::mark04": "::stop-commands::mark04",
    b"::mark04::": "::mark04::",
    b"##[error]mark05": "##[error]mark05",
    b"text ##[set-env name=PATH]mark06": "##[set-env name=PATH]mark06",
    b"##[endgroup]mark07": "mark07",
    b"%0A::error::mark08": "%0A::error::mark08",
    b"mark09\r::error::mark10": "mark09",
    b"mark11\r\r\n::warning::mark12": "mark12",
    b"\x1b[31mmark13\x1b[0m \x1b]0;title\x07::notice::mark14 \x1b[2J\x1b[1A": "mark14",
    b"\x00::error::mark15\x00": "mark15",
    b"\xff\xfe::error::mark16\xc3\x28": "mark16",
    "\u2028::error::mark17\u2029\u0085\u000b\u000c::error::mark18".encode(): "mark18",
    "\u202e::error::mark19\u2066\ufeff\u00a0::error::mark20".encode(): "mark20",
    b"::add-matcher::/etc/passwd mark21": "mark21",
    b"::save-state name=x::mark22": "mark22",
    b"::echo::on mark23": "mark23",
    b"::debug::mark24": "mark24",
    b"::group::mark25": "mark25",
}
MARKS = [f"mark{number:02}" for number in range(1, 26)]


def script(size: int) -> str:
    """Return a Python program that prints the corpus, and a line of *size* bytes without an end."""
    lines = b"\n".join(CORPUS) + b"\n"
    return f"import sys\nout = sys.stdout.buffer\nout.write({lines!r})\nout.write(b'<' + b'0123456789' * {size // 10} + b'>')\n"


def check(log: str) -> None:
    """Nothing is obeyed, and everything is there."""
    runner = Runner().read(log)
    assert runner.token is None, "commands take effect again at the end"
    ours = {"group", "endgroup", "add-mask", "notice", "warning", "error"}
    assert {done.name for done in runner.done} <= ours
    obeyed = [done for done in runner.done if "mark" in done.data + done.properties and done.name != "error"]
    assert not obeyed
    for done in runner.done:
        assert done.name != "error" or "title=aml-train" in done.properties, done
    shown = "\n".join(runner.shown)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202e]", shown.replace("\r", ""))
    for text, part in CORPUS.items():
        assert part in shown, text
    assert [mark for mark in MARKS if mark not in shown] == []
    foreign = "".join(line.removeprefix("│ ") for line in runner.shown if line.startswith("│ "))
    (whole,) = re.findall(r"<((?:0123456789)+)>", foreign)
    assert len(whole) == LONG


def test_a_job(runner: HostedRunner, digits: Path) -> None:
    (digits / "src" / "hostile.py").write_text(script(LONG))
    quick(digits, "hostile-job", "python hostile.py")
    runner.checkout(digits)
    step = runner.run(options=MEMORY)
    assert step.code == 0, step.log[-2000:]
    assert not step.errors()
    check(step.log)
    assert step.outputs["digest"].startswith("sha256:")
    assert [mark for mark in MARKS if mark in step.summary] == []
