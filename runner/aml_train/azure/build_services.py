"""The services that build images for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.azure.acr import find_registry
from aml_train.azure.acr_tasks import ROLES, AcrTasks
from aml_train.azure.environment_builds import EnvironmentBuilds
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import Answer
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Listener

if TYPE_CHECKING:
    from aml_train.config import BuilderConfig
    from aml_train.image import BuildService, RegistryLocation


def build_service(
    config: BuilderConfig, rest: AzureRest, location: RegistryLocation, listener: Listener
) -> BuildService:
    """Return the service that *config* names, for the registry at *location*.

    Raises:
        InvalidError: the service cannot push to that registry.
        ServiceError: the registry is not visible to the identity, or Azure refuses.
    """
    if config.kind == "azureml":
        return _environment_builds(config, rest, location, listener)
    return _acr_tasks(config, rest, location, listener)


def _acr_tasks(config: BuilderConfig, rest: AzureRest, location: RegistryLocation, listener: Listener) -> AcrTasks:
    from aml_train.image import is_acr

    host = location.job_name
    if not is_acr(host):
        raise InvalidError(
            f"{config.where}: the builder `acr` needs an Azure Container Registry, and the target's is {host}",
            hint="Use another builder, or name another registry: targets.NAME.registry.",
        )
    found = _registry(config, rest, host)
    return AcrTasks(rest, found, listener=listener, where=config.where, agent_pool=config.agent_pool)


def _environment_builds(
    config: BuilderConfig, rest: AzureRest, location: RegistryLocation, listener: Listener
) -> EnvironmentBuilds:
    """Return the workspace's builds, which push to the workspace's own registry alone."""
    own = (rest.describe().optional_text("containerRegistry") or "").rpartition("/")[2]
    if not own or own.lower() != location.job_name.partition(".")[0].lower():
        raise InvalidError(
            f"{config.where}: the builder `azureml` pushes to the registry of the workspace ({own or 'which has none yet'}), and the "
            f"target's is {location.job_name}",
            hint="Leave out `registry` of the target, or use the builder `acr`.",
        )
    return EnvironmentBuilds(rest, location, listener=listener, where=config.where, compute=config.compute)


def _registry(config: BuilderConfig, rest: AzureRest, host: str) -> Answer:
    """Return the resource of the registry *host*."""
    found = find_registry(rest, host)
    if found is None:
        raise ServiceError(
            f"{config.where}: the registry {host} is not found, or not visible to this identity.", hint=ROLES
        )
    return found
