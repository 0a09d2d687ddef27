from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.errors import InvalidError
from aml_train.core.references import ImageRef
from aml_train.image.dockerfile.own import instructions, parse_dockerfile

TEXT = """\
# syntax=docker/dockerfile:1
ARG VERSION=3.11
ARG SUFFIX=${VERSION}-slim OTHER
FROM --platform=$BUILDPLATFORM golang:1.22 AS build
# FROM commented:out
RUN --mount=type=bind,from=alpine:3.20,source=/bin,target=/b \\
    # a comment between
    --mount=type=cache,target=/c \\
    echo FROM nothing
COPY <<EOF /etc/x
FROM heredoc:1
EOF
FROM python:${SUFFIX:-3.9} AS Base
COPY --chown=1 --from=build /a /a
COPY --from=busybox:1 /bin/sh /sh
from base as final
COPY --from=0 /b /b
"""
PINNED = "@sha256:" + "a" * 64


def parse(text: str = TEXT, target: str | None = None, **args: str):  # type: ignore[no-untyped-def]
    return parse_dockerfile(text, args=args, target=target, name="Dockerfile")


def test_every_image_is_found_and_pinned() -> None:
    parsed = parse()
    assert [image.reference.familiar for image in parsed.images] == [
        "golang:1.22",
        "alpine:3.20",
        "python:3.11-slim",
        "busybox:1",
    ]
    assert parsed.base.reference.familiar == "python:3.11-slim"
    text = parsed.pinned(
        {image.reference: image.reference.repository.rpartition("/")[2] + PINNED for image in parsed.images}
    )
    assert f"FROM --platform=$BUILDPLATFORM golang{PINNED} AS build\n" in text
    assert f"RUN --mount=type=bind,from=alpine{PINNED},source=/bin,target=/b \\\n" in text
    assert f"FROM python{PINNED} AS Base\n" in text
    assert f"COPY --from=busybox{PINNED} /bin/sh /sh\n" in text
    assert "COPY --chown=1 --from=build /a /a\n" in text
    assert "FROM heredoc:1\n" in text
    assert "# FROM commented:out\n" in text


def test_arguments_and_target() -> None:
    assert parse(SUFFIX="3.12").base.reference.familiar == "python:3.12"
    assert parse(target="build").base.reference.familiar == "golang:1.22"
    assert parse(target="FINAL").base.reference.familiar == "python:3.11-slim"


def test_another_escape() -> None:
    found = list(instructions("# escape=`\nFROM x `\n  AS y\nRUN a\\\n"))
    assert [one.text for one in found] == ["FROM x   AS y", "RUN a\\"]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (
            "FROM $BASE\n",
            None,
            r"Dockerfile:1: `\$BASE` is no image: .*give the arguments that it needs under `dockerfile.args`",
        ),
        ("RUN x\n", None, "Dockerfile: the Dockerfile has no FROM: name a base"),
        ("FROM a AS b\n", "c", "Dockerfile: the Dockerfile has no stage `c`: stages: `b`"),
        ("FROM scratch\nCOPY a /\n", None, "Dockerfile: the image starts from `scratch`: a job needs a shell"),
        ("FROM a\n\nFROM b c d\n", None, "Dockerfile:3: FROM has another form"),
        ("FROM a\nCOPY --from=UPPER x y\n", None, "Dockerfile:2: `UPPER` is no image"),
    ],
)
def test_what_cannot_be_read(text: str, target: str | None, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        parse(text, target)


@given(st.lists(st.sampled_from([*TEXT.splitlines(), "FROM", "\\", "RUN <<A", "A", "FROM $", "#", " "]), max_size=12))
def test_any_text(lines: list[str]) -> None:
    """It is read, or refused with a place; never anything else."""
    try:
        parsed = parse("\n".join(lines))
    except InvalidError as error:
        places = [fault.where for fault in error.faults]
    else:
        places = ["Dockerfile"]
        same = {image.reference: image.word for image in parsed.images}
        assert isinstance(parsed.base.reference, ImageRef)
        if all("$" not in word for word in same.values()):
            assert parsed.pinned(same) == parsed.text
    assert all(place.startswith("Dockerfile") for place in places)
