"""Who made what is temporary on the engine, and whether it may be removed: what a killed run leaves behind, a later run sweeps.

Test containers carry owner and lease in labels, candidate images in their tag. The owner is a process whose life can be asked
for; the lease is the time after which nobody can be using the thing any more. Facts on ``/proc``: proc(5).
"""

from __future__ import annotations

import functools
import hashlib
import logging
import os
import re
import secrets
import time
import uuid
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from aml_train.core.events import Listener, Notice
from aml_train.core.own_container import in_container, own_container

if TYPE_CHECKING:
    from docker import DockerClient

LABEL_OWNER: Final = "org.aml-train.owner"
LABEL_LEASE: Final = "org.aml-train.lease"
LABEL_KIND: Final = "org.aml-train.kind"

Life = Literal["alive", "dead", "unknown"]

_LOG = logging.getLogger(__name__)
_OWNER = re.compile(r"(?P<machine>[0-9a-f]{12})\.(?P<pid>\d+)\.(?P<start>\d+)\.(?P<container>[0-9a-f]{12}|host)")
_TAG = re.compile(rf"candidate-(?P<owner>{_OWNER.pattern})\.(?P<lease>\d+)\.[0-9a-f]+")
_SHORT: Final = 12
# The engine matches a name's parts one by one, as in a shell's path: one pattern for each depth of a repository.
_DEPTHS: Final = 8
_CANDIDATES: Final = ["*/" * depth + "*-candidate:candidate-*" for depth in range(_DEPTHS)]


@dataclass(frozen=True, kw_only=True)
class Owner:
    """A process that makes things on an engine.

    Attributes:
        machine: stands for the boot of the machine and the process's PID namespace: twelve hexadecimal digits.
        pid: the process, as its own namespace counts.
        start: when it started, in clock ticks since the boot.
        container: the first twelve digits of the id of its container on that engine, or None outside of one.
    """

    machine: str
    pid: int
    start: int
    container: str | None

    def __str__(self) -> str:
        return f"{self.machine}.{self.pid}.{self.start}.{self.container or 'host'}"

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """Return what :meth:`__str__` wrote, or None for anything else."""
        match = _OWNER.fullmatch(text)
        if match is None:
            return None
        container = match["container"]
        return cls(
            machine=match["machine"],
            pid=int(match["pid"]),
            start=int(match["start"]),
            container=None if container == "host" else container,
        )


def life(owner: Owner, *, machine: str, running: Collection[str], start_of: Callable[[int], int | None]) -> Life:
    """Tell whether *owner* still lives. Pure but for *start_of*.

    A process of this machine and PID namespace is looked up. One in a container is dead when that does not run; while it
    does, the process lives for certain only where it is the container's first.

    Args:
        machine: as :attr:`Owner.machine`, of the process that asks.
        running: the ids of the containers that run on the engine.
        start_of: gives for a pid when the process started, None where there is none, and -1 where that cannot be told.
    """
    if owner.machine == machine:
        found = start_of(owner.pid)
        if found == -1:
            return "unknown"
        return "alive" if found == owner.start else "dead"
    if owner.container is None:
        return "unknown"
    if not any(identity.startswith(owner.container) for identity in running):
        return "dead"
    return "alive" if owner.pid == 1 else "unknown"


@functools.cache
def this_machine() -> str:
    """Return :attr:`Owner.machine` of this process; a random one where there is no ``/proc``: it is like nobody's."""
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
        seed = f"{boot} {Path('/proc/self/ns/pid').readlink()}"
    except OSError:
        seed = uuid.uuid4().hex
    return hashlib.sha256(seed.encode()).hexdigest()[:_SHORT]


def start_of(pid: int) -> int | None:
    """Return when a process of this PID namespace started, in clock ticks since the boot.

    None where there is none, or only its remains (a zombie); -1 where it cannot be told, as on macOS.
    """
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        _LOG.debug("The process %d is another user's", pid)
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return -1
    # The second field is the command in parentheses, whatever it holds; the state is the third, the start the 22nd.
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])


@functools.lru_cache(maxsize=4)
def this_owner(engine: DockerClient) -> Owner:
    """Return this process as an owner on *engine*."""
    container = own_container(engine) if in_container() else None
    return Owner(
        machine=this_machine(),
        pid=os.getpid(),
        start=max(start_of(os.getpid()) or 0, 0),
        container=str(container.id)[:_SHORT] if container else None,
    )


def container_labels(engine: DockerClient, kind: str, seconds: float) -> dict[str, str]:
    """Return the labels of a temporary container, by which a later sweep recognises what a killed process left.

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


def candidate_tag(engine: DockerClient, seconds: float) -> str:
    """Return a new tag for a candidate image, which tells its owner and lease; *seconds* as in :func:`container_labels`."""
    return f"candidate-{this_owner(engine)}.{int(time.time() + seconds)}.{secrets.token_hex(6)}"


@dataclass(frozen=True, kw_only=True)
class Lease:
    """The claim on a temporary thing: whose it is (None where that cannot be read), and until when (seconds since 1970)."""

    owner: Owner | None
    until: int


def lease_of_labels(labels: Mapping[str, str]) -> Lease | None:
    """Return the lease that a container's labels tell, or None where they tell none."""
    until = labels.get(LABEL_LEASE, "")
    return Lease(owner=Owner.parse(labels.get(LABEL_OWNER, "")), until=int(until)) if until.isdecimal() else None


def lease_of_image(name: str) -> Lease | None:
    """Return the lease that the name of a candidate image tells, or None for any other name."""
    repository, _, tag = name.rpartition(":")
    match = _TAG.fullmatch(tag)
    if match is None or not repository.endswith("-candidate"):
        return None
    return Lease(owner=Owner.parse(match["owner"]), until=int(match["lease"]))


@dataclass(frozen=True, kw_only=True)
class Swept:
    """What a sweep removed: containers by what they were for, images by name."""

    containers: tuple[str, ...]
    images: tuple[str, ...]

    def __str__(self) -> str:
        kinds = ", ".join(sorted(set(self.containers)))
        parts = []
        if count := len(self.containers):
            parts.append(f"{count} {'container' if count == 1 else 'containers'} ({kinds})")
        if count := len(self.images):
            parts.append(f"{count} candidate {'image' if count == 1 else 'images'}")
        return " and ".join(parts)


def sweep(engine: DockerClient, listener: Listener) -> Swept:
    """Remove the temporary containers and candidate images whose owner is dead, or unknown with a lease that has expired.

    What a living process owns stays, so that runs on one engine do not hurt each other. What the engine refuses is told as a
    warning, and left to the next sweep.

    Args:
        engine: the engine.
        listener: told what was removed.

    Returns:
        what was removed.
    """
    import requests
    from docker.errors import DockerException

    try:
        swept = _sweep(engine, listener)
    except (DockerException, requests.RequestException) as error:
        listener(Notice(text=f"What killed runs may have left on the engine is not listed: {error}", level="warning"))
        return Swept(containers=(), images=())
    if swept.containers or swept.images:
        listener(Notice(text=f"Removed what a killed run had left on the engine: {swept}"))
    return swept


def _sweep(engine: DockerClient, listener: Listener) -> Swept:
    # What there is first, and then who runs: in the other order an owner that starts in between would count as dead.
    containers = [
        (item, lease)
        for item in engine.api.containers(all=True, filters={"label": [LABEL_OWNER]})
        if (lease := lease_of_labels(item["Labels"])) is not None
    ]
    listed = engine.api.images(filters={"reference": _CANDIDATES})
    names = {name for image in listed for name in image.get("RepoTags") or ()}
    images = [(name, lease) for name in sorted(names) if (lease := lease_of_image(name)) is not None]
    if not containers and not images:
        return Swept(containers=(), images=())
    running = [str(item["Id"]) for item in engine.api.containers()]
    now = time.time()

    def removable(lease: Lease) -> bool:
        found: Life = "unknown"
        if lease.owner is not None:
            found = life(lease.owner, machine=this_machine(), running=running, start_of=start_of)
        return found == "dead" or (found == "unknown" and lease.until < now)

    # Containers first: an image that one of them uses cannot be removed.
    kinds = [
        str(item["Labels"].get(LABEL_KIND, "unknown"))
        for item, lease in containers
        if removable(lease)
        and _removed(
            f"the container {item['Id'][:_SHORT]}",
            functools.partial(engine.api.remove_container, item["Id"], force=True, v=True),
            listener,
        )
    ]
    untagged = [
        name
        for name, lease in images
        if removable(lease)
        and _removed(f"the image {name}", functools.partial(engine.api.remove_image, name, noprune=True), listener)
    ]
    return Swept(containers=tuple(kinds), images=tuple(untagged))


def _removed(what: str, remove: Callable[[], object], listener: Listener) -> bool:
    """Call *remove*, and tell whether it did it.

    Nothing is said where there is nothing to be done: another run's sweep was or is about to be quicker, or a container
    still uses the image; the next sweep sees.
    """
    from docker.errors import APIError

    try:
        remove()
    except APIError as error:
        if error.status_code not in (404, 409):
            text = f"A killed run left {what}, which cannot be removed: {error.explanation or error}"
            listener(Notice(text=text, level="warning"))
        return False
    _LOG.debug("Swept %s", what)
    return True
