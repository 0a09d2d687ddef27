"""The Docker engine: connect to it, and find a command line client that can build with BuildKit.

The engine is driven by docker-py, except for builds: docker-py has no BuildKit. The environment is always passed in. What we
set in our own process later on (proxies of the local AzureML) must reach neither the engine's client nor the command.
"""

from __future__ import annotations

import re
import socket
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from aml_train.core.docker_configuration import read_docker_configuration
from aml_train.core.errors import ImageError

if TYPE_CHECKING:
    from docker import DockerClient
    from docker.models.containers import Container

DEFAULT_HOST: Final = "unix:///var/run/docker.sock"

_PROBE_TIMEOUT: Final = 30.0
_CALL_TIMEOUT: Final = 600
_VERSION = re.compile(r"Docker version (\d+)\.(\d+)")


def connect(environ: Mapping[str, str]) -> DockerClient:
    """Return a client of the engine that *environ* names (``DOCKER_HOST``), after it has answered.

    Raises:
        ImageError: if it does not answer, or Docker's configuration is damaged; the hint says what to do.
    """
    import docker
    import requests
    from docker.errors import DockerException

    host = environ.get("DOCKER_HOST") or DEFAULT_HOST
    read_docker_configuration(environ)  # which docker-py reads as well
    try:
        if host.startswith("unix://"):
            # Tells the reason in plain words, where docker-py wraps it several times and leaves its socket open.
            with socket.socket(socket.AF_UNIX) as probe:
                probe.connect(host.removeprefix("unix://"))
        # The client asks for the engine's version at once.
        return docker.from_env(environment={**environ, "DOCKER_HOST": host}, timeout=_CALL_TIMEOUT)
    # docker-py takes the address apart with urllib, which has ValueError for one that is none.
    except (DockerException, requests.RequestException, OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise ImageError(
            f"the Docker engine at {host} does not answer: {reason}",
            hint="Start Docker (systemctl start docker, or Docker Desktop), make sure that you may use its socket "
            "(group docker), or set DOCKER_HOST.",
        ) from error


def engine_platform(client: DockerClient) -> str:
    """Return what the engine runs natively, such as ``linux/amd64``."""
    version = client.version()
    return f"{version['Os']}/{version['Arch']}"


def remove_container(container: Container) -> None:
    """Kill and remove a container with its anonymous volumes. One that is gone, or going, is no error."""
    from docker.errors import APIError

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


@dataclass(frozen=True, kw_only=True)
class CliProbe:
    """What was found out about one ``docker`` executable: *version* is None where it could not be read."""

    path: str
    version: tuple[int, int] | None
    buildx: bool


def choose_cli(probes: Iterable[CliProbe]) -> CliProbe | None:
    """Return the probe to build with: the first that has buildx, else the first client before 23.0, else None.

    Since 23.0 ``docker build`` needs the buildx plugin for BuildKit; from 18.09 on the client had its own.
    """
    found = list(probes)
    with_buildx = (probe for probe in found if probe.buildx)
    built_in = (probe for probe in found if probe.version is not None and (18, 9) <= probe.version < (23, 0))
    return next(with_buildx, None) or next(built_in, None)


def parse_version(text: str) -> tuple[int, int] | None:
    """Read the output of ``docker --version``."""
    match = _VERSION.search(text)
    return (int(match[1]), int(match[2])) if match else None


def buildkit_cli(environ: Mapping[str, str]) -> BuildCli:
    """Find a client on all of ``PATH`` that can build with BuildKit, for the same engine as :func:`connect`.

    Raises:
        ImageError: if there is none; the hint says what to install.
    """
    outer = {name: value for name, value in environ.items() if name not in ("DOCKER_CONTEXT", "BUILDX_BUILDER")}
    outer["DOCKER_HOST"] = environ.get("DOCKER_HOST") or DEFAULT_HOST
    outer["DOCKER_BUILDKIT"] = "1"
    paths = dict.fromkeys(
        str(Path(folder) / "docker")
        for folder in environ.get("PATH", "").split(":")
        if (Path(folder) / "docker").is_file()
    )
    probes = []
    for path in paths:
        probe = _probe(path, outer)
        probes.append(probe)
        if probe.buildx:
            break
    chosen = choose_cli(probes)
    if chosen is None:
        tried = ", ".join(paths) or "none on PATH"
        raise ImageError(
            f"no docker command can build with BuildKit (tried: {tried})",
            hint="Install the buildx plugin: the package docker-buildx-plugin, or docker-buildx on Debian and Ubuntu.",
        )
    return BuildCli(path=chosen.path, buildx=chosen.buildx, environ=outer)


def _probe(path: str, environ: Mapping[str, str]) -> CliProbe:
    """Ask one executable for its version and for buildx; what cannot be run is simply not usable."""
    buildx = _run([path, "buildx", "version"], environ)
    version = _run([path, "--version"], environ)
    return CliProbe(path=path, version=parse_version(version or ""), buildx=buildx is not None and "buildx" in buildx)


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
