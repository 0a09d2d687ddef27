"""The Docker engine.

Connection, configuration, command line client, container files.

docker-py drives the engine, except for builds: docker-py has no BuildKit. The environment is always passed in. Variables that we
set in our own process later on (proxies of the local AzureML) must reach neither the engine's client nor the command.
"""

from __future__ import annotations

import contextlib
import io
import json
import posixpath
import re
import secrets
import shutil
import socket
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import docker
import requests
from docker import APIClient, DockerClient
from docker.auth import decode_auth
from docker.errors import APIError, DockerException

from aml_train.core.errors import ImageError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container


DEFAULT_HOST: Final = "unix:///var/run/docker.sock"

_PROBE_TIMEOUT: Final = 30.0
_BUILDX: Final = "Install the buildx plugin: the package docker-buildx-plugin, or docker-buildx on Debian and Ubuntu."
_CALL_TIMEOUT: Final = 600
_VERSION = re.compile(r"Docker version (\d+)\.(\d+)")


def connect_engine(environ: Mapping[str, str]) -> DockerClient:
    """Return a client of the engine that ``DOCKER_HOST`` names, after it has answered.

    Raises:
        ImageError: if it does not answer, or Docker's configuration is damaged; the hint says what to do.
    """
    host = environ.get("DOCKER_HOST") or DEFAULT_HOST
    read_docker_configuration(environ)  # which docker-py reads as well
    try:
        if host.startswith("unix://"):
            # Reports the reason in plain words; docker-py wraps it several times and leaves its socket open.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(host.removeprefix("unix://"))
        if host.startswith("tcp://"):
            return connect_tls({**environ, "DOCKER_HOST": host}, _CALL_TIMEOUT)
        # The client asks for the engine's version at once. At ssh:// it runs the user's own ssh, with its configuration and agent.
        return docker.from_env(
            environment={**environ, "DOCKER_HOST": host}, timeout=_CALL_TIMEOUT, use_ssh_client=True
        )
    # docker-py takes the address apart with urllib, which has ValueError for one that is none.
    except (DockerException, requests.RequestException, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        hint = (
            'Install the extra ssh: pip install "aml-train[ssh]"; and try: ssh HOST docker version'
            if host.startswith("ssh://")
            else "Start Docker (systemctl start docker, or Docker Desktop), make sure that you may use its socket "
            "(group docker), or set DOCKER_HOST."
        )
        raise ImageError(f"the Docker engine at {host} does not answer: {reason}", hint=hint) from error


def engine_platform(client: DockerClient) -> str:
    """Return what the engine runs natively, such as ``linux/amd64``."""
    version = client.version()
    return f"{version['Os']}/{version['Arch']}"


def remove_container(container: Container) -> None:
    """Kill and remove a container with its anonymous volumes.

    A missing one is no error.
    """
    try:
        container.remove(force=True, v=True)
    except APIError as error:
        if error.status_code not in (404, 409):
            raise


@dataclass(frozen=True, kw_only=True)
class BuildCli:
    """A command that builds with BuildKit.

    Attributes:
        path: the ``docker`` executable.
        buildx: whether the buildx plugin does it; otherwise the client's own ``build`` (before 23.0).
        environ: the environment for the command.
    """

    path: str
    buildx: bool
    environ: Mapping[str, str]


def parse_version(text: str) -> tuple[int, int] | None:
    """Read the output of ``docker --version``."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def buildkit_cli(environ: Mapping[str, str]) -> BuildCli:
    """Find a client on ``PATH`` that can build with BuildKit, for the same engine.

    It is the first with buildx, else one before 23.0: from then on, ``docker build`` needs that plugin; from 18.09 on, the client had
    its own BuildKit.

    Raises:
        ImageError: if there is none; the hint says what to install.
    """
    outer = {name: value for name, value in environ.items() if name not in ("DOCKER_CONTEXT", "BUILDX_BUILDER")}
    outer["DOCKER_HOST"] = environ.get("DOCKER_HOST") or DEFAULT_HOST
    outer["DOCKER_BUILDKIT"] = "1"
    folders = dict.fromkeys(filter(None, environ.get("PATH", "").split(":")))
    paths = [path for folder in folders if (path := shutil.which("docker", path=folder))]
    older = None
    for path in paths:
        if "buildx" in (_run([path, "buildx", "version"], outer) or ""):
            return BuildCli(path=path, buildx=True, environ=outer)
        version = parse_version(_run([path, "--version"], outer) or "")
        if older is None and version is not None and (18, 9) <= version < (23, 0):
            older = BuildCli(path=path, buildx=False, environ=outer)
    if older is not None:
        return older
    raise ImageError(
        f"no docker command can build with BuildKit (tried: {', '.join(paths) or 'none on PATH'})",
        hint=_BUILDX
        if paths
        else f"Install Docker's client: docker-ce-cli, or docker-cli on Debian and Ubuntu. {_BUILDX}",
    )


def _run(argv: list[str], environ: Mapping[str, str]) -> str | None:
    """Return the command's output, or None if it could not be run or failed."""
    try:
        done = subprocess.run(
            argv,
            env=dict(environ),
            capture_output=True,
            text=True,
            check=False,
            timeout=_PROBE_TIMEOUT,
            errors="replace",
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout if done.returncode == 0 else None


def docker_configuration_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the configuration of Docker's clients; it may be missing."""
    return Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME", "/"), ".docker")) / "config.json"


def read_docker_configuration(environ: Mapping[str, str]) -> dict[str, Any]:
    """Return the configuration of Docker's clients; empty if there is no file.

    Raises:
        ImageError: if the file cannot be read, or has another form than Docker gives it.
    """
    file = docker_configuration_file(environ)
    try:
        content = file.read_bytes() if file.is_file() else b""
        configuration: dict[str, Any] = json.loads(content) if content.strip() else {}
        _check(configuration)
    except OSError as error:
        raise _damaged(f"{file} cannot be read: {error.strerror}") from error
    # As of text in place of an object. Values may be secret, and none of these repeats one.
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise _damaged(f"{file} is damaged: {error}") from error
    return configuration


def _damaged(what: str) -> ImageError:
    return ImageError(
        what, hint="Correct or remove it, and sign in again where that is needed: docker login REGISTRY"
    )


def _check(configuration: dict[str, Any]) -> None:
    """Raise an error if docker-py cannot read *configuration*.

    https://docs.docker.com/reference/cli/docker/#docker-cli-configuration-file-configjson-properties
    """
    for key, kind in (("auths", dict), ("credHelpers", str), ("HttpHeaders", str), ("proxies", dict)):
        for name, value in (configuration.get(key) or {}).items():
            if not isinstance(value, kind):
                raise TypeError(f"`{name}` of `{key}` has another type than Docker gives it")
    if not isinstance(configuration.get("credsStore", ""), str):
        raise TypeError("`credsStore` must be text")
    for entry in (configuration.get("auths") or {}).values():
        if "identitytoken" not in entry and "auth" in entry:  # an entry with a token needs nothing else
            decode_auth(entry["auth"])


_LIMIT: Final = 50 << 20
_CHUNK: Final = 1 << 20


class TooLargeError(ValueError):
    """A file of a container is larger than the caller takes."""


class _Stream(io.RawIOBase):
    """Chunks of a response, as a file to read from."""

    def __init__(self, chunks: Iterator[bytes]) -> None:
        self._chunks = chunks
        self._rest = b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._chunks, b"")
        count = min(len(buffer), len(self._rest))
        buffer[:count], self._rest = self._rest[:count], self._rest[count:]
        return count


def open_chunks(chunks: Iterator[bytes]) -> io.BufferedReader:
    """Return *chunks*, none of them empty, as a file to read from."""
    return io.BufferedReader(_Stream(chunks))


@contextlib.contextmanager
def open_archive(container: Container, path: str) -> Iterator[IO[bytes] | None]:
    """Open the tar stream of a container's path, running or not.

    None if it does not exist.

    The connection is closed at the end, whether all of the stream was read or not: the engine locks a container while it sends
    an archive of it (``containerArchivePath`` in daemon/archive.go of moby 20.10), so that every later call would wait.
    docker-py's own ``get_archive`` does not give the response away.
    """
    client: Any = container.client
    api = client.api
    url, headers = api._url("/containers/{0}/archive", container.id), {"Accept-Encoding": "identity"}
    with api._get(url, params={"path": path}, headers=headers, stream=True) as response:
        if response.status_code == HTTPStatus.NOT_FOUND:
            yield None
            return
        api._raise_for_status(response)
        yield open_chunks(response.iter_content(_CHUNK))


def fetch_file(container: Container, path: str, *, limit: int = _LIMIT) -> bytes | None:
    """Return a file of a container, running or not; None where there is no file.

    Raises:
        TooLargeError: if it is larger than *limit* bytes.
    """
    return fetch_files(container, path, suffix="", most=limit).get(posixpath.basename(path))


def fetch_files(container: Container, path: str, *, suffix: str, most: int = _LIMIT) -> dict[str, bytes]:
    """Return a container's file, or those of a folder that end with *suffix*, by names.

    None of them where nothing is there.

    Raises:
        TooLargeError: if all in *path* is larger than *most* bytes.
    """
    found: dict[str, bytes] = {}
    size = 0
    with open_archive(container, path) as stream:
        if stream is None:
            return found
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                size += member.size
                if size > most:
                    raise TooLargeError(f"{path} in the container is larger than {most >> 20} MiB")
                if member.isfile() and ("/" not in member.name or member.name.endswith(suffix)):
                    file = archive.extractfile(member)
                    found[member.name] = b"" if file is None else file.read()
    return found


def pack_files(files: dict[str, bytes], *, folder: str, mode: int = 0o644) -> bytes:
    """Return a tar archive of *files* (name → contents) in a *folder* open to all.

    Args:
        mode: the files' permissions.
    """
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        entry = tarfile.TarInfo(folder)
        entry.type, entry.mode = tarfile.DIRTYPE, 0o777
        archive.addfile(entry)
        for name, content in files.items():
            entry = tarfile.TarInfo(f"{folder}/{name}")
            entry.size, entry.mode = len(content), mode
            archive.addfile(entry, io.BytesIO(content))
    return buffer.getvalue()


def in_container() -> bool:
    """Return whether this process runs in a container.

    Docker and Podman leave a file in each.
    """
    return any(Path(mark).exists() for mark in ("/.dockerenv", "/run/.containerenv"))


def own_container(client: DockerClient) -> Container | None:
    """Return the container that this process runs in.

    It is the one that has a file which was just written here.

    The host name only decides which container is queried first: under act it is the machine's.
    """
    hostname = socket.gethostname()
    with tempfile.TemporaryDirectory(prefix="aml-train-") as folder:
        mark = Path(folder) / secrets.token_hex(16)
        mark.touch()
        # With sparse, there is no request for each container.
        listed = client.containers.list(sparse=True)
        for candidate in sorted(listed, key=lambda one: not str(one.id).startswith(hostname)):
            try:
                with open_archive(candidate, str(mark)) as found:
                    if found is not None:
                        candidate.reload()
                        return candidate
            except APIError as error:
                # A container that ends during the query is not this one.
                if error.status_code not in (404, 409, 500):
                    raise
    return None


class TlsApiClient(APIClient):
    """An API client whose authority no environment variable replaces.

    requests prefers ``REQUESTS_CA_BUNDLE`` and ``CURL_CA_BUNDLE`` to the ``verify`` of a session (``Session.merge_environment_settings``),
    which is how docker-py passes on ca.pem: the right engine would be refused, and one with a certificate of any public authority
    accepted. docker's own command reads ca.pem alone.
    """

    def merge_environment_settings(
        self, url: str | bytes | None, proxies: Any, stream: bool | None, verify: Any, cert: Any
    ) -> Any:
        """Prefer the engine's authority; proxies are the environment's."""
        chosen = self.verify if verify in (None, True) else verify
        return super().merge_environment_settings(url, proxies, stream, chosen, cert)


class TlsDockerClient(DockerClient):
    """A client over :class:`TlsApiClient`."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.api = TlsApiClient(*args, **options)


def connect_tls(environ: Mapping[str, str], timeout: int) -> DockerClient:
    """Return a client of the engine in *environ*, after it has answered."""
    client: DockerClient = TlsDockerClient.from_env(environment=dict(environ), timeout=timeout)
    return client
