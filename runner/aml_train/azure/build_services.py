"""The services that build images for a target."""

from __future__ import annotations

from typing import TYPE_CHECKING

from aml_train.azure.acr import find_registry
from aml_train.azure.acr_tasks import ROLES, AcrTasks
from aml_train.azure.workspace import AzureRest
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.events import Listener
from aml_train.image.registry.auth import is_acr

if TYPE_CHECKING:
    from aml_train.config import BuilderConfig
    from aml_train.image import RegistryLocation


def build_service(config: BuilderConfig, rest: AzureRest, location: RegistryLocation, listener: Listener) -> AcrTasks:
    """Return ACR Tasks of the registry at *location*.

    Raises:
        InvalidError: it is no Azure Container Registry.
        ServiceError: the registry is not visible to the identity, or Azure refuses.
    """
    host = location.job_name
    if not is_acr(host):
        raise InvalidError(
            f"{config.where}: the builder `acr` needs an Azure Container Registry, and the target's is {host}",
            hint="Use another builder, or name another registry: targets.NAME.registry.",
        )
    found = find_registry(rest, host)
    if found is None:
        raise ServiceError(
            f"{config.where}: the registry {host} is not found, or not visible to this identity.", hint=ROLES
        )
    return AcrTasks(rest, found, listener=listener, where=config.where, agent_pool=config.agent_pool)
