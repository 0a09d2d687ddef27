"""A rendered Dockerfile for a builder without BuildKit. Pure.

Docker's earlier builder refuses ``RUN --mount`` (moby, ``builder/dockerfile/dispatchers.go``: "the --mount option requires BuildKit").
The steps here do the same without it: what a step would mount is copied before it, and removed by it. The result has the same files
and the same configuration; what was copied stays in the bytes of an earlier layer. Storage keeps no modes of files, so the build
context is one archive, which a stage unpacks.

Read are Dockerfiles that :mod:`aml_train.image.dockerfile.render` writes: their mounts come first, one a line, and no command of a
step begins a line.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_RUN: Final = re.compile(r"^RUN (?P<mounts>(?:--mount=\S+(?: \\\n\s*|\s))+)(?P<command>(?:.*\\\n)*.*)$", re.MULTILINE)
_MOUNT: Final = re.compile(r"--mount=(\S+)")
_COPY: Final = re.compile(r"^COPY (?!--from=)", re.MULTILINE)
_SEPARATE: Final = "\n\n"
_STAGE: Final = "aml-train-context"

ARCHIVE: Final = "context.tar"
"""The archive of the build context, in the build context."""


@dataclass(frozen=True, kw_only=True)
class Classic:
    """A Dockerfile without mounts.

    Attributes:
        text: builds the image.
        archive: whether it takes the files of the context from :data:`ARCHIVE`.
        check: the step of the original that compares the image with its base, as it was; None if it has none. It mounts the whole base,
            which is not copied into the image: :func:`check_dockerfile` makes a separate build of it.
    """

    text: str
    archive: bool
    check: str | None = None


def classic_dockerfile(text: str) -> Classic:
    """Return *text* without mounts.

    Raises:
        ValueError: a mount has no equivalent, such as a secret.
    """
    found: list[str] = []

    def replace(match: re.Match[str]) -> str:
        mounts = [_options(given) for given in _MOUNT.findall(match["mounts"])]
        if any(_whole(mount) for mount in mounts):
            found.append(match[0])
            return ""
        return _without_mounts(mounts, match["command"])

    blocks = _RUN.sub(replace, text).split(_SEPARATE)
    kept, copies = _COPY.subn(f"COPY --from={_STAGE} ", _SEPARATE.join(block for block in blocks if block.strip()))
    unpack = f"FROM scratch AS {_STAGE}\nADD {ARCHIVE} /{_SEPARATE}" if copies else ""
    return Classic(text=f"{unpack}{kept.rstrip()}\n", archive=copies > 0, check=found[0] if found else None)


def check_dockerfile(step: str, *, base: str, image: str, kept: str) -> str:
    """Return the Dockerfile that runs *step* in *image*.

    Its result has no more than the file *kept* of the context.

    Args:
        step: the comparison with the stage ``base``, a RUN with mounts.
        base: the base, pinned.
        image: the image to compare, by its digest.
        kept: a file of the build context.
    """
    match = _RUN.fullmatch(step)
    if match is None:
        raise ValueError(f"no step with mounts: {step[:80]}")
    mounts = [_options(given) for given in _MOUNT.findall(match["mounts"])]
    copies = "\n".join(_copy(mount) for mount in mounts)
    return (
        f"FROM {base} AS base\n\nFROM {image} AS compared\n\nUSER root\n\n{copies}\n\nRUN {match['command']}\n\n"
        # The stage has the whole base in addition: the result depends on it, and is small.
        f"FROM scratch\nCOPY --from=compared {_target_of(mounts, kept)} /\n"
    )


def _options(given: str) -> Mapping[str, str]:
    return dict(part.partition("=")[::2] for part in given.split(","))


def _whole(mount: Mapping[str, str]) -> bool:
    """Return whether a mount is the file system of a whole stage."""
    return mount["type"] == "bind" and "from" in mount and "source" not in mount


def _without_mounts(mounts: list[Mapping[str, str]], command: str) -> str:
    copies = [_copy(mount) for mount in mounts if mount["type"] == "bind"]
    if unknown := [mount["type"] for mount in mounts if mount["type"] not in ("bind", "cache")]:
        raise ValueError(f"a mount of the type {unknown[0]} needs BuildKit")
    # A cache leaves its folder behind, as its mount does; the paths are the renderer's own, and need no quotes.
    remove = [f"{mount['target']}/*" if mount["type"] == "cache" else mount["target"] for mount in mounts]
    run = f"RUN {command} \\\n    && rm -rf \\\n" + " \\\n".join(f"        {path}" for path in remove)
    return "\n".join([*copies, run])


def _copy(mount: Mapping[str, str]) -> str:
    origin = f"--from={mount['from']} " if "from" in mount else ""
    source = mount.get("source", "/")
    return f"COPY {origin}{json.dumps([source, mount['target']])}"


def _target_of(mounts: list[Mapping[str, str]], file: str) -> str:
    return next(mount["target"] for mount in mounts if mount.get("source") == file and "from" not in mount)
