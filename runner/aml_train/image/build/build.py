"""Build an image with BuildKit through the ``docker`` command.

A secret reaches a build step as a file that BuildKit mounts (``RUN --mount=type=secret``): it is in no layer, no history and no
cache key. The arguments of the ``docker`` command name variables, never a value.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from docker.errors import APIError, ImageNotFound

from aml_train.config.sections.image import SecretConfig
from aml_train.core.docker import BuildCli, docker_configuration_file, read_docker_configuration
from aml_train.core.errors import Fault, ImageError, InvalidError, TimedOutError
from aml_train.core.events import Listener
from aml_train.core.files import FileSet
from aml_train.core.masking import Masker
from aml_train.core.references import ImageRef, is_digest
from aml_train.core.temporary import temporary_folder
from aml_train.core.text import LinePieces
from aml_train.image.build.progress import PlainProgress
from aml_train.image.dockerfile.render import render_protect
from aml_train.image.inputs import PROTECT, BaseImage, build_script
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.spec import ImageSpec

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.images import Image

_CHUNK: Final = 64 * 1024
BUILD_TIMEOUT: Final = 7200.0
"""Seconds that a build may take; large bases are pulled in it."""

CACHE_TAG: Final = "cache"
"""Tag of the image that was built last, whose configuration carries the inline cache."""


@dataclass(frozen=True, kw_only=True)
class Cache:
    """Where a build looks for earlier ones in a registry.

    Attributes:
        repository: the released images' repository, as the engine names it, for a build that leaves a cache in the image itself.
        found: whether there is anything there to look at.
        logins: host (and port) → credentials, for the ``docker`` command: of that repository, and of what is built on.
    """

    repository: str = ""
    found: bool = False
    logins: Mapping[str, RegistryAuth] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Build:
    """A build of an image, whoever does it.

    Attributes:
        no_cache: build every step again, whatever the builder has.
        cache: where earlier builds are looked for.
    """

    spec: ImageSpec
    no_cache: bool = False
    cache: Cache = field(default_factory=Cache)

    def arguments(self) -> list[str]:
        """Return what every command that builds has. Pure."""
        spec, cache = self.spec, self.cache
        words = ["--progress=plain", f"--platform={spec.platform}"]
        words += [f"--secret=id={name},env={secret.env}" for name, secret in sorted(spec.secrets.items())]
        words += [f"--build-arg={name}={value}" for name, value in sorted(spec.builder_args.items())]
        if cache.repository:
            words += [f"--cache-from={cache.repository}:{CACHE_TAG}"] if cache.found and not self.no_cache else []
            words.append("--build-arg=BUILDKIT_INLINE_CACHE=1")
        words += [f"--target={spec.target}"] if spec.target is not None else []
        return [*words, "--no-cache"] if self.no_cache else words

    def write(self, folder: Path) -> None:
        """Write ``Dockerfile`` and the folder ``context``."""
        write_context(folder / "context", self.spec.files, self.spec.trees)
        (folder / "Dockerfile").write_text(self.spec.dockerfile, encoding="utf-8")


def comparison(spec: ImageSpec, image: str) -> ImageSpec | None:
    """Return what is built to compare packages of *image* with the base's. Pure.

    None if none are protected, or the image's own Dockerfile compares them.
    """
    if spec.protect is None or not spec.protect.packages:
        return None
    step = render_protect(spec.protect, "base")
    dockerfile = f"FROM {spec.base.pinned} AS base\n\nFROM {image}\n\nUSER root\n\n{step}\n"
    return spec.with_dockerfile(dockerfile, {PROTECT: build_script(PROTECT)})


def check_secrets(secrets: Mapping[str, SecretConfig], environ: Mapping[str, str], *, proposed: bool) -> None:
    """Check that a build can, and may, read its secrets.

    Args:
        secrets: the secrets by their names.
        environ: of the command that builds.
        proposed: the commit is only proposed, so only secrets that ``--set`` names are read.

    Raises:
        ImageError: if one is not there or is empty.
        InvalidError: if one may not be read.
    """
    for name, secret in sorted(secrets.items()):
        if proposed and not secret.by_option:
            what = f"the secret `{name}` is not read for a run of a commit that is only proposed"
            why = "its author could name any secret of the runner"
            example = f"image.secrets.{name}.env={secret.env}"
            remedy = f"let the workflow name it: `set: {example}` (`--set` on the command line)"
            raise InvalidError([Fault(where=secret.where, what=what, why=why, remedy=remedy)])
        if not environ.get(secret.env, "").strip():
            raise ImageError(
                f"{secret.where}: the build needs the secret {name}, and the environment variable {secret.env} is not set",
                hint=f"Set it: {secret.env}=…",
            )


def check_named(spec: ImageSpec, named: Iterable[str]) -> None:
    """Compare the images whose manifests BuildKit has read with those that were pinned.

    Raises:
        ImageError: the builder reads the user's Dockerfile in another way, and an image in it was not resolved before.
    """
    pinned = {ImageRef.parse(name) for name in spec.named}
    other = [name for name in named if pinned and ImageRef.parse(name) not in pinned]
    if other:
        raise ImageError(
            f"the build used the image {other[0]}, which was not found in the Dockerfile before",
            hint="Nothing was released. Name the image in a FROM of its own; an older builder may not know here-documents.",
        )


def engine_command(cli: BuildCli, folder: Path, tag: str | None) -> list[str]:
    """Return the beginning of a command that builds in the engine, and writes ``image-id`` into *folder*. Pure.

    Without ``--provenance=false`` buildx would make an index with an attestation; and only Docker's own builder
    (``default``) sees the engine's images.
    """
    buildx = ["buildx", "build", "--builder=default", "--load", "--provenance=false"]
    named = [] if tag is None else [f"--tag={tag}"]
    return [cli.path, *(buildx if cli.buildx else ["build"]), *named, f"--iidfile={folder / 'image-id'}"]


def build_image(
    spec: ImageSpec,
    *,
    cli: BuildCli,
    engine: DockerClient,
    tag: str,
    listener: Listener,
    no_cache: bool = False,
    cache: Cache = Cache(),
) -> str:
    """Build *spec* in the engine under *tag*; return the engine's image id.

    Args:
        listener: receives the progress, with no secret's value in it.
        cache: where earlier builds are in a registry.

    Raises:
        InvalidError: if a secret may not be read.
        ImageError: if a secret is not there, the build fails, the disk is full, a protected package of the base was changed,
            or a base that only the engine has moved during the build.
        TimedOutError: after :data:`BUILD_TIMEOUT` seconds.
    """

    def build(one: Build, name: str | None) -> str:
        def image_id(folder: Path) -> str:
            file = folder / "image-id"
            return file.read_text(encoding="ascii").strip() if file.exists() else ""

        found = run_build(one, partial(engine_command, cli, tag=name), image_id, cli=cli, listener=listener)
        if not is_digest(found):
            raise ImageError(f"the build ended well but wrote no image id: {found!r}")
        return found

    image = _built(engine, build(Build(spec=spec, no_cache=no_cache, cache=cache), tag), tag)
    if spec.base.local_only:
        verify_base(image.attrs, spec.base, engine)
    if (check := comparison(spec, tag)) is not None:
        _remove(engine, build(Build(spec=check, no_cache=no_cache), None))
    return str(image.id)


def build_folder(
    context: Path,
    *,
    dockerfile: Path,
    tag: str,
    build_args: Mapping[str, str | None],
    cli: BuildCli,
    platform: str,
    listener: Listener,
    no_cache: bool = False,
) -> None:
    """Build *dockerfile* with the files of *context* in the engine under *tag*.

    Args:
        build_args: name → value; None for the value of the command's environment, which is in no argument list.
        cli: the command that builds, for the engine.
        platform: such as ``linux/amd64``.
        listener: receives the progress.
        no_cache: build every step again.

    Raises:
        ImageError: if the build fails.
        TimedOutError: after :data:`BUILD_TIMEOUT` seconds.
    """
    given = [name if value is None else f"{name}={value}" for name, value in sorted(build_args.items())]
    words = ["--progress=plain", f"--platform={platform}", *(f"--build-arg={one}" for one in given)]
    words += ["--no-cache"] if no_cache else []
    with temporary_folder("build") as folder:
        argv = [*engine_command(cli, folder, tag), *words, f"--file={dockerfile}", str(context)]
        _run(argv, cli.environ, Masker(), listener, PlainProgress())


def secret_masker(values: Iterable[str]) -> Masker:
    """Return a masker of secrets that the configuration declares, even ordinary words."""
    masker = Masker()
    for value in values:
        masker.add_declared(value)
    return masker


def run_build(
    build: Build,
    head: Callable[[Path], list[str]],
    result: Callable[[Path], str],
    *,
    cli: BuildCli,
    listener: Listener,
) -> str:
    """Run a command that builds; return what it left in its folder.

    Args:
        head: the command's beginning, for its folder.
        result: reads what the command wrote there.

    Raises:
        InvalidError, ImageError: as :func:`check_secrets`, :func:`check_named`, and if the build fails.
    """
    spec = build.spec
    check_secrets(spec.secrets, cli.environ, proposed=spec.is_proposed)
    with temporary_folder("build") as folder:
        build.write(folder)
        environ = dict(cli.environ)
        if build.cache.logins:
            environ["DOCKER_CONFIG"] = str(docker_config(folder / "docker", environ, build.cache.logins))
        argv = [*head(folder), *build.arguments(), f"--file={folder / 'Dockerfile'}", str(folder / "context")]
        masker = secret_masker(environ.get(one.env, "") for one in spec.secrets.values())
        check_named(spec, _run(argv, environ, masker, listener, PlainProgress(spec.places)))
        return result(folder)


def _remove(engine: DockerClient, image_id: str) -> None:
    """Remove a check's unnamed image, unless it is the very image that was checked."""

    try:
        if not engine.images.get(image_id).tags:
            engine.images.remove(image_id, noprune=True)
    except (APIError, ImageNotFound):  # in use, or known by another id: nothing depends on its being gone
        return


def _built(engine: DockerClient, image_id: str, tag: str) -> Image:
    """Return the built image, by its reported id or by its tag, which is unique.

    On the containerd store buildx reports the digest of the configuration, while the engine knows images by their manifest's.
    """

    try:
        return engine.images.get(image_id)
    except ImageNotFound:
        return engine.images.get(tag)


def verify_base(image: dict[str, Any], base: BaseImage, engine: DockerClient) -> None:
    """Raise ImageError unless the built image begins with the layers of its base.

    A tag may have been moved between resolving and building; the layers show it.
    """

    name = base.reference.familiar
    try:
        expected: Sequence[str] = engine.images.get(base.identity).attrs["RootFS"]["Layers"]
    except ImageNotFound as error:
        raise ImageError(f"the base {name} was removed during the build", hint="Run again.") from error
    if image["RootFS"]["Layers"][: len(expected)] != list(expected):
        raise ImageError(f"the base {name} was moved to another image during the build", hint="Run again.")


def _run(
    argv: Sequence[str], environ: Mapping[str, str], masker: Masker, listener: Listener, progress: PlainProgress
) -> tuple[str, ...]:
    """Run the command, passing its output to the listener; return the images that BuildKit named."""
    timed_out = threading.Event()
    try:
        process = subprocess.Popen(
            argv,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise ImageError(f"{argv[0]} cannot be run: {error}") from error

    def expire() -> None:
        timed_out.set()
        _kill(process)

    timer = threading.Timer(BUILD_TIMEOUT, expire)
    timer.daemon = True
    timer.start()
    try:
        with process:
            try:
                if process.stdout is not None:
                    _follow(process.stdout, progress, masker, listener)
                exit_code = process.wait()
            except BaseException:
                _kill(process)
                raise
    finally:
        timer.cancel()
    if timed_out.is_set():
        raise TimedOutError(
            f"the build took longer than {BUILD_TIMEOUT:.0f} seconds", hint="Run again: what was built is cached."
        )
    if exit_code != 0:
        raise progress.error(exit_code)
    return tuple(progress.named)


def _follow(output: IO[bytes], progress: PlainProgress, masker: Masker, listener: Listener) -> None:
    """Pass the command's output to *listener* as it comes, without secrets."""
    reader, ended, held = LinePieces(), False, ""
    while not ended:
        data = os.read(output.fileno(), _CHUNK)
        ended = not data
        for piece in reader.feed(data, final=ended):
            # A secret may be cut by the end of a piece: what may be its beginning waits for the rest of the line.
            text = masker.mask(held + piece.text)
            cut = max(len(text) - masker.longest, 0) if piece.more else len(text)
            text, held = text[:cut], text[cut:]
            for event in progress.feed(text, more=piece.more):
                listener(event)


def _kill(process: subprocess.Popen[bytes]) -> None:
    """Kill the command and its plugins, which run in its session."""
    if process.poll() is None:
        os.killpg(process.pid, signal.SIGKILL)


def write_context(folder: Path, files: Mapping[str, bytes], trees: Mapping[str, FileSet]) -> None:
    """Write *files* with mode 0644, and *trees* with their own modes, into *folder*."""
    for name, tree in trees.items():
        tree.copy_to(folder / name)
    folder.mkdir(exist_ok=True)
    for name, content in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
        file.chmod(0o644)


def docker_config(folder: Path, environ: Mapping[str, str], logins: Mapping[str, RegistryAuth]) -> Path:
    """Write the user's ``docker`` configuration plus *logins*; return its folder.

    The user's plugins and credential helpers stay in force, but for these, whose credentials are in the file itself. Only
    the owner may read it, and it is gone with the build's folder.
    """
    source = docker_configuration_file(environ).parent
    config = read_docker_configuration(environ)
    config["auths"] = dict(config.get("auths") or {})
    for registry, auth in logins.items():
        login = base64.b64encode(f"{auth.username}:{auth.password}".encode()).decode()
        token = {"identitytoken": auth.identity_token} if auth.identity_token else {}
        config["auths"][registry] = {"auth": login, **token}
    config["credHelpers"] = {**(config.get("credHelpers") or {}), **dict.fromkeys(logins, "")}
    config.pop("currentContext", None)
    folder.mkdir(mode=0o700)
    file = os.open(folder / "config.json", os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(file, "w", encoding="utf-8") as stream:
        json.dump(config, stream)
    # Plugins, and the builders and contexts that are known by name.
    for name in ("cli-plugins", "buildx", "contexts"):
        if (source / name).is_dir():
            (folder / name).symlink_to((source / name).resolve())
    return folder
