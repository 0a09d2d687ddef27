"""Dockerfiles of users: the images that they name, and what is put in their place."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.core.errors import InvalidError
from aml_train.image.dockerfile.own import instructions, parse_dockerfile
from fuzz.seeds import blocks, files
from fuzz.target import Target, require

DIGEST = "sha256:" + "0a" * 32


def seeds() -> Sequence[str]:
    """Return Dockerfiles."""
    return [
        *files(
            "Dockerfile", "runner/aml_emulator/Dockerfile", "examples/**/Dockerfile", "tests/projects/**/Dockerfile*"
        ),
        *blocks("dockerfile"),
        (
            "# syntax=docker/dockerfile:1\n# escape=`\nARG TAG=3.11\nFROM --platform=$BUILDPLATFORM python:${TAG:-3} AS base\nRUN <<EOF\nFROM x\nEOF\n"
            "FROM base\nCOPY --from=busybox:1 /bin/sh /\nRUN --mount=type=bind,from=alpine,target=/x echo `\n  FROM\n"
        ),
        "FROM scratch\nFROM a AS b\nFROM b\n",
        "FROM a:1@" + DIGEST + "\nONBUILD COPY --from=c / /\n",
    ]


def check(text: str) -> None:
    """Parse a Dockerfile; pin its images."""
    lines = text.replace("\r\n", "\n").split("\n")
    for one in instructions(text.replace("\r\n", "\n")):
        require(
            0 <= one.line < len(lines) and one.line + one.lines <= len(lines), f"an instruction at line {one.line}"
        )
    for target in (None, "base"):
        try:
            parsed = parse_dockerfile(text, args={"TAG": "3.12"}, target=target, name="Dockerfile")
        except InvalidError as error:
            require(
                all(fault.where.startswith("Dockerfile") for fault in error.faults), f"a fault elsewhere: {error}"
            )
            continue
        names = {image.reference: str(image.reference.with_digest(DIGEST)) for image in parsed.images}
        pinned = parsed.pinned(names)
        require(len(pinned.split("\n")) == len(lines), "pinning changes the lines")


TARGET = Target(
    kind="text",
    reads=("aml_train.image.dockerfile.own",),
    seeds=seeds,
    check=check,
    words=(
        *(
            "FROM ",
            " AS base",
            "ARG A=b\n",
            "${A}",
            "${A:-b}",
            "${A:+b}",
            "$A",
            "--platform=",
            "--from=",
            "\\\n",
            "`\n",
            "<<EOF\n",
            "EOF\n",
        ),
        *(
            "# escape=`\n",
            "# syntax=x\n",
            "#",
            "scratch",
            "ONBUILD ",
            "RUN --mount=type=cache,from=a ",
            "<<-'E'",
            '"',
            "@sha256:",
        ),
    ),
)
