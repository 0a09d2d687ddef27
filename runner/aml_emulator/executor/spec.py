"""Values and protocols between the emulator and its executor: runs and results.

Everything here is plain data that survives a restart: :func:`spec_to_json` and :func:`spec_from_json` turn a :class:`RunSpec`
into text and back.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any, Final, Literal, Protocol

from aml_emulator.executor.launch import Launcher
from aml_emulator.executor.shared import JOB_PROCESSES, Shared
from aml_emulator.network.hosts import Outward

InputKind = Literal["literal", "uri_file", "uri_folder", "mltable", "mlflow_model", "custom_model", "triton_model"]
"""How an input was declared: a literal has a value, everything else a location."""

Ending = Literal["Completed", "Failed", "Canceled"]
"""The words a run can end with."""

LOG_PATH = "user_logs/std_log.txt"
"""AzureML's path of the command's output, among the run's artifacts.

The processes of a distributed job have :func:`aml_emulator.executor.ranks.log_paths` instead.
"""


@dataclass(frozen=True, kw_only=True)
class Folder:
    """A folder in Blob storage: the blobs of *container* below *prefix*.

    For a single file *prefix* is the blob's whole name. An empty prefix is the whole container.
    """

    container: str
    prefix: str

    def name_of(self, relative: str) -> str:
        """Return the whole blob name of *relative*, a path within this folder."""
        stem = self.prefix.strip("/")
        return f"{stem}/{relative}" if stem else relative


@dataclass(frozen=True, kw_only=True)
class InputSpec:
    """One input of the job.

    Attributes:
        literal: what the command gets instead of a path: a literal's text, or the address of a ``Direct`` input.
        location: its place in Blob storage.
        pattern: takes only the files of *location* whose paths match; see :mod:`aml_emulator.executor.content`.
        url: address of a file elsewhere, which is downloaded.
        uri: what the job said, for messages.
    """

    name: str
    kind: InputKind
    literal: str | None = None
    location: Folder | None = None
    pattern: str | None = None
    url: str | None = None
    uri: str = ""
    mode: str = "ReadOnlyMount"


@dataclass(frozen=True, kw_only=True)
class OutputSpec:
    """A named output of the job: the files at its path are stored at *location*.

    In the mode ``Direct`` the command gets *uri*, and stores what it makes itself.
    """

    name: str
    kind: str
    location: Folder
    uri: str = ""
    mode: str = "ReadWriteMount"


@dataclass(frozen=True, kw_only=True)
class BuildSpec:
    """The build of an image: a build context, a conda file over an image, or both.

    Attributes:
        tag: the image's name on the engine, which says what it is made of.
        title: the environment's name and version, for people.
        context: where the build context is.
        dockerfile: the Dockerfile's path in it.
        base: the image that *conda* goes over; with *context*, the name of what is made of that.
        conda: the text of a conda file.
    """

    tag: str
    title: str
    context: Folder | None = None
    dockerfile: str = "Dockerfile"
    base: str | None = None
    conda: str | None = None


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """One job, ready to be run.

    Attributes:
        command: the shell command; still holds ``${{inputs.x}}`` and ``${{outputs.x}}``.
        image: an image reference of the engine, or ``<login server>/<name>@sha256:…`` of the emulator's registry.
        environment_variables: the user's own variables.
        service_environment: what the service requires; wins over the user's.
        build: how *image* is made, where it has to be.
        artifacts: where ``outputs/``, ``logs/`` and the log are kept.
        shm_bytes: size of /dev/shm; the engine's default where it is None.
        memory_bytes: the memory of a node's VM size in bytes; None if no size was chosen.
        timeout_seconds: how long the command may run; None is without limit.
        compute: the cluster that the job waits for and runs on; empty for none.
        launcher: how the command is started; everything but ``once`` makes it a distributed job.
        nodes: how many nodes a distributed job has, each a container.
        processes: how many processes a node of PyTorch's or MPI's has.
        workers: how many workers TensorFlow has in all, and *servers* its parameter servers.
        host_options: further keywords of docker-py's ``create_host_config``.
        hostname: the container's name for itself; the engine's choice where it is None.
        notes: what the emulator does differently from what the job asked for.
        attempt: which attempt this is, from 1 on: a job whose nodes are taken back is put into the queue again.
        requeued: when that was, in seconds since the epoch; 0 for the first attempt.
    """

    run_id: str
    experiment: str
    display_name: str
    command: str
    image: str
    artifacts: Folder
    code: Folder | None = None
    environment_variables: Mapping[str, str] = field(default_factory=dict)
    service_environment: Mapping[str, str] = field(default_factory=dict)
    inputs: tuple[InputSpec, ...] = ()
    outputs: tuple[OutputSpec, ...] = ()
    shm_bytes: int | None = None
    memory_bytes: int | None = None
    timeout_seconds: float | None = None
    compute: str = ""
    launcher: Launcher = "once"
    nodes: int = 1
    processes: int = 1
    workers: int = 1
    servers: int = 0
    host_options: Mapping[str, Any] = field(default_factory=dict)
    hostname: str | None = None
    notes: tuple[str, ...] = ()
    build: BuildSpec | None = None
    attempt: int = 1
    requeued: float = 0.0


@dataclass(frozen=True, kw_only=True)
class RunError:
    """The error of a run: ``UserError`` is the job's fault, else the service's."""

    code: str
    message: str
    exit_code: int | None = None


class RunSink(Protocol):
    """Receives the progress of a run, in order, from the executor's threads."""

    def status(self, word: str, /) -> None:
        """The run is now Queued, Preparing, Running, CancelRequested or Finalizing."""

    def log(self, path: str, /) -> None:
        """A log exists at *path* in the artefacts, and grows."""

    def artifact(self, path: str, size: int, /) -> None:
        """A file of *size* bytes was stored at *path* in the artefacts."""

    def output(self, name: str, /) -> None:
        """The named output is stored whole at its location."""

    def unkept(self, files: Mapping[str, int], /) -> None:
        """The command left these files where they are not kept: path → bytes."""

    def requeued(self) -> RunSpec | None:
        """The run's nodes were taken back; returns its next attempt, None where it is cancelled instead."""

    def finished(self, status: Ending, error: RunError | None, /) -> None:
        """The run ended. The last call for a run."""


class BlobEntry(Protocol):
    """A blob found by :meth:`BlobStore.walk`."""

    @property
    def name(self) -> str: ...

    @property
    def size(self) -> int: ...


class BlobStore(Protocol):
    """The part of :class:`aml_emulator.store.blobs.Blobs` that the executor uses."""

    def walk(self, container: str, prefix: str) -> Iterator[BlobEntry]:
        """Yield the blobs below *prefix*, their names relative to it."""

    def read(self, container: str, name: str) -> Iterator[bytes]:
        """Yield the content of a blob in chunks."""

    def write(self, container: str, name: str, data: IO[bytes], length: int | None = None) -> None:
        """Store *data* as a blob, replacing what was there."""

    def append(self, container: str, name: str, data: bytes) -> None:
        """Add *data* to the end of an append blob, which is made when it is not there."""

    def delete_prefix(self, container: str, prefix: str) -> Sequence[BlobEntry]:
        """Remove every blob below *prefix* and return them; none is no error."""


SinkFor = Callable[[str], RunSink]
"""Gives the sink of the run of that id."""


def spec_to_json(spec: RunSpec) -> str:
    """Return *spec* as JSON, for the store."""
    return json.dumps(dataclasses.asdict(spec))


def spec_from_json(text: str) -> RunSpec:
    """Return the spec that :func:`spec_to_json` wrote."""
    data: dict[str, Any] = json.loads(text)

    def folder(value: dict[str, str] | None) -> Folder | None:
        return None if value is None else Folder(**value)

    inputs = (InputSpec(**item | {"location": folder(item["location"])}) for item in data["inputs"])
    outputs = (OutputSpec(**item | {"location": Folder(**item["location"])}) for item in data["outputs"])
    lists = {"inputs": tuple(inputs), "outputs": tuple(outputs), "notes": tuple(data["notes"])}
    places: dict[str, Any] = {"artifacts": Folder(**data["artifacts"]), "code": folder(data["code"])}
    build = data["build"]
    if build is not None:
        places["build"] = BuildSpec(**build | {"context": folder(build["context"])})
    return RunSpec(**data | places | lists)


class JobExecutor(Protocol):
    """Executes runs; `aml_emulator.executor.queue.JobQueue` does so in containers."""

    def start(self) -> None:
        """Prepare for runs."""

    def submit(self, spec: RunSpec) -> None:
        """Run this when there is room."""

    def cancel(self, run_id: str) -> bool:
        """Stop a run; False if it is not known here."""

    def adopt(self, specs: Iterable[RunSpec]) -> None:
        """Take up runs that were unfinished when the service stopped."""

    def active(self) -> tuple[str, ...]:
        """Return the ids of runs that wait or run."""

    def fail(self, run_id: str, error: RunError) -> bool:
        """Fail a run that waits or runs; False if it is not known here."""

    def preempt(self, run_id: str) -> bool:
        """Put a run that runs back into the queue; False if it does not run here."""

    def forget_images(self) -> None:
        """Remove the images that were built of environments."""

    def wake(self) -> None:
        """Look again for runs that can begin."""

    def engine_ready(self) -> bool:
        """Return whether the container engine answers."""

    def close(self) -> None:
        """Stop working; runs continue in their containers."""


MICROMAMBA_URL: Final = "https://micro.mamba.pm/api/micromamba/linux-64/latest"
"""The source of micromamba's own installation."""


@dataclass(frozen=True, kw_only=True)
class ExecutorSettings:
    """How jobs reach the emulator, and how many of them run at once.

    Attributes:
        max_jobs: at most so many jobs run at the same time; more wait in the order they came.
        proxy_port: the port of the emulator's proxy, as seen from a job's network.
        ca_bundle: PEM: the CAs that a job trusts, the emulator's among them.
        registry_login_server: the registry's name in a job's image, such as ``amllocal.azurecr.io``.
        registry_engine_name: the same registry as the Docker engine calls it, such as ``localhost:7381``.
        instance: the emulator's identity; containers and networks are labelled with it.
        build_arguments: build arguments of every image that is built here: the proxy.
        micromamba_url: the package of micromamba, for images without conda.
        container: name or id of the container that the emulator runs in; None where it is a plain process.
        outward: the addresses that inputs are fetched from.
        hosts: the emulator's names on a job's network besides its own: Azure's, for programs that know no proxy.
        fuse: whether jobs may mount file systems.
        job_memory: the most memory of a job's node in bytes; None for most of the machine's.
        job_processes: the most processes and threads of a job's node.
        shared: what this workspace's queue shares with others.
    """

    max_jobs: int
    proxy_port: int
    ca_bundle: bytes = field(repr=False)
    registry_login_server: str
    registry_engine_name: str
    instance: str
    build_arguments: Mapping[str, str] = field(default_factory=dict)
    micromamba_url: str = MICROMAMBA_URL
    container: str | None = None
    outward: Outward = field(default_factory=Outward, repr=False)
    hosts: tuple[str, ...] = ()
    fuse: bool = False
    job_memory: int | None = None
    job_processes: int = JOB_PROCESSES
    shared: Shared = field(repr=False)
