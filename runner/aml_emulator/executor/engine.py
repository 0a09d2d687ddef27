"""The Docker engine of the executor: a network per job and a container per node.

Facts on the engine: https://docs.docker.com/reference/api/engine/. Everything that is made carries the labels of
:func:`aml_emulator.executor.shared.labels`, and nothing without this emulator's label is ever removed.
"""

from __future__ import annotations

import contextlib
import logging
import secrets
import tarfile
import threading
from collections.abc import Generator, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from docker.errors import APIError, NotFound
from docker.types import DeviceRequest, LogConfig

from aml_emulator.executor.archive import ChunkReader
from aml_emulator.executor.images import Images
from aml_emulator.executor.layout import EMULATOR_HOST
from aml_emulator.executor.shared import (
    INSTANCE_LABEL,
    NODE_LABEL,
    RUN_LABEL,
    EngineFault,
    fault_text,
    labels,
)
from aml_emulator.executor.spec import ExecutorSettings

logger = logging.getLogger(__name__)


DEFAULT_SHM_BYTES = 2 * 1024**3
"""AzureML's default for resources.shm_size: https://learn.microsoft.com/azure/machine-learning/reference-yaml-job-command."""

STOP_GRACE_SECONDS = 5

FOLLOWED = b"followed:"
"""Precedes the output of :meth:`Engine.follow_file`."""

VOLUME_PATH = "/mnt/azureml/cr/shared"
"""The folder that a job's nodes share."""


class OutputStream:
    """A container's output in chunks, None for a pause; close it after use."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._stream or ())

    def close(self) -> None:
        """Release the connection: the stream's own close() leaves its socket open."""
        if self._stream is not None:
            self._stream._response.close()


class _Marked(OutputStream):
    """The output after ``FOLLOWED``, or nothing if that does not come.

    If a container ends just then, the engine's complaint takes the place of the output.
    """

    def __iter__(self) -> Iterator[bytes]:
        head = b""
        for chunk in super().__iter__():
            if head == FOLLOWED:
                yield chunk
                continue
            head += chunk
            if head.startswith(FOLLOWED):
                head, rest = FOLLOWED, head[len(FOLLOWED) :]
                if rest:
                    yield rest


@dataclass(frozen=True, kw_only=True)
class Network:
    """A job's own network, and the name or address of the emulator on it."""

    id: str
    emulator_host: str


@dataclass(frozen=True, kw_only=True)
class Exit:
    """How a container ended, and when, as the engine writes it."""

    code: int
    out_of_memory: bool
    error: str
    at: str = ""


class Engine:
    """One Docker engine, on behalf of one emulator.

    Args:
        settings: the emulator's identity, for the labels; its own container, to be joined to the jobs' networks; and its
            names there.
    """

    def __init__(self, settings: ExecutorSettings) -> None:
        self._instance = settings.instance
        self._own = {"label": [f"{INSTANCE_LABEL}={settings.instance}"]}
        self._container = settings.container
        self._names = [EMULATOR_HOST, *settings.hosts]
        client = settings.shared.engine
        self._pinger = settings.shared.pinger
        self._api = client.api
        self.images = Images(client, settings.instance)
        self._machine: dict[str, Any] | None = None
        self._lock = threading.Lock()

    def ready(self) -> bool:
        """Return whether the engine answers."""
        try:
            return bool(self._pinger.ping())
        except EngineFault:
            return False

    def create_network(self, run_id: str) -> Network:
        """Create the run's network with the emulator on it; one after a crash is replaced.

        It leads nowhere else: the emulator's proxy is the only way out.
        """
        # The engine takes a container's published ports from its network that is first by name. A job's must not be that:
        # each one would move the emulator's ports, and refuse connections for a moment.
        name = f"zz-job-{self._name(run_id)}"
        for stale in self._networks(run_id):
            self.remove_network(stale)
        created = self._api.create_network(
            name, driver="bridge", labels=labels(self._instance, run_id), check_duplicate=True, internal=True
        )
        network_id = str(created["Id"])
        try:
            if self._container is not None:
                self._api.connect_container_to_network(self._container, network_id, aliases=self._names)
                return Network(id=network_id, emulator_host=EMULATOR_HOST)
            config = self._api.inspect_network(network_id)["IPAM"]["Config"][0]
            return Network(id=network_id, emulator_host=str(config["Gateway"]))
        except BaseException:
            self.remove_network(network_id)
            raise

    @contextlib.contextmanager
    def build_network(self) -> Iterator[str]:
        """Have a network for one build, which shares none with other containers.

        It leads outside, for package sources of Microsoft's clouds as well, which the emulator's proxy refuses.
        """
        name = f"zz-build-{self._instance[:8]}-{secrets.token_hex(8)}"
        network_id = str(
            self._api.create_network(name, driver="bridge", labels={INSTANCE_LABEL: self._instance})["Id"]
        )
        try:
            yield network_id
        finally:
            self.remove_network(network_id)

    def join_network(self, run_id: str) -> None:
        """Connect the emulator to a running job's network again, if it is not."""
        if self._container is None:
            return
        for network_id in self._networks(run_id):
            try:
                self._api.connect_container_to_network(self._container, network_id, aliases=self._names)
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
        node: int = 0,
        alias: str | None = None,
        volume: str | None = None,
    ) -> str:
        """Make the container of one of the run's nodes and return its id.

        Args:
            alias: its name on the run's network, next to that of the container.
            volume: the run's volume, to be mounted at ``VOLUME_PATH``.
        """
        options = {"shm_size": DEFAULT_SHM_BYTES if shm_bytes is None else shm_bytes, **(host_options or {})}
        host = self._api.create_host_config(
            network_mode=network.id,
            init=True,
            # The engine's log is read again after a restart of the emulator; not every log driver can be read.
            log_config=LogConfig(type=LogConfig.types.JSON),
            device_requests=[DeviceRequest(count=-1, capabilities=[["gpu"]])] if self.has_gpus() else None,
            binds=[f"{volume}:{VOLUME_PATH}"] if volume else None,
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
            networking_config=self._network_names(network, alias),
            labels={**labels(self._instance, run_id), NODE_LABEL: str(node)},
            name=self._name(run_id) + (f"-{node}" if node else ""),
            stop_signal="SIGTERM",
            use_config_proxy=False,
        )
        return str(created["Id"])

    def _network_names(self, network: Network, alias: str | None) -> Any:
        if alias is None:
            return None
        endpoints: Any = {network.id: self._api.create_endpoint_config(aliases=[alias])}
        return self._api.create_networking_config(endpoints)

    def address(self, container_id: str) -> str:
        """Return the IP address of a container that runs, on the network of its run."""
        networks = self._api.inspect_container(container_id)["NetworkSettings"]["Networks"]
        return str(next(iter(networks.values()))["IPAddress"])

    def create_volume(self, run_id: str) -> str:
        """Create a volume for the run's nodes; one after a crash is replaced."""
        self.remove_volumes(run_id)
        created = self._api.create_volume(self._name(run_id), labels=labels(self._instance, run_id))
        return str(created["Name"])

    def remove_volumes(self, run_id: str) -> None:
        """Remove the run's volumes; a failure is logged."""
        for item in self._volumes(self._filters(run_id)):
            self._remove_volume(str(item["Name"]))

    def _volumes(self, filters: dict[str, Any]) -> list[dict[str, Any]]:
        return list(self._api.volumes(filters=filters)["Volumes"] or [])

    def _remove_volume(self, name: str) -> None:
        with _removing("Volume", name):
            self._api.remove_volume(name)

    def start(self, container_id: str) -> None:
        """Start the container."""
        self._api.start(container_id)

    def put(self, container_id: str, archive: Iterator[bytes]) -> None:
        """Extract a tar stream at the container's root."""
        self._api.put_archive(container_id, "/", archive)

    def get(self, container_id: str, path: str) -> Generator[bytes, None, None] | None:
        """Return a tar stream of *path*, or None where it does not exist."""
        try:
            stream, _ = self._api.get_archive(container_id, path)
        except NotFound:
            return None
        return cast("Generator[bytes, None, None]", stream)

    def has(self, container_id: str, path: str) -> bool:
        """Return whether a small file exists at *path*."""
        stream = self.get(container_id, path)
        return stream is not None and bool(b"".join(stream))

    def attach(self, container_id: str) -> OutputStream:
        """Return the container's coming output; call it before the start."""
        return OutputStream(self._api.attach(container_id, stdout=True, stderr=True, stream=True, logs=False))

    def output(self, container_id: str, *, follow: bool) -> OutputStream:
        """Return what the container wrote, from its start; with *follow* until it ends.

        Followed, an engine may drop a last line without a newline; once the container has ended it is there.
        """
        return OutputStream(self._api.logs(container_id, stdout=True, stderr=True, stream=True, follow=follow))

    def follow_file(self, container_id: str, path: str) -> OutputStream:
        """Return a growing file of a running container, from its start to the end.

        Nothing comes from an image without ``tail``; once the container has ended, :meth:`file` returns all of it.
        """
        script = 'command -v tail >/dev/null || exit 0; printf "$1"; exec tail -c +1 -f "$0" 2>/dev/null'
        command = ["/bin/sh", "-c", script, path, FOLLOWED.decode()]
        try:
            made = self._api.exec_create(container_id, command, stdout=True, stderr=False, user="0")
            return _Marked(self._api.exec_start(made["Id"], stream=True))
        except APIError:
            if self.state(container_id)["Running"]:
                raise
            return OutputStream(None)

    def file(self, container_id: str, path: str) -> Iterator[bytes]:
        """Yield the content of one file of a container; nothing where there is none."""
        stream = self.get(container_id, path)
        if stream is None:
            return
        # Closed also where the reader stops early: the engine locks a container while it sends an archive of it.
        with contextlib.closing(stream):
            with tarfile.open(fileobj=ChunkReader(stream), mode="r|") as archive:
                for member in archive:
                    content = archive.extractfile(member) if member.isreg() else None
                    while content is not None and (chunk := content.read(1024 * 1024)):
                        yield chunk
            for _ in stream:
                # The data after the archive's end mark is read too: only then is the connection free again.
                pass

    def wait(self, container_id: str) -> Exit:
        """Wait until the container has ended; raise docker-py's error if it vanishes."""
        code = int(self._api.wait(container_id, timeout=None)["StatusCode"])
        state: dict[str, Any] = self._api.inspect_container(container_id)["State"]
        return Exit(
            code=code,
            out_of_memory=bool(state.get("OOMKilled")),
            error=str(state.get("Error") or ""),
            at=str(state.get("FinishedAt") or ""),
        )

    def stop(self, container_id: str) -> None:
        """End the container: SIGTERM, five seconds of grace, SIGKILL."""
        try:
            self._api.stop(container_id, timeout=STOP_GRACE_SECONDS)
        except NotFound:
            logger.debug("Container %s was gone before it was stopped", container_id)

    def find(self, run_id: str) -> tuple[str, ...]:
        """Return the ids of the run's containers in any state, in the order of its nodes."""
        found = self._api.containers(all=True, filters=self._filters(run_id))
        return tuple(
            str(item["Id"]) for item in sorted(found, key=lambda item: int(item["Labels"].get(NODE_LABEL, 0)))
        )

    def state(self, container_id: str) -> dict[str, Any]:
        """Return the ``State`` of the engine's inspection."""
        state: dict[str, Any] = self._api.inspect_container(container_id)["State"]
        return state

    def remove(self, container_id: str) -> None:
        """Remove the container and its anonymous volumes; a failure is logged."""
        with _removing("Container", container_id):
            self._api.remove_container(container_id, force=True, v=True)

    def remove_network(self, network_id: str) -> None:
        """Take the emulator off the network and remove it; a failure is logged."""
        with _removing("Network", network_id):
            if self._container is not None:
                self._disconnect(self._container, network_id)
            self._api.remove_network(network_id)

    def sweep(self, *, keep: frozenset[str]) -> None:
        """Remove this emulator's containers, networks and volumes but those of *keep*."""
        for item in self._api.containers(all=True, filters=self._own):
            if item["Labels"].get(RUN_LABEL) not in keep:
                self.remove(str(item["Id"]))
        for item in self._api.networks(filters=self._own):
            if item["Labels"].get(RUN_LABEL) not in keep:
                self.remove_network(str(item["Id"]))
        for item in self._volumes(self._own):
            if (item["Labels"] or {}).get(RUN_LABEL) not in keep:
                self._remove_volume(str(item["Name"]))

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
        return [str(item["Id"]) for item in self._api.networks(filters=self._filters(run_id))]

    def _filters(self, run_id: str) -> dict[str, list[str]]:
        """Return the engine's filters for what belongs to a run."""
        return {"label": [f"{key}={value}" for key, value in labels(self._instance, run_id).items()]}

    def _name(self, run_id: str) -> str:
        """Return a name that two emulators on one engine do not share."""
        return f"aml-{self._instance[:8]}-{run_id}"

    def has_gpus(self) -> bool:
        """Return whether the engine gives containers the machine's GPUs."""
        return "nvidia" in (self._info().get("Runtimes") or {})

    def memory_bytes(self) -> int:
        """Return the memory of the engine's machine."""
        return int(self._info()["MemTotal"])

    def _info(self) -> dict[str, Any]:
        """Return what the engine says of its machine, asked once."""
        with self._lock:
            if self._machine is None:
                self._machine = dict(self._api.info())
            return self._machine


@contextlib.contextmanager
def _removing(kind: str, name: str) -> Iterator[None]:
    """Log how a removal fails."""
    try:
        yield
    except NotFound:
        logger.debug("%s %s was gone already", kind, name)
    except EngineFault as error:
        if "already in progress" not in fault_text(error):
            logger.warning("%s %s could not be removed: %s", kind, name, fault_text(error))
