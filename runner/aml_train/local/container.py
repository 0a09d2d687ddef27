"""The container of the local AzureML on the Docker engine, and its address."""

from __future__ import annotations

import contextlib
import json
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from docker.errors import APIError, ImageNotFound, NotFound
from docker.types import LogConfig

from aml_train.core.docker import connect_engine, in_container, own_container
from aml_train.core.errors import ServiceError
from aml_train.local.settings import EmulatorSettings

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container
    from docker.models.networks import Network

_LOG = logging.getLogger(__name__)

NAME_LABEL: Final = "org.aml-train.emulator.name"
SETTINGS_LABEL: Final = "org.aml-train.emulator.settings"
# The labels of what the local AzureML itself makes for its jobs; see aml_emulator.executor.engine.
INSTANCE_LABEL: Final = "org.aml-train.emulator.instance"
RUN_LABEL: Final = "org.aml-train.emulator.run"

DATA: Final = "/var/lib/aml-emulator"
SOCKET: Final = "/var/run/docker.sock"
STOP_SECONDS: Final = 10


@contextlib.contextmanager
def opened(settings: EmulatorSettings) -> Iterator[tuple[DockerClient, Container | None]]:
    """Give a client of the engine and the local AzureML's container, as :func:`find` does.

    Raises:
        ImageError: the engine does not answer.
        ServiceError: a container of this name is something else.
    """
    with contextlib.closing(connect_engine(os.environ)) as client:
        yield client, find(client, settings)


def find(client: DockerClient, settings: EmulatorSettings) -> Container | None:
    """Return the local AzureML's container, running or not, or None.

    Raises:
        ServiceError: a container of this name is something else.
    """
    try:
        container = client.containers.get(settings.name)
    except NotFound:
        return None
    if NAME_LABEL not in container.labels:
        raise ServiceError(
            f"There is a container {settings.name} that is not a local AzureML.",
            hint="Choose another name: AML_TRAIN_EMULATOR_NAME.",
        )
    return container


def fingerprint(settings: EmulatorSettings) -> str:
    """Return the settings that a container cannot change once it is made."""
    fixed = ("port", "registry_port", "max_jobs", "fuse", "job_memory", "job_processes")
    return json.dumps({name: getattr(settings, name) for name in fixed}, sort_keys=True)


def image_id(client: DockerClient, settings: EmulatorSettings) -> str | None:
    """Return the id of the image, or None where the engine does not have it."""

    try:
        return str(client.images.get(settings.image).id)
    except ImageNotFound:
        return None


def is_current(client: DockerClient, container: Container, settings: EmulatorSettings) -> bool:
    """Return whether *container* is as wanted: settings, network and image.

    An image that is no longer there changes nothing for a container that is.
    """
    wanted = image_id(client, settings)
    same_image = wanted is None or container.attrs["Image"] == wanted
    networks = {network.id for network in _own_networks(client, settings)}
    there = container.attrs["NetworkSettings"]["Networks"].get(settings.network, {}).get("NetworkID") in networks
    return same_image and there and container.labels.get(SETTINGS_LABEL) == fingerprint(settings)


def _own_networks(client: DockerClient, settings: EmulatorSettings) -> list[Network]:
    """Return the container's own network, unless the engine does not have it."""
    return client.networks.list(names=[settings.network], filters={"label": f"{NAME_LABEL}={settings.name}"})


def create(client: DockerClient, settings: EmulatorSettings) -> Container:
    """Make the container and, if they do not exist, its network and volume.

    The volume holds its state. Only the owner of the engine puts containers on the network, unlike on the engine's default one.
    """

    client.volumes.create(settings.volume, labels={NAME_LABEL: settings.name})
    if not _own_networks(client, settings):
        client.networks.create(settings.network, driver="bridge", labels={NAME_LABEL: settings.name})
    return client.containers.create(
        settings.image,
        name=settings.name,
        labels={NAME_LABEL: settings.name, SETTINGS_LABEL: fingerprint(settings)},
        environment=container_environment(settings, os.environ),
        network=settings.network,
        ports={
            "7380/tcp": ("127.0.0.1", settings.port),
            "7381/tcp": ("127.0.0.1", settings.registry_port),
        },
        volumes={
            settings.volume: {"bind": DATA, "mode": "rw"},
            _engine_socket(os.environ): {"bind": SOCKET, "mode": "rw"},
        },
        use_config_proxy=False,
        log_config=LogConfig(type=LogConfig.types.JSON, config={"max-size": "20m", "max-file": "3"}),
    )


def container_environment(settings: EmulatorSettings, outer: Mapping[str, str]) -> dict[str, str]:
    """Return the variables of the local AzureML's process, with the proxy of *outer*.

    A proxy on loopback is left out: the container could not reach it, and it may be the local AzureML itself.
    """
    chosen = {
        "AML_EMULATOR_CONTAINER": settings.name,
        "AML_EMULATOR_CLIENTS": "network",
        "AML_EMULATOR_REGISTRY_ENGINE_NAME": settings.registry_engine_name,
        "AML_EMULATOR_MAX_JOBS": str(settings.max_jobs),
        "AML_EMULATOR_FUSE": "yes" if settings.fuse else "no",
        "AML_EMULATOR_JOB_MEMORY": settings.job_memory,
        "AML_EMULATOR_JOB_PROCESSES": str(settings.job_processes),
        # The address for a browser on the engine's machine, whatever address this process uses.
        "AML_EMULATOR_PAGE_ADDRESS": settings.page_origin,
    }
    for name in ("HTTPS_PROXY", "HTTP_PROXY"):
        proxy = outer.get(name) or outer.get(name.lower())
        if proxy and urlsplit(proxy).hostname not in {None, settings.host, "localhost", "127.0.0.1", "::1"}:
            chosen[name] = proxy
            chosen["NO_PROXY"] = outer.get("NO_PROXY") or outer.get("no_proxy") or ""
    return chosen


def _engine_socket(outer: Mapping[str, str]) -> str:
    """Return where the engine's machine has the engine's socket."""
    scheme, _, path = outer.get("DOCKER_HOST", "").partition("://")
    return path if scheme == "unix" and path else SOCKET


def start_container(container: Container) -> None:
    """Start the container.

    Raises:
        ServiceError: a port is taken, or the engine refuses for another reason.
    """

    try:
        container.start()
    except APIError as error:
        said = str(error.explanation or error)
        taken = any(
            word in said for word in ("already allocated", "address already in use", "ports are not available")
        )
        hint = "Stop what listens there, or choose other ports: AML_TRAIN_EMULATOR_PORT and AML_TRAIN_EMULATOR_REGISTRY_PORT."
        raise ServiceError(f"The local AzureML cannot start: {said}", hint=hint if taken else None) from error


def log_lines(container: Container, *, follow: bool) -> Iterator[str]:
    """Yield the container's log line by line, without line ends."""
    rest = b""
    stream: Any = container.logs(stream=True, follow=follow)
    try:
        for chunk in stream:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", errors="replace")
        if rest:
            yield rest.decode("utf-8", errors="replace")
    finally:
        # The stream's own close() leaves its socket open, and fails on one that has ended.
        stream._response.close()


def running_jobs(client: DockerClient, container: Container) -> list[str]:
    """Return the names of the jobs whose containers run now."""
    return sorted(str(item.labels[RUN_LABEL]) for item in _job_containers(client, container, everything=False))


def sweep_jobs(client: DockerClient, container: Container) -> None:
    """Remove the containers and networks of the local AzureML's jobs.

    A stopped local AzureML may have been removing some of them: the engine continues with its requests.
    """

    for item in _job_containers(client, container, everything=True):
        _remove(item)
    for instance in _instances(client, container):
        for network in client.networks.list(filters={"label": f"{INSTANCE_LABEL}={instance}"}):
            with contextlib.suppress(NotFound):
                network.disconnect(container, force=True)
                network.remove()


def remove_network(client: DockerClient, settings: EmulatorSettings) -> None:
    """Remove the container's own network; other containers are taken off it."""
    for network in _own_networks(client, settings):
        network.reload()
        for connected in network.attrs["Containers"]:
            network.disconnect(connected, force=True)
        network.remove()


def _remove(container: Container) -> None:
    """Have the container removed; one that is being removed already is waited for."""

    with contextlib.suppress(NotFound):
        try:
            container.remove(force=True, v=True)
        except APIError as error:
            if "already in progress" not in str(error.explanation):
                raise
            container.wait(condition="removed")


def sweep_images(client: DockerClient, instance: str) -> None:
    """Remove the images built of environments by *instance*; one in use stays."""

    for image in client.images.list(filters={"label": f"{INSTANCE_LABEL}={instance}"}):
        for tag in image.tags:
            try:
                client.images.remove(tag)
            except APIError as error:
                _LOG.warning("The image %s could not be removed: %s", tag, error.explanation or error)


def _job_containers(client: DockerClient, container: Container, *, everything: bool) -> list[Container]:
    found: list[Container] = []
    for instance in _instances(client, container):
        wanted: dict[str, str | list[str] | bool] = {"label": [f"{INSTANCE_LABEL}={instance}", RUN_LABEL]}
        found += client.containers.list(all=everything, filters=wanted, ignore_removed=True)
    return found


def _instances(client: DockerClient, container: Container) -> set[str]:
    """Return the identities of the local AzureML whose networks the container is on."""
    container.reload()
    attached: Mapping[str, Any] = container.attrs["NetworkSettings"]["Networks"]
    labelled = client.networks.list(filters={"label": INSTANCE_LABEL})
    return {str(network.attrs["Labels"][INSTANCE_LABEL]) for network in labelled if network.name in attached}


# Ports are published on the engine's loopback. In a container of that engine (GitHub's container actions, a development container) loopback is
# another one, unless the container shares the engine's network (act's default).
_MOST_HOPS: Final = 5


def reached(client: DockerClient, container: Container, settings: EmulatorSettings) -> EmulatorSettings:
    """Return *settings* with the address at which this process finds *container*.

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
    """Return the container's networks that have an address: name → address."""
    networks: dict[str, Any] = container.attrs["NetworkSettings"]["Networks"]
    return {name: network["IPAddress"] for name, network in networks.items() if network.get("IPAddress")}
