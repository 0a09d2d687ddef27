"""The content address of an image: a hash over everything that decides its contents."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Final

FORMAT: Final = 1
"""Enters every address: raise it when an image is built differently from the same inputs."""

DEFAULT_MODE: Final = "100644"
"""Mode of the files that we write into a build context ourselves."""


def content_address(
    *,
    dockerfile: str,
    base: str,
    files: Mapping[str, bytes],
    build_args: Mapping[str, str],
    platform: str,
) -> str:
    """Return the content address, 64 hexadecimal digits.

    Nothing that changes with the commit, the time, or the machine is covered.

    Args:
        dockerfile: the rendered text.
        base: manifest digest (or image id) of the base.
        files: every file that the Dockerfile copies: path in the context → contents. Their mode is always 0644.
        build_args: name → value.
        platform: ``linux/amd64`` or ``linux/arm64``.
    """
    parts = {
        "format": FORMAT,
        "dockerfile": dockerfile,
        "base": base,
        "files": {name: [DEFAULT_MODE, hashlib.sha256(content).hexdigest()] for name, content in files.items()},
        "build_args": dict(build_args),
        "platform": platform,
    }
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()
