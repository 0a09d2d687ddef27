"""Task files of ACR Tasks, and BuildKit's messages as lines."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from aml_emulator.executor.buildkit import TRACE, PlainTrace
from aml_emulator.executor.task_spec import BuildStep, PushStep, TaskError, UnsupportedTaskError, parse_task


def test_a_task() -> None:
    text = """\
version: v1.0.0
stepTimeout: 900
steps:
- id: one
  build: --progress=plain --platform=linux/amd64 --file=Dockerfile '--build-arg=A=b c' --target=t --no-cache --network=none --shm-size=1024 --ulimit=memlock=-1:-1 --tag=r/x:1 context
  env: [DOCKER_BUILDKIT=1]
- push: [r/x:1]
"""
    assert parse_task(text) == (
        BuildStep(
            id="one",
            context="context",
            dockerfile="Dockerfile",
            tags=("r/x:1",),
            arguments={"A": "b c"},
            target="t",
            platform="linux/amd64",
            network="none",
            no_cache=True,
            shm=1024,
            limits={"memlock": (-1, -1)},
            timeout=900,
        ),
        PushStep(id="acb_step_1", images=("r/x:1",), timeout=900),
    )


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "no steps"),
        ("steps: []", "no steps"),
        ("steps: [1]", "a step is no mapping"),
        ("steps: [{id: a}]", "single build, cmd, or push"),
        ("steps: [{build: ., push: [x]}]", "single build, cmd, or push"),
        ("steps: [{id: a b, build: .}]", "cannot contain spaces"),
        ("version: v9\nsteps: [{build: .}]", "invalid task version"),
        ("steps: [{build: .}]\nstepTimeout: x", "a time-out is a whole number"),
        ("steps: [{build: '\"'}]", "No closing quotation"),
        ("steps: [", "no YAML"),
        ("steps: [{build: .}]\nwhen: 2020-99-99", "no YAML"),
        ("steps: [{push: x}]", "`push` is a list of texts"),
    ],
)
def test_what_is_no_task(text: str, words: str) -> None:
    with pytest.raises(TaskError, match=words):
        parse_task(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("steps: [{build: '{{.Run.ID}}'}]", "templates"),
        ("steps: [{cmd: bash}]", "`cmd` in a step"),
        ("steps: [{build: ., cache: enabled}]", "`cache` in a step"),
        ("secrets: []\nsteps: [{build: .}]", "`secrets` in a task file"),
        ("steps: [{build: ., env: [A=1]}]", "the variable A of a step"),
        ("steps: [{build: .}]", "a build without BuildKit"),
        ("steps: [{build: --squash .}]", "unrecognized arguments: --squash"),
        ("steps: [{build: --network=host .}]", "invalid choice: 'host'"),
    ],
)
def test_what_is_not_played(text: str, words: str) -> None:
    with pytest.raises(UnsupportedTaskError, match=words):
        parse_task(text)


def varint(value: int) -> bytes:
    data = b""
    while value > 0x7F:
        data += bytes([value & 0x7F | 0x80])
        value >>= 7
    return data + bytes([value])


def message(*given: tuple[int, int | bytes]) -> bytes:
    parts = []
    for number, value in given:
        if isinstance(value, int):
            parts.append(varint(number << 3) + varint(value))
        else:
            parts.append(varint(number << 3 | 2) + varint(len(value)) + value)
    return b"".join(parts)


def at(seconds: int, nanos: int = 0) -> bytes:
    return message((1, seconds), (2, nanos))


def trace(data: bytes) -> dict[str, Any]:
    return {"id": TRACE, "aux": base64.b64encode(data).decode()}


def test_a_trace_becomes_the_lines_of_plain_progress() -> None:
    plain = PlainTrace()
    started = message((1, b"d1"), (3, b"[1/2] RUN x"), (5, at(100)))
    log = message((1, b"d1"), (2, at(100, 500_000_000)), (3, 1), (4, b"one\ntwo\n"))
    done = message((1, b"d1"), (3, b"[1/2] RUN x"), (5, at(100)), (6, at(102)))
    other = message((1, b"d2"), (3, b"[2/2] RUN y"), (5, at(102)), (4, 1), (6, at(102)))
    failed = message((1, b"d3"), (3, b"RUN z"), (5, at(103)), (6, at(104)), (7, b"exit code: 1"))
    lines = [
        *plain.read(trace(message((1, started), (3, log)))),
        *plain.read(trace(message((1, done), (1, other)))),
        *plain.read(trace(message((1, failed), (1, failed)))),
        *plain.read({"stream": "nothing of BuildKit's"}),
    ]
    assert lines == [
        "#1 [1/2] RUN x\n",
        "#1 0.500 one\n",
        "#1 0.500 two\n",
        "#1 DONE 2.0s\n",
        "#2 [2/2] RUN y\n",
        "#2 CACHED\n",
        "#3 RUN z\n",
        "#3 ERROR: exit code: 1\n",
    ]
