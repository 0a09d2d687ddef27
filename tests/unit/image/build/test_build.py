from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from aml_train.config.sections.image import SecretConfig
from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import LogLine, Progress
from aml_train.image.build.build import Build, Cache, check_named, engine_command
from aml_train.image.build.progress import PlainProgress
from aml_train.image.push import follow_push
from tests.support.image_configs import plan

LEVEL = (
    "--build-arg=BUILDKIT_CACHE_MOUNT_NS=aml-train/protected/digits "
    "--build-arg=BUILDKIT_SANDBOX_HOSTNAME=aml-train-protected"
)


@pytest.mark.parametrize(
    ("buildx", "tag", "expected"),
    [
        (False, "r:t", "docker build --tag=r:t --iidfile=/f/image-id"),
        (True, None, "docker buildx build --builder=default --load --provenance=false --iidfile=/f/image-id"),
    ],
)
def test_the_command_of_an_engine(buildx: bool, tag: str | None, expected: str) -> None:
    cli = BuildCli(path="docker", buildx=buildx, environ={})
    assert engine_command(cli, Path("/f"), tag) == expected.split()


@pytest.mark.parametrize(
    ("image", "options", "expected"),
    [
        ({}, {}, f" {LEVEL}"),
        (
            {"build_args": {"A": "1"}, "target": "t"},
            {"no_cache": True},
            f" --build-arg=A=1 {LEVEL} --target=t --no-cache",
        ),
        ({"secrets": {"s": SecretConfig(env="S")}}, {}, f" --secret=id=s,env=S {LEVEL}"),
        (
            {},
            {"cache": Cache(repository="r", found=True)},
            f" {LEVEL} --cache-from=r:cache --build-arg=BUILDKIT_INLINE_CACHE=1",
        ),
        ({}, {"cache": Cache(repository="r")}, f" {LEVEL} --build-arg=BUILDKIT_INLINE_CACHE=1"),
    ],
)
def test_the_options_of_every_builder(image: dict[str, Any], options: dict[str, Any], expected: str) -> None:
    build = Build(spec=dataclasses.replace(plan(), **{"secrets": {}, **image}), **options)
    assert " ".join(build.arguments()) == f"--progress=plain --platform=linux/amd64{expected}"


def test_an_image_that_was_not_pinned_is_noticed() -> None:
    pinned = "python@sha256:" + "a" * 64
    progress = PlainProgress()
    for line in (f"#2 [internal] load metadata for docker.io/library/{pinned}", "#2 DONE 0.1s"):
        list(progress.feed(line))
    own = dataclasses.replace(plan(), named=(pinned,))
    check_named(own, progress.named)
    list(progress.feed("#3 [internal] load metadata for docker.io/library/alpine:3"))
    with pytest.raises(
        ImageError, match=r"the build used the image docker\.io/library/alpine:3, which was not found"
    ):
        check_named(own, progress.named)
    check_named(plan(), progress.named)


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
