"""The place where images are built and tested, as ``image.builder`` says: this engine, or another one.

Docker's own clients read ``DOCKER_HOST``, ``DOCKER_TLS_VERIFY`` and ``DOCKER_CERT_PATH``
(https://docs.docker.com/reference/cli/docker/#environment-variables): with these set, docker-py and the command reach the same
engine.
"""

from __future__ import annotations

import functools
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

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

    def resolving_engine(self) -> DockerClient | None:
        """Return the engine whose images may be a base.

        None if the builder pulls each base from a registry.
        """
        return self.engine if self.config.has_engine else None

    def platform(self) -> str:
        """Return what the place builds by default, such as ``linux/amd64``; a service what AzureML's computes are."""
        return "linux/amd64" if self.engine is None else engine_platform(self.engine)

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
            return functools.partial(BuildxBuilder, self.cli, self.config.buildx, where=self.config.where)
        if not self.config.is_service:
            return functools.partial(EngineBuilder, self.cli)
        login = functools.partial(docker_login, environ=self.environ)
        found = ServiceBuilder(service(self.config), login=login, timeout=self.config.timeout)
        return lambda: found

    @functools.cached_property
    def engine(self) -> DockerClient | None:
        """The engine that images are tested in; None for a service.

        Images are also built there, unless a builder of buildx does it.

        Raises:
            ImageError: it does not answer.
        """
        if self.config.is_service:
            return None
        if self.config.kind == "local" or self.config.buildx is not None:
            return self.local()
        try:
            return connect_engine(self._environ)
        except ImageError as error:
            raise ImageError(
                f"{self.config.where}: {error.message}",
                hint="Check the address, and that this machine may use it: `docker --host ADDRESS version`. See docs/image.md.",
            ) from error

    @functools.cached_property
    def _environ(self) -> Mapping[str, str]:
        config = self.config
        if config.engine is not None:
            return engine_environ(self.environ, config.engine, tls=config.tls, where=config.where)
        return self.environ


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
