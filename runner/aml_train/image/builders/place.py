"""The place where images are built and tested, as ``image.builder`` says: this engine, another address, a Docker context.

Docker's own clients read ``DOCKER_HOST``, ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH``
(https://docs.docker.com/reference/cli/docker/#environment-variables): with these set, docker-py and the command reach the same
engine.
"""

from __future__ import annotations

import functools
import json
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.core.docker import BuildCli, buildkit_cli, connect_engine, docker_configuration_file, engine_platform
from aml_train.core.errors import ImageError
from aml_train.image.base import docker_login
from aml_train.image.builders.engine import BuildxBuilder, EngineBuilder
from aml_train.image.builders.service import ServiceBuilder

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.image.builder import Builder
    from aml_train.image.builders.service import BuildService


SERVICE_PLATFORM: Final = "linux/amd64"
"""The platform of a service's builds: AzureML's computes are of this one."""


@dataclass(frozen=True, kw_only=True)
class BuildPlace:
    """A place where images are built and tested.

    Attributes:
        config: the builder.
        local: gives this machine's engine.
        environ: the process's environment.
    """

    config: BuilderConfig
    local: Callable[[], DockerClient]
    environ: Mapping[str, str] = field(repr=False)

    def engine(self) -> DockerClient | None:
        """Return the engine that images are tested in; None for a service.

        Images are also built there, unless a builder of buildx does it.

        Raises:
            ImageError: it does not answer.
        """
        return self._engine

    def resolving_engine(self) -> DockerClient | None:
        """Return the engine whose images may be a base.

        None if the builder pulls each base from a registry.
        """
        return self._engine if self.config.has_engine else None

    def platform(self) -> str:
        """Return what the place builds by default, such as ``linux/amd64``."""
        engine = self._engine
        return SERVICE_PLATFORM if engine is None else engine_platform(engine)

    def cli(self) -> BuildCli:
        """Return the command that builds in this place.

        Raises:
            ImageError: there is none.
        """
        return buildkit_cli(self._environ)

    def builder(self, service: Callable[[BuilderConfig], BuildService]) -> Callable[[], Builder]:
        """Return what gives the builder; a service is looked up at once.

        Args:
            service: gives the target's service, for a builder that is one.

        Raises:
            AmlTrainError: the service cannot build for the target.
        """
        if self.config.buildx is not None:
            return functools.partial(BuildxBuilder, self.config.buildx, where=self.config.where)
        if not self.config.is_service:
            return EngineBuilder
        login = functools.partial(docker_login, environ=self.environ)
        found = ServiceBuilder(service(self.config), login=login, timeout=self.config.timeout)
        return lambda: found

    @functools.cached_property
    def _engine(self) -> DockerClient | None:
        if self.config.is_service:
            return None
        if self.config.kind == "local" or self.config.buildx is not None:
            return self.local()
        try:
            return connect_engine(self._environ)
        except ImageError as error:
            raise ImageError(
                f"{self.config.where}: {error.message}",
                hint="Check the address, and that this machine may use it: `docker --host ADDRESS version`, or "
                "`docker --context NAME version`. See docs/image.md.",
            ) from error

    @functools.cached_property
    def _environ(self) -> Mapping[str, str]:
        config = self.config
        if config.context is not None:
            return context_environ(self.environ, config.context, where=config.where)
        if config.engine is not None:
            return engine_environ(self.environ, config.engine, tls=config.tls, where=config.where)
        return self.environ


_SECONDS: Final = 30.0
_VARIABLES: Final = ("DOCKER_HOST", "DOCKER_TLS_VERIFY", "DOCKER_CERT_PATH", "DOCKER_TLS", "DOCKER_CONTEXT")
#: The files of a client's certificate, by Docker's names (https://docs.docker.com/engine/security/protect-access/).
CERTIFICATES: Final = ("ca.pem", "cert.pem", "key.pem")


def engine_environ(environ: Mapping[str, str], host: str, *, tls: Path | None = None, where: str) -> dict[str, str]:
    """Return *environ* for the engine at *host*.

    An engine at ``tcp://`` is only used by TLS: anyone who reaches it without TLS is root on its machine.

    Args:
        environ: the process's environment.
        host: ``ssh://``, ``tcp://`` or ``unix://``.
        tls: the folder of the certificates; ``DOCKER_CERT_PATH`` or Docker's own folder by default.
        where: the place in the user's file, for errors.

    Raises:
        ImageError: a certificate is missing, or there is no ssh.
    """
    others = {name: value for name, value in environ.items() if name not in _VARIABLES}
    if host.startswith("ssh://") and shutil.which("ssh", path=environ.get("PATH", "")) is None:
        raise ImageError(
            f"{where}: the engine at {host} needs the command ssh, which is not on PATH",
            hint="Install OpenSSH's client, or use an engine at tcp:// by TLS.",
        )
    if not host.startswith("tcp://"):
        return {**others, "DOCKER_HOST": host}
    kept = environ.get("DOCKER_CERT_PATH")
    folder = tls or (Path(kept) if kept else docker_configuration_file(environ).parent)
    if missing := [name for name in CERTIFICATES if not (folder / name).is_file()]:
        raise ImageError(
            f"{where}: the engine at {host} is only used by TLS, and {folder} has no {', '.join(missing)}",
            hint="Name the folder of ca.pem, cert.pem and key.pem: `image.builder.tls`, or DOCKER_CERT_PATH. "
            "See https://docs.docker.com/engine/security/protect-access/.",
        )
    return {**others, "DOCKER_HOST": host, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)}


def context_environ(environ: Mapping[str, str], name: str, *, where: str) -> dict[str, str]:
    """Return *environ* for the engine of the Docker context *name*.

    Raises:
        ImageError: there is no such context, or it has no engine that may be used.
    """
    host, tls = read_context(_inspect(environ, name, where), name, where)
    return engine_environ(environ, host, tls=tls, where=where)


def _inspect(environ: Mapping[str, str], name: str, where: str) -> str:
    plain = {key: value for key, value in environ.items() if key not in _VARIABLES}
    try:
        done = subprocess.run(
            ["docker", "context", "inspect", name],
            env=plain,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ImageError(f"{where}: the Docker context {name} cannot be read: {error}") from error
    if done.returncode != 0:
        reason = done.stderr.strip().splitlines()[-1:] or ["no reason is given"]
        raise ImageError(
            f"{where}: the Docker context {name} cannot be read: {reason[0]}",
            hint=f"List the contexts: docker context ls. Make one: docker context create {name} --docker host=ssh://USER@HOST",
        )
    return done.stdout


def read_context(text: str, name: str, where: str) -> tuple[str, Path | None]:
    """Return a context's engine, and the folder of its certificates. Pure.

    Args:
        text: the output of ``docker context inspect``.
        name: the context.
        where: the place in the user's file, for errors.
    """
    try:
        [found] = json.loads(text)
        engine: Mapping[str, Any] = found["Endpoints"]["docker"]
        host = str(engine["Host"])
        skips, material = bool(engine.get("SkipTLSVerify")), (found.get("TLSMaterial") or {}).get("docker")
        folder = Path(found["Storage"]["TLSPath"]) / "docker" if material else None
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError) as error:
        raise ImageError(f"{where}: the Docker context {name} has no engine: {text.strip()[:200]}") from error
    if skips:
        raise ImageError(
            f"{where}: the Docker context {name} does not check the engine's certificate (SkipTLSVerify)",
            hint="Make the context with the authority's certificate: docker context create … ca=ca.pem,cert=…,key=…",
        )
    return host, folder
