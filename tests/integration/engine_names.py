"""What an engine that others use too calls its images.

Names only: docker-py's ``images.list()`` asks for each image once more, and another test's may be gone by then.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from docker.errors import ImageNotFound

if TYPE_CHECKING:
    from docker import DockerClient


def names(engine: DockerClient) -> list[str]:
    """Return every name by tag or by digest that the engine has of an image."""
    return [
        name for known in engine.api.images() for name in (*(known["RepoTags"] or ()), *(known["RepoDigests"] or ()))
    ]


def forget(engine: DockerClient, *prefixes: str) -> None:
    """Remove each name that begins so, and with its last name the image."""
    for name in names(engine):
        if name.startswith(prefixes):
            with contextlib.suppress(ImageNotFound):  # gone with another name of it
                engine.images.remove(name, force=True)
