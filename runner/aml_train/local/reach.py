"""How this process reaches the local AzureML: by its published ports, or, from inside a container, by its address there.

Ports are published on the engine's loopback. In a container of that engine (GitHub's container actions, a development
container) loopback is another one, unless the container shares the engine's network (act's default).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from aml_train.core.docker import in_container, own_container
from aml_train.local.settings import EmulatorSettings

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

_MOST_HOPS: Final = 5


def reached(client: DockerClient, container: Container, settings: EmulatorSettings) -> EmulatorSettings:
    """Return *settings* with the address at which this process finds the running *container*.

    From a container on another network, this process's own container is put on the emulator's network. It is never the
    other way round: the engine moves a container's published ports with its networks.

    Outside a container, or in one that is none of this engine's, the settings stay as they are.
    """
    if not in_container():
        return settings
    own = own_container(client)
    if own is None:
        return settings
    own = _network_owner(client, own)
    if own.attrs["HostConfig"]["NetworkMode"] == "host":
        return settings
    container.reload()
    theirs = _addresses(container)
    shared = [name for name in _addresses(own) if name in theirs]
    if not shared:
        shared = [next(iter(theirs))]
        client.networks.get(shared[0]).connect(own)
    return replace(settings, host=theirs[shared[0]], inside=True)


def _network_owner(client: DockerClient, container: Container) -> Container:
    """Follow ``network_mode: container:ID`` to the container whose network it is."""
    for _ in range(_MOST_HOPS):
        mode: str = container.attrs["HostConfig"]["NetworkMode"]
        if not mode.startswith("container:"):
            break
        container = client.containers.get(mode.removeprefix("container:"))
    return container


def _addresses(container: Container) -> dict[str, str]:
    """Return the container's networks: name → its address there. Networks without one (host, none) are left out."""
    networks: dict[str, Any] = container.attrs["NetworkSettings"]["Networks"]
    return {name: network["IPAddress"] for name, network in networks.items() if network.get("IPAddress")}
