"""Build an image with BuildKit through the ``docker`` command."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from aml_train.engine import BuildCli
from aml_train.errors import ImageError, TimedOutError
from aml_train.events import Listener
from aml_train.image.progress import PlainProgress
from aml_train.image.spec import BaseImage, ImageSpec
from aml_train.lines import LinePieces
from aml_train.references import is_digest

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

_CHUNK: Final = 64 * 1024
BUILD_TIMEOUT: Final = 7200.0
"""Seconds that a build may take; large bases are pulled in it."""


def build_argv(
    cli: BuildCli, *, context: Path, dockerfile: Path, tag: str, iidfile: Path, platform: str, no_cache: bool = False
) -> list[str]:
    """Return the command. Pure.

    Without ``--provenance=false`` buildx would make an index with an attestation of its own; and only Docker's own builder
    (``default``) sees the engine's images.
    """
    argv = [cli.path]
    if cli.buildx:
        argv += ["buildx", "build", "--builder=default", "--load", "--provenance=false"]
    else:
        argv += ["build"]
    argv += [
        "--progress=plain",
        f"--platform={platform}",
        f"--tag={tag}",
        f"--iidfile={iidfile}",
        f"--file={dockerfile}",
    ]
    if no_cache:
        argv.append("--no-cache")
    return [*argv, str(context)]


def build_image(
    spec: ImageSpec,
    *,
    cli: BuildCli,
    engine: DockerClient,
    tag: str,
    listener: Listener,
    no_cache: bool = False,
    timeout: float = BUILD_TIMEOUT,
) -> str:
    """Build *spec* in the engine under *tag*; return the image id as the engine knows it.

    Raises:
        ImageError: if the build fails, the disk is full, or a base that only the engine has moved during the build.
        TimedOutError: after *timeout* seconds.
    """
    with tempfile.TemporaryDirectory(prefix="aml-train-build-") as folder:
        context = Path(folder, "context")
        context.mkdir()
        dockerfile, iidfile = Path(folder, "Dockerfile"), Path(folder, "image-id")
        dockerfile.write_text(spec.dockerfile, encoding="utf-8")
        for name, content in spec.context.items():
            (context / name).write_bytes(content)
            (context / name).chmod(0o644)
        argv = build_argv(
            cli,
            context=context,
            dockerfile=dockerfile,
            tag=tag,
            iidfile=iidfile,
            platform=spec.platform,
            no_cache=no_cache,
        )
        _run(argv, cli, listener, timeout)
        image_id = iidfile.read_text(encoding="ascii").strip() if iidfile.exists() else ""
    if not is_digest(image_id):
        raise ImageError(f"the build ended well but wrote no image id: {image_id!r}")
    image = _built(engine, image_id, tag)
    if spec.base.local_only:
        verify_base(image.attrs, spec.base, engine)
    return str(image.id)


def _built(engine: DockerClient, image_id: str, tag: str) -> Image:
    """Return the image that was built: by the id that the build told, else by its tag, which is nobody else's.

    On the containerd store buildx tells the digest of the configuration, while the engine knows images by their manifest's.
    """
    from docker.errors import ImageNotFound

    try:
        return engine.images.get(image_id)
    except ImageNotFound:
        return engine.images.get(tag)


def verify_base(image: dict[str, Any], base: BaseImage, engine: DockerClient) -> None:
    """Raise ImageError unless the built image's first layers are those of the base that was resolved.

    A tag may have been moved between resolving and building; the layers cannot lie.
    """
    from docker.errors import ImageNotFound

    name = base.reference.familiar
    try:
        expected: Sequence[str] = engine.images.get(base.identity).attrs["RootFS"]["Layers"]
    except ImageNotFound as error:
        raise ImageError(f"the base {name} was removed during the build", hint="Run again.") from error
    if image["RootFS"]["Layers"][: len(expected)] != list(expected):
        raise ImageError(f"the base {name} was moved to another image during the build", hint="Run again.")


def _run(argv: Sequence[str], cli: BuildCli, listener: Listener, timeout: float) -> None:
    """Run the command, telling the listener what it prints."""
    progress = PlainProgress()
    timed_out = threading.Event()
    try:
        process = subprocess.Popen(
            argv,
            env=dict(cli.environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ImageError(f"{cli.path} cannot be run: {error}") from error

    def expire() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(timeout, expire)
    timer.daemon = True
    timer.start()
    try:
        with process:
            try:
                if process.stdout is not None:
                    _follow(process.stdout, progress, listener)
                exit_code = process.wait()
            except BaseException:
                _kill(process)
                raise
    finally:
        timer.cancel()
    if timed_out.is_set():
        raise TimedOutError(
            f"the build took longer than {timeout:.0f} seconds", hint="Run again: what was built is cached."
        )
    if exit_code != 0:
        raise progress.error(exit_code)


def _follow(output: IO[bytes], progress: PlainProgress, listener: Listener) -> None:
    """Tell *listener* what the command prints, as soon as it does, until it prints no more."""
    reader, ended = LinePieces(), False
    while not ended:
        data = os.read(output.fileno(), _CHUNK)
        ended = not data
        for piece in reader.feed(data, final=ended):
            for event in progress.feed(piece.text, more=piece.more):
                listener(event)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its plugins, which run in its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)
