"""Azure's clouds by name, and the addresses that differ between them. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import InvalidError


@dataclass(frozen=True, kw_only=True)
class Cloud:
    """One of Azure's clouds.

    Attributes:
        name: as Azure's tools and azure-ai-ml call it.
        authority: host that signs in.
        arm: address of Azure Resource Manager.
        registry_scope: scope of the token that an Azure Container Registry exchanges for its own.
        federated_audience: what an assertion of another issuer must name as its audience.
    """

    name: str
    authority: str
    arm: str
    registry_scope: str
    federated_audience: str

    @property
    def scope(self) -> str:
        """The scope of Azure Resource Manager's tokens."""
        return f"{self.arm}/.default"


# Sources: azure-ai-ml 1.34.1 (_azure_environments), azure-containerregistry (README, "Authenticate"), and
# https://learn.microsoft.com/entra/workload-id/workload-identity-federation-create-trust (audiences of each cloud).
AZURE_PUBLIC: Final = Cloud(
    name="AzureCloud",
    authority="login.microsoftonline.com",
    arm="https://management.azure.com",
    registry_scope="https://containerregistry.azure.net/.default",
    federated_audience="api://AzureADTokenExchange",
)
_CLOUDS: Final = (
    AZURE_PUBLIC,
    Cloud(
        name="AzureUSGovernment",
        authority="login.microsoftonline.us",
        arm="https://management.usgovcloudapi.net",
        registry_scope="https://management.usgovcloudapi.net/.default",
        federated_audience="api://AzureADTokenExchangeUSGov",
    ),
    Cloud(
        name="AzureChinaCloud",
        authority="login.chinacloudapi.cn",
        arm="https://management.chinacloudapi.cn",
        registry_scope="https://management.chinacloudapi.cn/.default",
        federated_audience="api://AzureADTokenExchangeChina",
    ),
)


def cloud_named(name: str) -> Cloud:
    """Return the cloud called *name*, in upper or lower case; the public one for an empty name.

    Raises:
        InvalidError: there is none of that name.
    """
    for cloud in _CLOUDS:
        if (name or AZURE_PUBLIC.name).lower() == cloud.name.lower():
            return cloud
    known = ", ".join(cloud.name for cloud in _CLOUDS)
    raise InvalidError(f"AZURE_ENVIRONMENT: there is no cloud {name!r}.", hint=f"Known are {known}.")
