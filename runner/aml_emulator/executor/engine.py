"""The Docker engine as the executor uses it: a network and a container per job; :mod:`aml_emulator.executor.images` has its images.

Facts on the engine: https://docs.docker.com/reference/api/engine/. Everything that is made carries the labels of
:func:`aml_emulator.executor.engine_words.labels`, and nothing without this emulator's label is ever removed.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

import docker
from docker.errors import (
    APIError,
    NotFound,
)
from docker.types import DeviceRequest, LogConfig

from aml_emulator.executor.engine_words import (
    ENGINE_SECONDS,
    INSTANCE_LABEL,
    PING_SECONDS,
    RUN_LABEL,
    EngineFault,
    fault_text,
    labels,
)
from aml_emulator.executor.images import Images

LOGGER = logging.getLogger(__name__)


DEFAULT_SHM_BYTES = 2 * 1024**3
"""AzureML's default for resources.shm_size: https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command."""

STOP_GRACE_SECONDS = 5


class OutputStream:
    """What a container writes, in chunks. To be closed after the last of them, or earlier."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream)

    def close(self) -> None:
        """Give back the connection. The stream's own close() leaves its socket open, and fails on one that has ended."""
        self._stream._response.close()


@dataclass(frozen=True, kw_only=True)
class Network:
    """A job's own network, and the name or address of the emulator on it."""

    id: str
    emulator_host: str


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a container ended."""

    code: int
    out_of_memory: bool
    error: str


class Engine:
    """One Docker engine, on behalf of one emulator.

    Args:
        instance: the emulator's identity, for the labels.
        container: the emulator's own container, to be joined to the jobs' networks; None for a plain process.
        emulator_alias: the emulator's name on those networks.
    """

    def __init__(self, *, instance: str, container: str | None, emulator_alias: str) -> None:
        self._instance = instance
        self._container = container
        self._alias = emulator_alias
        self._client = docker.DockerClient.from_env(timeout=ENGINE_SECONDS, max_pool_size=64)
        self._pinger = docker.DockerClient.from_env(timeout=PING_SECONDS)
        self._api = self._client.api
        self.images = Images(self._client, instance)
        self._init = True
        self._gpus: bool | None = None
        self._lock = threading.Lock()

    def ready(self) -> bool:
        """Tell whether the engine answers."""
        try:
            return bool(self._pinger.ping())
        except EngineFault:
            return False

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()
        self._pinger.close()

    def create_network(self, run_id: str) -> Network:
        """Make the run's network, with the emulator on it; one that a crash left behind is replaced."""
        # The engine takes a container's published ports from its network that is first by name. A job's must not be that:
        # each one would move the emulator's ports, and refuse connections for a moment.
        name = f"zz-job-{self._name(run_id)}"
        for stale in self._networks(run_id):
            self.remove_network(stale)
        created = self._api.create_network(
            name, driver="bridge", labels=labels(self._instance, run_id), check_duplicate=True
        )
        network_id = str(created["Id"])
        try:
            if self._container is not None:
                self._api.connect_container_to_network(self._container, network_id, aliases=[self._alias])
                return Network(id=network_id, emulator_host=self._alias)
            config = self._api.inspect_network(network_id)["IPAM"]["Config"][0]
            return Network(id=network_id, emulator_host=str(config["Gateway"]))
        except BaseException:
            self.remove_network(network_id)
            raise

    def join_network(self, run_id: str) -> None:
        """Put the emulator back on a running job's network, where it is not: it may have been made anew."""
        if self._container is None:
            return
        for network_id in self._networks(run_id):
            try:
                self._api.connect_container_to_network(self._container, network_id, aliases=[self._alias])
            except APIError as error:
                if "already exists" not in fault_text(error):
                    raise

    def create_container(
        self,
        run_id: str,
        *,
        image: str,
        command: tuple[str, ...],
        environment: Mapping[str, str],
        working_directory: str,
        network: Network,
        shm_bytes: int | None,
        host_options: Mapping[str, Any] | None = None,
        hostname: str | None = None,
    ) -> str:
        """Make the run's container and return its id; one that a crash left behind is replaced."""
        if (stale := self.find(run_id)) is not None:
            self.remove(stale)
        options = {"shm_size": DEFAULT_SHM_BYTES if shm_bytes is None else shm_bytes, **(host_options or {})}
        if options.get("ipc_mode") == "host":
            # The host's own /dev/shm has the host's size.
            del options["shm_size"]
        host = self._api.create_host_config(
            network_mode=network.id,
            init=self._init or None,
            # The engine's log is read again after a restart of the emulator; not every log driver can be read.
            log_config=LogConfig(type=LogConfig.types.JSON),
            device_requests=[DeviceRequest(count=-1, capabilities=[["gpu"]])] if self._has_gpus() else None,
            **options,
        )
        created = self._api.create_container(
            image,
            command=list(command[1:]),
            entrypoint=[command[0]],
            environment=dict(environment),
            working_dir=working_directory,
            # Jobs on AzureML run as root, whatever the image's USER says.
            user="0:0",
            host_config=host,
            hostname=hostname,
            labels=labels(self._instance, run_id),
            name=self._name(run_id),
            stop_signal="SIGTERM",
            use_config_proxy=False,
        )
        return str(created["Id"])

    def start(self, container_id: str) -> None:
        """Start the container.

        Raises:
            InitMissingError: the engine has no docker-init; a container made anew goes without it.
        """
        try:
            self._api.start(container_id)
        except APIError as error:
            if self._init and "docker-init" in fault_text(error):
                self._init = False
                raise InitMissingError(fault_text(error)) from error
            raise

    def put(self, container_id: str, archive: Iterator[bytes]) -> None:
        """Extract a tar stream at the container's root."""
        self._api.put_archive(container_id, "/", archive)

    def get(self, container_id: str, path: str) -> Iterator[bytes] | None:
        """Return a tar stream of *path*, or None where it does not exist."""
        try:
            stream, _ = self._api.get_archive(container_id, path)
        except NotFound:
            return None
        return iter(cast(Iterator[bytes], stream))

    def attach(self, container_id: str) -> OutputStream:
        """Return what the container will write, stdout and stderr in order; to be called before it is started."""
        return OutputStream(self._api.attach(container_id, stdout=True, stderr=True, stream=True, logs=False))

    def output(self, container_id: str, *, follow: bool) -> OutputStream:
        """Return what the container wrote, from its start; with *follow* until it ends.

        Followed, an engine may drop a last line without a newline; once the container has ended it is there.
        """
        return OutputStream(self._api.logs(container_id, stdout=True, stderr=True, stream=True, follow=follow))

    def wait(self, container_id: str) -> Exit:
        """Wait until the container has ended; raises what docker-py raises when it or the engine vanishes."""
        code = int(self._api.wait(container_id, timeout=None)["StatusCode"])
        state: dict[str, Any] = self._api.inspect_container(container_id)["State"]
        return Exit(code=code, out_of_memory=bool(state.get("OOMKilled")), error=str(state.get("Error") or ""))

    def stop(self, container_id: str) -> None:
        """End the container: SIGTERM, five seconds of grace, SIGKILL. One that has ended is no error."""
        try:
            self._api.stop(container_id, timeout=STOP_GRACE_SECONDS)
        except NotFound:
            LOGGER.debug("Container %s was gone before it was stopped", container_id)

    def find(self, run_id: str) -> str | None:
        """Return the id of the run's container, whatever its state."""
        wanted = [f"{key}={value}" for key, value in labels(self._instance, run_id).items()]
        found = self._api.containers(all=True, filters={"label": wanted})
        return str(found[0]["Id"]) if found else None

    def state(self, container_id: str) -> dict[str, Any]:
        """Return the ``State`` of the engine's inspection."""
        state: dict[str, Any] = self._api.inspect_container(container_id)["State"]
        return state

    def remove(self, container_id: str) -> None:
        """Remove the container and its anonymous volumes; a failure is logged."""
        try:
            self._api.remove_container(container_id, force=True, v=True)
        except NotFound:
            LOGGER.debug("Container %s was gone already", container_id)
        except EngineFault as error:
            if "already in progress" not in fault_text(error):
                LOGGER.warning("Container %s could not be removed: %s", container_id, fault_text(error))

    def remove_network(self, network_id: str) -> None:
        """Take the emulator off the network and remove it; a failure is logged."""
        try:
            if self._container is not None:
                self._disconnect(self._container, network_id)
            self._api.remove_network(network_id)
        except NotFound:
            LOGGER.debug("Network %s was gone already", network_id)
        except EngineFault as error:
            LOGGER.warning("Network %s could not be removed: %s", network_id, fault_text(error))

    def sweep(self, *, keep: frozenset[str]) -> None:
        """Remove this emulator's containers and networks, but for those of the runs in *keep*."""
        own = {"label": [f"{INSTANCE_LABEL}={self._instance}"]}
        for item in self._api.containers(all=True, filters=own):
            if item["Labels"].get(RUN_LABEL) not in keep:
                self.remove(str(item["Id"]))
        for item in self._api.networks(filters=own):
            if item["Labels"].get(RUN_LABEL) not in keep:
                self.remove_network(str(item["Id"]))

    def remove_networks(self, run_id: str) -> None:
        """Remove the run's networks."""
        for network_id in self._networks(run_id):
            self.remove_network(network_id)

    def _disconnect(self, container: str, network_id: str) -> None:
        try:
            self._api.disconnect_container_from_network(container, network_id, force=True)
        except APIError as error:
            if "is not connected" not in fault_text(error):
                raise

    def _networks(self, run_id: str) -> list[str]:
        wanted = [f"{key}={value}" for key, value in labels(self._instance, run_id).items()]
        return [str(item["Id"]) for item in self._api.networks(filters={"label": wanted})]

    def _name(self, run_id: str) -> str:
        """Return a name that two emulators on one engine do not share."""
        return f"aml-{self._instance[:8]}-{run_id}"

    def _has_gpus(self) -> bool:
        with self._lock:
            if self._gpus is None:
                self._gpus = "nvidia" in (self._api.info().get("Runtimes") or {})
            return self._gpus


class InitMissingError(Exception):
    """The engine was asked for an init process and has none."""
