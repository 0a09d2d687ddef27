"""Images of environments: of a build context, or of a conda file over an image."""

from __future__ import annotations

import hashlib
import io
import logging
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import requests
from docker.utils.build import PatternMatcher

from aml_emulator.executor import archive, layout
from aml_emulator.executor.engine import Engine
from aml_emulator.executor.images import BuildOutput, ImageUnavailableError, status_line
from aml_emulator.executor.spec import BlobStore, BuildSpec, ExecutorSettings, Folder

TOOLS: Final = ("conda", "mamba", "micromamba")
"""The programs that can create an environment, in the order of choice."""

_FOLDERS: Final = (
    "/opt/miniconda/bin",
    "/opt/conda/bin",
    "/opt/miniconda3/bin",
    "/opt/miniforge3/bin",
    "/root/miniconda3/bin",
    "/usr/local/bin",
    "/usr/bin",
    "/bin",
)
_SETUP: Final = "/azureml-environment-setup"

DEPENDENCIES: Final = "conda_dependencies.yml"
MICROMAMBA: Final = "micromamba"


def tool_paths(path_variable: str) -> tuple[str, ...]:
    """Return the possible paths of a tool in an image, in the order of choice."""
    folders = dict.fromkeys((*filter(lambda one: one.startswith("/"), path_variable.split(":")), *_FOLDERS))
    return tuple(f"{folder.rstrip('/')}/{tool}" for tool in TOOLS for folder in folders)


def prefix_of(conda_file: str) -> str:
    """Return the folder of the environment that *conda_file* describes."""
    digest = hashlib.md5(conda_file.encode(), usedforsecurity=False).hexdigest()
    return f"/azureml-envs/azureml_{digest}"


def build_files(
    base: str, conda_file: str, *, tool: str | None, micromamba: bytes | None = None
) -> Mapping[str, bytes]:
    """Return the build context's files.

    Args:
        base: the image, as the engine knows it.
        tool: the path in *base* of what makes the environment; None where *micromamba* does.
        micromamba: its program, for an image that has no tool.
    """
    if (tool is None) == (micromamba is None):
        raise ValueError("an environment is made by the image's tool or by micromamba")
    files = {DEPENDENCIES: conda_file.encode()}
    if micromamba is not None:
        files[MICROMAMBA] = micromamba
    files["Dockerfile"] = _dockerfile(base, prefix_of(conda_file), tool).encode()
    return files


def _dockerfile(base: str, prefix: str, tool: str | None) -> str:
    program = tool or f"{_SETUP}/{MICROMAMBA}"
    file = f"{_SETUP}/{DEPENDENCIES}"
    if program.rpartition("/")[2] == "micromamba":
        make = f"{program} create --yes --prefix {prefix} --file {file}"
    else:
        make = f"CONDA_ALWAYS_YES=true MAMBA_ALWAYS_YES=true {program} env create --prefix {prefix} --file {file}"
    lines = [
        f"FROM {base} AS conda",
        "USER root",
        "WORKDIR /",
        f"COPY {DEPENDENCIES}{'' if tool else f' {MICROMAMBA}'} {_SETUP}/",
        f"RUN {make}",
        f"FROM {base}",
        "USER root",
        f"COPY --from=conda {prefix} {prefix}",
        f'ENV PATH="{prefix}/bin:$PATH" \\',
        f'    LD_LIBRARY_PATH="{prefix}/lib:$LD_LIBRARY_PATH" \\',
        f'    AZUREML_CONDA_ENVIRONMENT_PATH="{prefix}" \\',
        f'    CONDA_PREFIX="{prefix}" \\',
        f'    CONDA_DEFAULT_ENV="{prefix}"',
    ]
    return "\n".join(lines) + "\n"


logger = logging.getLogger(__name__)

BUILD_LOG_PATH = "azureml-logs/20_image_build_log.txt"
"""AzureML's path of the log of an image build, among the run's artifacts."""

_LOCK_POLL_SECONDS = 0.2
_FETCH_SECONDS = 60
_MAX_DOCKERFILE_BYTES = 1024 * 1024


class BuildFailedError(Exception):
    """The environment prevents the build of its image; the message says why."""


@dataclass(frozen=True, kw_only=True)
class BuildWaiter:
    """The run that an image is built for.

    Attributes:
        log: takes text of the build's log.
        go_on: called now and then; raises to end the build.
        hold: receives the build's output, by which it can be interrupted, and None when it is over.
    """

    log: Callable[[str], None]
    go_on: Callable[[], None]
    hold: Callable[[BuildOutput | None], None]


class ImageBuilder:
    """Builds images on the engine, each once. Thread-safe.

    Args:
        engine: where images are built.
        blobs: where build contexts are.
        settings: what builds are given.
    """

    def __init__(self, engine: Engine, blobs: BlobStore, settings: ExecutorSettings) -> None:
        self._engine = engine
        self.images = engine.images
        self._blobs = blobs
        self._settings = settings
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def is_built(self, build: BuildSpec) -> bool:
        """Return whether the image exists."""
        return self.images.has(build.tag)

    def build(self, build: BuildSpec, waiter: BuildWaiter) -> None:
        """Have the image built, or wait while another run builds it.

        Raises:
            BuildFailedError: it cannot be built.
        """
        if build.context is not None and build.conda is not None and build.base is not None:
            # First the Dockerfile's image under a separate name; other environments may share it.
            self.build(replace(build, tag=build.base, base=None, conda=None), waiter)
            build = replace(build, context=None)
        with self._alone(build, waiter):
            if self.is_built(build):
                waiter.log(f"The image of {build.title} was built for another job: {build.tag}\n")
                return
            logger.info("Building the image of %s", build.title)
            waiter.log(f"Building the image of {build.title}\n")
            try:
                context = self._context(build, waiter)
                self._run(build, context, waiter)
            except (archive.ContentError, layout.UnsafePathError, ImageUnavailableError) as error:
                raise BuildFailedError(str(error)) from error
            waiter.log(f"Built {build.tag}\n")

    @contextmanager
    def _alone(self, build: BuildSpec, waiter: BuildWaiter) -> Iterator[None]:
        with self._lock:
            lock = self._locks.setdefault(build.tag, threading.Lock())
        if not lock.acquire(blocking=False):
            waiter.log(f"Another job builds the image of {build.title}; waiting for it\n")
            while not lock.acquire(timeout=_LOCK_POLL_SECONDS):
                waiter.go_on()
        try:
            yield
        finally:
            lock.release()

    def _run(self, build: BuildSpec, context: Iterator[bytes], waiter: BuildWaiter) -> None:
        with self._engine.build_network() as network:
            output = self.images.build(
                context,
                tag=build.tag,
                dockerfile=build.dockerfile if build.context is not None else "Dockerfile",
                arguments=self._settings.build_arguments,
                options={"networkmode": network},
            )
            waiter.hold(output)
            try:
                waiter.go_on()
                for message in output:
                    if "stream" in message:
                        waiter.log(str(message["stream"]))
                    elif "error" in message:
                        raise BuildFailedError(str(message["error"]).strip())
                    elif text := status_line(message):
                        waiter.log(text)
                    waiter.go_on()
            finally:
                waiter.hold(None)
                output.close()
        waiter.go_on()
        if not self.is_built(build):
            raise BuildFailedError("The engine ended the build without an image, and does not say why.")

    def _context(self, build: BuildSpec, waiter: BuildWaiter) -> Iterator[bytes]:
        """Return the build context as a tar stream."""
        if build.context is not None:
            return archive.tar_stream(self._context_entries(build, build.context, waiter))
        files = self._conda_files(build, waiter)
        return archive.tar_stream(
            archive.file_entry(name, data, mode=0o755 if name == MICROMAMBA else 0o644)
            for name, data in files.items()
        )

    def _context_entries(self, build: BuildSpec, folder: Folder, waiter: BuildWaiter) -> Iterator[archive.Entry]:
        """Yield the files of a build context that ``.dockerignore`` does not exclude."""
        ignored = ignore_rules(self._read(folder, ".dockerignore").decode(errors="replace"), build.dockerfile)
        dockerfile = layout.safe_relative(build.dockerfile)
        text = self._read(folder, dockerfile)
        if not text:
            raise archive.ContentError(f"The build context of {build.title} has no {dockerfile}")
        text = for_engine(text, self._settings)
        yield archive.file_entry(dockerfile, text)
        for entry in archive.blob_entries(self._blobs, folder, ""):
            waiter.go_on()
            name = entry.path.lstrip("/")
            if name != dockerfile and not ignored(name):
                yield entry

    def _read(self, folder: Folder, name: str) -> bytes:
        """Return a small file of a build context; nothing where it is not there."""
        for entry in self._blobs.walk(folder.container, folder.name_of(name)):
            if not entry.name and entry.size <= _MAX_DOCKERFILE_BYTES:
                return b"".join(self._blobs.read(folder.container, folder.name_of(name)))
        return b""

    def _conda_files(self, build: BuildSpec, waiter: BuildWaiter) -> Mapping[str, bytes]:
        if build.base is None or build.conda is None:
            raise BuildFailedError("The environment has neither a build context nor a conda file.")
        base = layout.engine_image(build.base, self._settings)
        self.images.ensure(base, go_on=waiter.go_on)
        paths = tool_paths(self.images.variable(base, "PATH"))
        tool = self.images.first_file(base, paths)
        if tool is not None:
            waiter.log(f"The environment is made by {tool} of {build.base}\n")
            return build_files(base, build.conda, tool=tool)
        url = self._settings.micromamba_url
        waiter.log(f"{build.base} has no conda: the environment is made by micromamba, from {url}\n")
        try:
            return build_files(base, build.conda, tool=None, micromamba=fetch_micromamba(url))
        except (requests.RequestException, OSError, tarfile.TarError) as error:
            raise BuildFailedError(
                f"The image {build.base} has no conda, mamba or micromamba, and micromamba cannot be fetched from {url}:"
                f" {error}. Use an image that has one of them, name another address with --micromamba-url, or make the"
                " environment of a build context."
            ) from error


def fetch_micromamba(url: str) -> bytes:
    """Return the program micromamba.

    Args:
        url: of its package, a tar archive with ``bin/micromamba``; ``file:`` for a local one
            (https://mamba.readthedocs.io/en/latest/installation/micromamba-installation.html).

    Raises:
        requests.RequestException: it cannot be fetched.
        OSError: it cannot be read.
        tarfile.TarError: it is something else.
    """
    if url.startswith("file:"):
        data = Path(url.removeprefix("file:").removeprefix("//")).read_bytes()
    else:
        answer = requests.get(url, timeout=_FETCH_SECONDS)
        answer.raise_for_status()
        data = answer.content
    with tarfile.open(fileobj=io.BytesIO(data)) as package:
        try:
            member = package.extractfile("bin/micromamba")
        except KeyError as error:
            raise tarfile.ReadError("the package has no bin/micromamba") from error
        if member is None:
            raise tarfile.ReadError("bin/micromamba is no file")
        return member.read()


def ignore_rules(text: str, dockerfile: str) -> Callable[[str], bool]:
    """Return a function that says whether ``.dockerignore`` excludes a path.

    The Dockerfile and ``.dockerignore`` itself are always sent, as by the docker command.
    """
    lines = (line.strip() for line in text.splitlines())
    patterns = [line for line in lines if line and not line.startswith("#")]
    matcher = PatternMatcher([*patterns, f"!{dockerfile}"])
    return lambda path: bool(matcher.matches(path))  # type: ignore[arg-type]  # its patterns are texts


def for_engine(dockerfile: bytes, settings: ExecutorSettings) -> bytes:
    """Return a Dockerfile with the engine's name for the emulator's registry."""
    host = re.escape(settings.registry_login_server.encode())
    name = settings.registry_engine_name.encode()
    pattern = rb"(?im)^(\s*FROM\s+(?:--\S+\s+)*|\s*(?:COPY|ADD)\s+(?:--\S+\s+)*--from=)" + host + rb"/"
    return re.sub(pattern, lambda found: found.group(1) + name + b"/", dockerfile)
