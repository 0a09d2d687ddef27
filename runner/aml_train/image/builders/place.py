"""The place where images are built and tested, as ``image.builder`` says."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.core.docker import BuildCli, buildkit_cli, connect_engine, engine_platform
from aml_train.core.docker_endpoint import context_environ, engine_environ
from aml_train.core.errors import ImageError
from aml_train.image.base import docker_login
from aml_train.image.builders.engine import BuildxBuilder, EngineBuilder
from aml_train.image.builders.service import ServiceBuilder

if TYPE_CHECKING:
    from docker import DockerClient

    from aml_train.image.builder import Builder
    from aml_train.image.builders.service import BuildService
    from aml_train.image.registry.auth import RegistryAuth

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
        if not self.config.is_service:
            return self._on_engine

        found = ServiceBuilder(service(self.config), login=self._docker_login, timeout=self.config.timeout)
        return lambda: found

    def _on_engine(self) -> Builder:
        if self.config.buildx is not None:
            return BuildxBuilder(self.config.buildx, where=self.config.where)

        return EngineBuilder()

    def _docker_login(self, registry: str) -> RegistryAuth | None:
        """Return what ``docker login`` has kept for a base's registry."""

        return docker_login(registry, self.environ)

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
