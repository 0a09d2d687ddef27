"""Images of environments: of a build context, or of a conda file over an image; each made once, whoever asks for it."""

from __future__ import annotations

import io
import logging
import re
import tarfile
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import requests
from docker.utils.build import PatternMatcher

from aml_emulator.executor import archive, conda, layout
from aml_emulator.executor.engine import Engine
from aml_emulator.executor.images import BuildOutput, ImageUnavailableError
from aml_emulator.executor.settings import ExecutorSettings
from aml_emulator.executor.spec import BlobStore, BuildSpec, Folder

LOGGER = logging.getLogger(__name__)

BUILD_LOG_PATH = "azureml-logs/20_image_build_log.txt"
"""Where AzureML shows the build of a job's image, within the run's artefacts."""

_LOCK_POLL_SECONDS = 0.2
_FETCH_SECONDS = 60
_MAX_DOCKERFILE_BYTES = 1024 * 1024


class BuildFailedError(Exception):
    """The image cannot be built, by the fault of its environment; the message says why."""


@dataclass(frozen=True, kw_only=True)
class Asker:
    """The run that an image is built for.

    Attributes:
        log: takes text of the build's log.
        go_on: called now and then; raises to end the build.
        hold: is given the build's output, by which it can be broken off, and None when it is over.
    """

    log: Callable[[str], None]
    go_on: Callable[[], None]
    hold: Callable[[BuildOutput | None], None]


class ImageBuilder:
    """Builds images on the engine. Safe to use from several threads; one image is built by one of them.

    Args:
        engine: where images are built.
        blobs: where build contexts are.
        settings: what builds are given.
    """

    def __init__(self, engine: Engine, blobs: BlobStore, settings: ExecutorSettings) -> None:
        self._engine = engine
        self._blobs = blobs
        self._settings = settings
        self._lock = threading.Lock()
        self._locks: dict[str, threading.Lock] = {}

    def is_built(self, build: BuildSpec) -> bool:
        """Tell whether the image is there."""
        return self._engine.images.has(build.tag)

    def build(self, build: BuildSpec, asker: Asker) -> None:
        """Have the image built, or wait while another run builds it.

        Raises:
            BuildFailedError: it cannot be built.
        """
        if build.context is not None and build.conda is not None and build.base is not None:
            # First what the Dockerfile makes, under a name of its own; other environments may share it.
            self.build(replace(build, tag=build.base, base=None, conda=None), asker)
            build = replace(build, context=None)
        with self._alone(build, asker):
            if self.is_built(build):
                asker.log(f"The image of {build.title} was built for another job: {build.tag}\n")
                return
            LOGGER.info("Building the image of %s", build.title)
            asker.log(f"Building the image of {build.title}\n")
            try:
                context = self._context(build, asker)
                self._run(build, context, asker)
            except (archive.ContentError, layout.UnsafePathError, ImageUnavailableError) as error:
                raise BuildFailedError(str(error)) from error
            asker.log(f"Built {build.tag}\n")

    @contextmanager
    def _alone(self, build: BuildSpec, asker: Asker) -> Iterator[None]:
        with self._lock:
            lock = self._locks.setdefault(build.tag, threading.Lock())
        if not lock.acquire(blocking=False):
            asker.log(f"Another job builds the image of {build.title}; waiting for it\n")
            while not lock.acquire(timeout=_LOCK_POLL_SECONDS):
                asker.go_on()
        try:
            yield
        finally:
            lock.release()

    def _run(self, build: BuildSpec, context: Iterator[bytes], asker: Asker) -> None:
        output = self._engine.images.build(
            context,
            tag=build.tag,
            dockerfile=build.dockerfile if build.context is not None else "Dockerfile",
            arguments=self._settings.build_arguments,
        )
        asker.hold(output)
        try:
            asker.go_on()
            for message in output:
                if "stream" in message:
                    asker.log(str(message["stream"]))
                elif "error" in message:
                    raise BuildFailedError(str(message["error"]).strip())
                elif "status" in message and not message.get("progressDetail"):
                    layer = f"{message['id']}: " if message.get("id") else ""
                    asker.log(f"{layer}{message['status']}\n")
                asker.go_on()
        finally:
            asker.hold(None)
            output.close()
        asker.go_on()
        if not self.is_built(build):
            raise BuildFailedError("The engine ended the build without an image, and does not say why.")

    def _context(self, build: BuildSpec, asker: Asker) -> Iterator[bytes]:
        """Return the build context as a tar stream."""
        if build.context is not None:
            return archive.tar_stream(self._context_entries(build, build.context, asker))
        files = self._conda_files(build, asker)
        modes = {conda.MICROMAMBA: 0o755}
        entries = (
            archive.Entry(path=name, mode=modes.get(name, 0o644), size=len(data), read=lambda data=data: (data,))  # type: ignore[misc]
            for name, data in files.items()
        )
        return archive.tar_stream(entries)

    def _context_entries(self, build: BuildSpec, folder: Folder, asker: Asker) -> Iterator[archive.Entry]:
        """Yield the files of a build context, without what its ``.dockerignore`` leaves out."""
        ignored = ignore_rules(self._read(folder, ".dockerignore").decode(errors="replace"), build.dockerfile)
        dockerfile = layout.safe_relative(build.dockerfile)
        text = self._read(folder, dockerfile)
        if not text:
            raise archive.ContentError(f"The build context of {build.title} has no {dockerfile}")
        text = for_engine(text, self._settings)
        yield archive.Entry(path=dockerfile, mode=0o644, size=len(text), read=lambda: (text,))
        for entry in archive.blob_entries(self._blobs, folder, ""):
            asker.go_on()
            name = entry.path.lstrip("/")
            if name != dockerfile and not ignored(name):
                yield entry

    def _read(self, folder: Folder, name: str) -> bytes:
        """Return a small file of a build context; nothing where it is not there."""
        for entry in self._blobs.walk(folder.container, folder.name_of(name)):
            if not entry.name and entry.size <= _MAX_DOCKERFILE_BYTES:
                return b"".join(self._blobs.read(folder.container, folder.name_of(name)))
        return b""

    def _conda_files(self, build: BuildSpec, asker: Asker) -> Mapping[str, bytes]:
        if build.base is None or build.conda is None:
            raise BuildFailedError("The environment has neither a build context nor a conda file.")
        base = layout.engine_image(build.base, self._settings)
        self._engine.images.ensure(base, go_on=asker.go_on)
        paths = conda.tool_paths(self._engine.images.variable(base, "PATH"))
        tool = self._engine.images.first_file(base, paths)
        if tool is not None:
            asker.log(f"The environment is made by {tool} of {build.base}\n")
            return conda.build_files(base, build.conda, tool=tool)
        url = self._settings.micromamba_url
        asker.log(f"{build.base} has no conda: the environment is made by micromamba, from {url}\n")
        try:
            return conda.build_files(base, build.conda, tool=None, micromamba=fetch_micromamba(url))
        except (requests.RequestException, OSError, tarfile.TarError) as error:
            raise BuildFailedError(
                f"The image {build.base} has no conda, mamba or micromamba, and micromamba cannot be fetched from {url}:"
                f" {error}. Use an image that has one of them, name another address with --micromamba-url, or make the"
                " environment of a build context."
            ) from error


def fetch_micromamba(url: str) -> bytes:
    """Return the program micromamba.

    Args:
        url: of its package, a tar archive with ``bin/micromamba``; ``file:`` for one that lies here
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
    """Return what tells for a path of a build context whether ``.dockerignore`` leaves it out.

    The Dockerfile and ``.dockerignore`` itself are always sent, as by the docker command.
    """
    lines = (line.strip() for line in text.splitlines())
    patterns = [line for line in lines if line and not line.startswith("#")]
    matcher = PatternMatcher([*patterns, f"!{dockerfile}"])
    return lambda path: bool(matcher.matches(path))  # type: ignore[arg-type]  # its patterns are texts


def for_engine(dockerfile: bytes, settings: ExecutorSettings) -> bytes:
    """Return a Dockerfile in which images of the emulator's own registry have the name by which the engine finds them."""
    host = re.escape(settings.registry_login_server.encode())
    name = settings.registry_engine_name.encode()
    pattern = rb"(?im)^(\s*FROM\s+(?:--\S+\s+)*|\s*(?:COPY|ADD)\s+(?:--\S+\s+)*--from=)" + host + rb"/"
    return re.sub(pattern, lambda found: found.group(1) + name + b"/", dockerfile)
