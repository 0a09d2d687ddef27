"""What an engine that others use too calls its images.

Names only: docker-py's ``images.list()`` asks for each image once more, and another test's may be gone by then.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Final

from docker.errors import APIError, ImageNotFound

if TYPE_CHECKING:
    from docker import DockerClient

_PATIENCE: Final = 120.0


def names(engine: DockerClient) -> list[str]:
    """Return every name by tag or by digest that the engine has of an image."""
    return [
        name for known in engine.api.images() for name in (*(known["RepoTags"] or ()), *(known["RepoDigests"] or ()))
    ]


def forget(engine: DockerClient, *prefixes: str) -> None:
    """Remove each name that begins so, and with its last name the image.

    A run that asks how much room there is may just have a container of it: that ends by itself.
    """
    deadline = time.monotonic() + _PATIENCE
    for name in names(engine):
        while name.startswith(prefixes):
            try:
                engine.images.remove(name, force=True)
            except ImageNotFound:  # gone with another name of it
                break
            except APIError as error:
                if error.status_code != 409 or time.monotonic() > deadline:
                    raise
                time.sleep(0.1)
            else:
                break
