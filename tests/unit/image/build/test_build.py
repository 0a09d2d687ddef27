from __future__ import annotations

from pathlib import Path

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import LogLine, Progress
from aml_train.image.build.build import BuildOptions, build_argv
from aml_train.image.build.progress import PlainProgress
from aml_train.image.push import follow_push


@pytest.mark.parametrize(
    ("buildx", "no_cache", "expected"),
    [
        (
            False,
            False,
            "docker build --progress=plain --platform=linux/amd64 --tag=r:t --iidfile=/f/id --file=/f/D /f/c",
        ),
        (
            True,
            True,
            (
                "docker buildx build --builder=default --load --provenance=false --progress=plain --platform=linux/amd64 "
                "--tag=r:t --iidfile=/f/id --file=/f/D --no-cache /f/c"
            ),
        ),
    ],
)
def test_command(buildx: bool, no_cache: bool, expected: str) -> None:
    argv = build_argv(
        BuildCli(path="docker", buildx=buildx, environ={}),
        context=Path("/f/c"),
        dockerfile=Path("/f/D"),
        tag="r:t",
        iidfile=Path("/f/id"),
        platform="linux/amd64",
        options=BuildOptions(no_cache=no_cache),
    )
    assert argv == expected.split()


FAILED = """\
#1 [internal] load build definition from Dockerfile
#1 transferring dockerfile: 38B done
#1 DONE 0.0s
#4 [1/3] FROM docker.io/library/python
#4 CACHED
#5 [stage-0 2/3] RUN apt-get update
#5 0.210 reading
#5 0.300 (Reading database ... \r(Reading database ... 50%\r(Reading database ... 8577 files
#5 DONE 1.2s
#6 [3/3] RUN pip install nothing
#6 0.412 ERROR: No matching distribution \x1b[31mfound\x1b[0m
#6 ERROR: executor failed running [/bin/sh -c pip install nothing]: exit code: 1
------
 > [3/3] RUN pip install nothing:
"""


def test_progress_and_failure() -> None:
    progress = PlainProgress()
    events = [event for line in FAILED.split("\n") for event in progress.feed(line)]
    assert [(e.label, e.done, e.total) for e in events if isinstance(e, Progress)] == [
        ("FROM docker.io/library/python", 0, 3),
        ("FROM docker.io/library/python", 1, 3),
        ("RUN apt-get update", 1, 3),
        ("RUN apt-get update", 2, 3),
        ("RUN pip install nothing", 2, 3),
    ]
    lines = [(e.origin, e.text) for e in events if isinstance(e, LogLine)]
    assert ("RUN apt-get update", "reading") in lines
    assert ("RUN apt-get update", "(Reading database ... 8577 files") in lines
    assert ("RUN pip install nothing", "ERROR: No matching distribution found") in lines
    assert progress.error(1).message == (
        "the image's step 'RUN pip install nothing' failed:\n  ERROR: No matching distribution found"
    )


@pytest.mark.parametrize(
    ("lines", "message", "hint"),
    [
        (
            ["#5 [2/2] RUN x", "#5 0.1 write /a: No space left on device", "#5 ERROR: x"],
            "the image's step 'RUN x'",
            "disk is full",
        ),
        (["error: failed to solve: x: not found"], "exit code 9:\n  error: failed to solve", "Check the packages"),
        ([], "the build failed with exit code 9", "Check the packages"),
    ],
)
def test_errors(lines: list[str], message: str, hint: str) -> None:
    progress = PlainProgress()
    for line in lines:
        list(progress.feed(line))
    error = progress.error(9)
    assert message in error.message
    assert hint in (error.hint or "")


@pytest.mark.parametrize(
    ("stream", "message"),
    [
        ([{"error": "denied", "errorDetail": {"message": "denied"}}], "the push of r:t failed: denied"),
        ([{"errorDetail": {"message": "no basic auth"}}], "the push of r:t failed: no basic auth"),
        ([{"status": "x"}], "reported no digest"),
        ([{"aux": {"Digest": "md5:1"}}], "reported no digest"),
    ],
)
def test_push_that_fails(stream: list[dict[str, object]], message: str) -> None:
    with pytest.raises(ImageError, match=message):
        follow_push(stream, "r:t", lambda _: None)
