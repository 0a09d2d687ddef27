"""Azure's clouds and the addresses that differ between them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal
from urllib.parse import urlsplit

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
    """Return the cloud called *name*, in any case; the public one for no name.

    Raises:
        InvalidError: there is none of that name.
    """
    for cloud in _CLOUDS:
        if (name or AZURE_PUBLIC.name).lower() == cloud.name.lower():
            return cloud
    known = ", ".join(cloud.name for cloud in _CLOUDS)
    raise InvalidError(f"AZURE_ENVIRONMENT: there is no cloud {name!r}.", hint=f"Known are {known}.")


# The hosts of a region's services. Microsoft's REST guide documents the keys of the discovery document: ``api``, ``experimentation``,
# ``history``, ``hyperdrive``, ``labeling``, ``modelmanagement``, ``pipelines``, ``studiocoreservices``
# (https://learn.microsoft.com/azure/machine-learning/how-to-manage-rest, "Get a list of Azure Machine Learning workspaces"). There is none for
# MLflow: azureml-mlflow 1.62 takes the host of the workspace's ``mlFlowTrackingUri``, and azureml-core 1.61
# (``_restclient/service_context.py``) the one of ``api``.
Service = Literal["history", "mlflow"]

#: What is read of the discovery document.
KEYS: Final = ("api", "history")


def address_of(service: Service, discovered: Mapping[str, object], tracking_uri: object) -> str | None:
    """Return the address of a service, ``https://HOST``; None where nothing says it.

    Args:
        discovered: the discovery document; empty where there is none.
        tracking_uri: the workspace's ``mlFlowTrackingUri``.
    """
    api, history = (_https(discovered.get(key)) for key in KEYS)
    tracking = f"https://{host}" if (host := _host(tracking_uri)) else None
    return (tracking or api or history) if service == "mlflow" else (history or api or tracking)


def _https(value: object) -> str | None:
    """Return an address that a token may be sent to."""
    if not isinstance(value, str) or not value.lower().startswith("https://") or not _host(value):
        return None
    return value.rstrip("/")


def _host(value: object) -> str:
    try:
        return urlsplit(value).netloc if isinstance(value, str) else ""
    except ValueError:
        return ""


def core_sdk() -> Any:
    """Return azure-core with the parts that are needed; only what signs in or sends needs it."""
    import azure.core.credentials
    import azure.core.exceptions
    import azure.core.pipeline.transport

    return azure.core
