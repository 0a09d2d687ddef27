"""Where the proxy sends a request, by the host that it is for. Pure."""

from __future__ import annotations

import ipaddress
from dataclasses import dataclass
from enum import Enum

LOGIN_HOSTS = frozenset({"login.microsoftonline.com", "login.windows.net", "sts.windows.net", "login.microsoft.com"})

SERVICE_HOSTS = frozenset({"management.azure.com", "ml.azure.com", "api.azureml.ms"}) | LOGIN_HOSTS
SERVICE_SUFFIX = ".api.azureml.ms"

CLOUD_DOMAINS = (
    "azure.com",
    "azure.net",
    "azurecr.io",
    "azureedge.net",
    "azurefd.net",
    "azureml.ms",
    "azureml.net",
    "azurewebsites.net",
    "live.com",
    "microsoft.com",
    "microsoftonline.com",
    "office.com",
    "visualstudio.com",
    "windows.net",
)
"""Domains of Microsoft's clouds: never reached, so that nothing gets to a real cloud by accident."""


class Destination(Enum):
    """What becomes of a request."""

    SERVICE = "service"
    BLOB = "blob"
    REGISTRY = "registry"
    REFUSED = "refused"
    ONWARD = "onward"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """Where a request goes; *reason* says why it is refused."""

    destination: Destination
    reason: str = ""


def decide(host: str, *, blob_host: str, login_server: str) -> Decision:
    """Return where a request for *host* goes.

    Args:
        host: a DNS name or an address, without a port; case and a trailing dot do not matter.
        blob_host: the storage account's host.
        login_server: the registry's host.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name in SERVICE_HOSTS or name.endswith(SERVICE_SUFFIX):
        return Decision(destination=Destination.SERVICE)
    if name == blob_host:
        return Decision(destination=Destination.BLOB)
    if name == login_server:
        return Decision(destination=Destination.REGISTRY)
    if any(name == domain or name.endswith(f".{domain}") for domain in CLOUD_DOMAINS):
        return Decision(
            destination=Destination.REFUSED,
            reason=f"{name} belongs to a real cloud, which the local AzureML never calls",
        )
    if name == "localhost" or name.endswith(".localhost") or _is_inward(name):
        return Decision(
            destination=Destination.REFUSED, reason=f"{name} is this machine itself; put it into NO_PROXY to reach it"
        )
    return Decision(destination=Destination.ONWARD)


def _is_inward(name: str) -> bool:
    """Return whether it is an address of the machine itself, or one where clouds keep credentials."""
    try:
        address = ipaddress.ip_address(name)
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local or address.is_unspecified or address.is_multicast


def is_address(host: str) -> bool:
    """Return whether a host is given as an IP address."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True
