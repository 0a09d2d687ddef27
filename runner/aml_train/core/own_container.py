"""The container that this process runs in, if it does."""

from __future__ import annotations

import secrets
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.core.containers import open_archive

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_MARKS: Final = (Path("/.dockerenv"), Path("/run/.containerenv"))


def in_container() -> bool:
    """Tell whether this process runs in a container: Docker and Podman leave a file in each."""
    return any(mark.exists() for mark in _MARKS)


def own_container(client: DockerClient) -> Container | None:
    """Return the container that this process runs in: the one that has a file which was just written here.

    The host name does not tell: under act it is the machine's.
    """
    from docker.errors import APIError

    with tempfile.TemporaryDirectory(prefix="aml-train-") as folder:
        mark = Path(folder) / secrets.token_hex(16)
        mark.touch()
        for candidate in client.containers.list(ignore_removed=True):
            try:
                with open_archive(candidate, str(mark)) as found:
                    if found is not None:
                        return candidate
            except APIError as error:
                # A container that ends while it is asked is not this one.
                if error.status_code not in (404, 409, 500):
                    raise
    return None
