"""Task files of ACR Tasks, and BuildKit's messages as lines."""

from __future__ import annotations

import pytest

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
