"""A Dockerfile of the user's own is read as BuildKit reads it."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.errors import ImageError, InvalidError
from aml_train.core.references import ImageRef
from aml_train.image.dockerfile.own import parse_dockerfile

TEXT = """\
# syntax=docker/dockerfile:1
ARG VERSION=3.11
ARG SUFFIX=${VERSION}-slim OTHER
FROM --platform=$BUILDPLATFORM golang:1.22 AS build
# FROM commented:out
RUN --mount=type=cache,target=/c \\
    # a comment between, from=alpine:3.20
    --mount=type=bind,from=alpine:3.20,source=/bin,target=/b \\
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


def parse(text: str = TEXT, target: str | None = None, platform: str = "linux/amd64", **args: str):  # type: ignore[no-untyped-def]
    return parse_dockerfile(text, args=args, target=target, platform=platform, name="Dockerfile")


def images(text: str, **options: str) -> list[str]:
    return [image.reference.familiar for image in parse(text, **options).images]


def test_every_image_is_found_and_pinned() -> None:
    parsed = parse()
    assert images(TEXT) == ["golang:1.22", "alpine:3.20", "python:3.11-slim", "busybox:1"]
    assert parsed.base.reference.familiar == "python:3.11-slim"
    text = parsed.pinned(
        {image.reference: image.reference.repository.rpartition("/")[2] + PINNED for image in parsed.images}
    )
    assert f"FROM --platform=$BUILDPLATFORM golang{PINNED} AS build\n" in text
    assert f"    --mount=type=bind,from=alpine{PINNED},source=/bin,target=/b \\\n" in text
    assert f"FROM python{PINNED} AS Base\n" in text
    assert f"COPY --from=busybox{PINNED} /bin/sh /sh\n" in text
    assert "COPY --chown=1 --from=build /a /a\n" in text
    assert "FROM heredoc:1\n" in text
    assert "# FROM commented:out\n" in text


@pytest.mark.parametrize(
    "line",
    [
        "RUN cat > /a <<< yes",
        'RUN python -c "print(1<<20)"',
        "RUN echo $((1 << 3))",
        "COPY <<a <<b /x/\nFROM no:1\na\nFROM no:2\nb",
        "RUN <<-'EOF' cat\n\tFROM no:1\n\tEOF",
        "RUN echo '<<EOF'",
    ],
)
def test_what_begins_like_a_here_document_hides_no_stage(line: str) -> None:
    assert images(f"FROM a:1 AS first\n{line}\nFROM b:2\n") == ["a:1", "b:2"]


def test_arguments_and_target() -> None:
    assert parse(SUFFIX="3.12").base.reference.familiar == "python:3.12"
    assert parse(target="build").base.reference.familiar == "golang:1.22"
    assert parse(target="FINAL").base.reference.familiar == "python:3.11-slim"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("base-${TARGETARCH}", "base-arm64:latest"),
        ("base:$TARGETOS-$TARGETARCH", "base:linux-arm64"),
        ("${BASE:-python:${TAG}}", "python:3.13"),
        ("${BASE:-${OTHER-python:${TAG}-slim}}", "python:3.13-slim"),
        ("python${TAG:+:$TAG}", "python:3.13"),
        ("python${NONE+:none}${EMPTY-:no}${EMPTY:+:no}", "python:latest"),
        ('"python:$TAG"', "python:3.13"),
        ("'python:3.12'", "python:3.12"),
        ("${QUOTED}", "python:3.10"),
        # Patterns, as in BuildKit's `shell/lex.go`: the shortest beginning or end, or twice the sign for the longest.
        ("python:${FULL%.*}", "python:3.12.1"),
        ("python:${FULL%%.*}", "python:3"),
        ("${PATHS#*/}", "b/c:latest"),
        ("${PATHS##*/}", "c:latest"),
        ("python:${FULL#v}", "python:3.12.1.0"),
        ("python:${FULL/./-}", "python:3-12.1.0"),
        ("python:${FULL//./-}", "python:3-12-1-0"),
        ("python:${FULL%.?}", "python:3.12.1"),
        (r"python:${STAR%\*}", "python:3.9"),
    ],
)
def test_names_are_expanded_as_buildkit_does(name: str, expected: str) -> None:
    text = f'ARG TAG=3.13 EMPTY= FULL=3.12.1.0 PATHS=a/b/c STAR="3.9*"\nARG QUOTED="python:3.10"\nFROM {name}\n'
    parsed = parse(text, platform="linux/arm64")
    assert parsed.base.reference.familiar == expected
    assert parsed.pinned({parsed.base.reference: f"x{PINNED}"}).endswith(f"FROM x{PINNED}\n")


def test_another_frontend_may_have_other_instructions() -> None:
    assert images("# syntax=example/dockerfile-x\nFROM a:1\nINCLUDE x\n") == ["a:1"]


def test_a_byte_order_mark_and_another_escape() -> None:
    parsed = parse("\ufeff# escape=`\nFROM x `\n  AS y\r\nRUN a\\\nFROM z")
    assert [(image.reference.familiar, image.line) for image in parsed.images] == [("x:latest", 2), ("z:latest", 5)]


@pytest.mark.parametrize(
    ("text", "target", "message"),
    [
        (
            "FROM $BASE\n",
            None,
            r"Dockerfile:1: `\$BASE` is no image: .*give the arguments that it needs under `dockerfile.args`",
        ),
        (
            "FROM a-${BUILDARCH}\n",
            None,
            r"Dockerfile:1: `a-\$\{BUILDARCH\}` is no image: `BUILDARCH` is known to the",
        ),
        ("FROM ${A^x}\n", None, r"Dockerfile:1: `\$\{A\^x\}` is no image: `\$\{A\^…\}` is a form that is not known"),
        ("FROM a\nCOPPY x y\n", None, "Dockerfile:2: `COPPY` is no instruction: did you mean `COPY`"),
        ("FROM ${A:?missing}\n", None, r"Dockerfile:1: `\$\{A:\?missing\}` is no image: missing"),
        ("RUN x\n", None, "Dockerfile: the Dockerfile has no FROM: name a base"),
        ("FROM a\nRUN <<EOF\n", None, "Dockerfile: it is no Dockerfile: unterminated heredoc"),
        ("FROM a AS b\n", "c", "Dockerfile: the Dockerfile has no stage `c`: stages: `b`"),
        ("FROM scratch\nCOPY a /\n", None, "Dockerfile: the image starts from `scratch`: a job needs a shell"),
        ("FROM a\n\nFROM b c d\n", None, "Dockerfile:3: FROM has another form"),
        ("FROM a\nCOPY --from=UPPER x y\n", None, "Dockerfile:2: `UPPER` is no image"),
    ],
)
def test_what_cannot_be_read(text: str, target: str | None, message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        parse(text, target)


def test_a_name_that_is_not_found_where_it_is_written_is_refused() -> None:
    parsed = parse("FROM a\nRUN --mount=type=bind,FROM=alp\\\nine,target=/x ls\n")
    with pytest.raises(InvalidError, match=r"Dockerfile:2: `alpine` cannot be pinned: .*write it on one line"):
        parsed.pinned({image.reference: f"x{PINNED}" for image in parsed.images})


def test_without_the_parser_own_dockerfiles_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "dockerfile", None)
    with pytest.raises(ImageError, match="no parser of Dockerfiles") as raised:
        parse("FROM a\n")
    assert "Go" in str(raised.value.hint)


@given(st.lists(st.sampled_from([*TEXT.splitlines(), "FROM", "\\", "RUN <<A", "A", "FROM $", "#", " "]), max_size=12))
def test_any_text(lines: list[str]) -> None:
    """It is read, or refused; never anything else."""
    with contextlib.suppress(InvalidError):
        parsed = parse("\n".join(lines))
        same = {image.reference: image.word for image in parsed.images}
        assert isinstance(parsed.base.reference, ImageRef)
        if all("$" not in word for word in same.values()):
            assert parsed.pinned(same) == parsed.text
