"""Names of images, and the tags that releases make of texts."""

from __future__ import annotations

from collections.abc import Sequence

from aml_train.core.references import ImageRef, is_digest
from fuzz.target import Target, require

DIGEST = "sha256:" + "0a" * 32


def seeds() -> Sequence[str]:
    """Return references of every form."""
    return [
        *("python", "python:3.11", "library/python", "docker.io/library/python:3.11-slim", f"python@{DIGEST}"),
        *(f"ghcr.io/org/a/b-c__d:v1@{DIGEST}", "localhost/x", "localhost:5000/x:y", "[::1]:5000/a", "10.0.0.1/a.b"),
        *("amllocal.azurecr.io/aml-train/digits:1", "nvcr.io/nvidia/pytorch:24.01-py3", "index.docker.io/a/b"),
    ]


def check(text: str) -> None:
    """Parse a reference; its renderings mean the same."""
    try:
        reference = ImageRef.parse(text)
    except ValueError as error:
        require(str(error), "a refusal says nothing")
        return
    require(ImageRef.parse(str(reference)) == reference, f"{reference} means another image")
    require(ImageRef.parse(reference.familiar) == reference, f"{reference.familiar} means another image")
    require(str(reference).isascii() and " " not in str(reference), f"{reference!r} has odd characters")
    require(reference.digest is None or is_digest(reference.digest), "the digest is none")
    pinned = reference.with_digest(DIGEST)
    require(ImageRef.parse(str(pinned)) == pinned, f"{pinned} means another image")


TARGET = Target(
    kind="text",
    reads=("aml_train.core.references",),
    seeds=seeds,
    check=check,
    words=(
        "docker.io/",
        "library/",
        "localhost",
        ":5000",
        ":latest",
        f"@{DIGEST}",
        "@sha256:",
        "__",
        ".",
        "-",
        "[::1]",
        "index.docker.io/",
    ),
)
