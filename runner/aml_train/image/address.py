"""The content address of an image: a hash over everything that decides its contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

FORMAT: Final = 3
"""Enters every address: raise it when an image is built differently from the same inputs."""


def content_address(
    *,
    dockerfile: str,
    base: str,
    files: Mapping[str, Sequence[str]],
    build_args: Mapping[str, str],
    platform: str,
    own: Mapping[str, Any] | None = None,
) -> str:
    """Return the content address, 64 hexadecimal digits.

    Nothing that changes with the commit, the time, or the machine is covered; and no secret's value.

    Args:
        dockerfile: the text, rendered or the user's own with its images pinned.
        base: manifest digest (or image id) of the base.
        files: every file and folder of the build context: path → mode and SHA-256.
        build_args: name → value.
        platform: ``linux/amd64`` or ``linux/arm64``.
        own: what concerns only a Dockerfile of the user's own: its other images, its target, what is protected.
    """
    parts = {
        "format": FORMAT,
        "dockerfile": dockerfile,
        "base": base,
        "files": {name: list(digest) for name, digest in files.items()},
        "build_args": dict(build_args),
        "platform": platform,
        **({"own": dict(own)} if own is not None else {}),
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
