"""Remove test containers and candidates that killed runs left on the engine.

Containers carry owner and lease in labels, candidate images in their tag. The owner is a process
(:mod:`aml_train.core.temporary`); the lease is the time after which no process can be using the thing.
"""

from __future__ import annotations

import functools
import logging
import os
import re
import secrets
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import requests
from docker.errors import APIError, DockerException

from aml_train.core.docker import in_container, own_container
from aml_train.core.events import Listener, Notice
from aml_train.core.temporary import OWNER_PATTERN, Life, Owner, life_of, process_start, this_machine
from aml_train.core.text import whole

if TYPE_CHECKING:
    from docker import DockerClient

LABEL_OWNER: Final = "org.aml-train.owner"
LABEL_LEASE: Final = "org.aml-train.lease"
LABEL_KIND: Final = "org.aml-train.kind"
CANDIDATE_SUFFIX: Final = "-candidate"
"""The end of the names of repositories for images that are not released."""

_LOG = logging.getLogger(__name__)
_TAG = re.compile(rf"candidate-(?P<owner>{OWNER_PATTERN.pattern})\.(?P<lease>\d{{1,18}})\.[0-9a-f]+")
_SHORT: Final = 12
# The engine matches a name's parts one by one, as in a shell's path: one pattern for each depth of a repository.
_CANDIDATES: Final = ["*/" * depth + f"*{CANDIDATE_SUFFIX}:candidate-*" for depth in range(8)]


@functools.lru_cache(maxsize=4)
def this_owner(engine: DockerClient | None) -> Owner:
    """Return this process as an owner on *engine*."""
    container = own_container(engine) if engine is not None and in_container() else None
    return Owner(
        machine=this_machine(),
        pid=os.getpid(),
        start=max(process_start(os.getpid()) or 0, 0),
        container=str(container.id)[:_SHORT] if container else None,
    )


def container_labels(engine: DockerClient, kind: str, seconds: float) -> dict[str, str]:
    """Return the labels of a temporary container, for a later sweep.

    Args:
        engine: where it will be.
        kind: what the thing is for, such as ``tests``.
        seconds: how long it may be in use; after that anybody may remove it.
    """
    return {
        LABEL_OWNER: str(this_owner(engine)),
        LABEL_KIND: kind,
        LABEL_LEASE: str(int(time.time() + seconds)),
    }


def candidate_tag(engine: DockerClient | None, seconds: float) -> str:
    """Return a new tag with owner and lease, as :func:`container_labels` has them.

    Without an engine the owner's container is not known.
    """
    return f"candidate-{this_owner(engine)}.{int(time.time() + seconds)}.{secrets.token_hex(6)}"


@dataclass(frozen=True, kw_only=True)
class Lease:
    """A claim: its owner, None if unreadable, and its end in seconds since 1970."""

    owner: Owner | None
    until: int


def lease_of_labels(labels: Mapping[str, str]) -> Lease | None:
    """Return the lease in a container's labels, or None without one."""
    until = whole(labels.get(LABEL_LEASE, ""))
    return None if until is None else Lease(owner=Owner.parse(labels.get(LABEL_OWNER, "")), until=until)


def lease_of_image(name: str) -> Lease | None:
    """Return the lease in the name of a candidate image, or None for any other name."""
    repository, _, tag = name.rpartition(":")
    match = _TAG.fullmatch(tag)
    if match is None or not repository.endswith(CANDIDATE_SUFFIX):
        return None
    return Lease(owner=Owner.parse(match["owner"]), until=int(match["lease"]))


def sweep_leftovers(engine: DockerClient, listener: Listener) -> None:
    """Remove the containers and candidates of dead owners, and of expired leases.

    Things of a living process stay, so that runs on one engine do not hurt each other. A refusal of the engine is reported as a
    warning, and left to the next sweep.

    Args:
        engine: the engine.
        listener: receives a notice of the removed things.
    """
    try:
        swept = _sweep(engine, listener)
    except (DockerException, requests.RequestException) as error:
        listener(Notice(text=f"Leftovers of killed runs on the engine cannot be listed: {error}", level="warning"))
        return
    if swept:
        listener(Notice(text=f"Removed what a killed run had left on the engine: {', '.join(swept)}"))


def _sweep(engine: DockerClient, listener: Listener) -> list[str]:
    # Things first, and then running containers: in the other order an owner that starts in between would count as dead. Containers
    # before images: an image that one of them uses cannot be removed.
    found: list[tuple[str, Lease | None, Callable[[], object]]] = []
    for item in engine.api.containers(all=True, filters={"label": [LABEL_OWNER]}):
        remove = functools.partial(engine.api.remove_container, item["Id"], force=True, v=True)
        found.append((f"the container {item['Id'][:_SHORT]}", lease_of_labels(item["Labels"]), remove))
    listed = engine.api.images(filters={"reference": _CANDIDATES})
    for name in sorted({name for image in listed for name in image.get("RepoTags") or ()}):
        remove = functools.partial(engine.api.remove_image, name, noprune=True)
        found.append((f"the image {name}", lease_of_image(name), remove))
    if not found:
        return []
    running, now = [str(item["Id"]) for item in engine.api.containers()], time.time()

    def removable(lease: Lease) -> bool:
        life: Life = "unknown" if lease.owner is None else life_of(lease.owner, running)
        return life == "dead" or (life == "unknown" and lease.until < now)

    return [
        what
        for what, lease, remove in found
        if lease is not None and removable(lease) and _removed(what, remove, listener)
    ]


def _removed(what: str, remove: Callable[[], object], listener: Listener) -> bool:
    """Call *remove*, and return whether it removed the thing.

    Nothing is said where there is nothing to be done: another run's sweep was or is about to be quicker, or a container
    still uses the image; the next sweep sees.
    """

    try:
        remove()
    except APIError as error:
        if error.status_code not in (404, 409):
            text = f"A killed run left {what}, which cannot be removed: {error.explanation or error}"
            listener(Notice(text=text, level="warning"))
        return False
    _LOG.debug("Swept %s", what)
    return True
