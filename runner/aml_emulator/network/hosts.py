"""Destinations of requests by host, and addresses that are never reached or connected to."""

from __future__ import annotations

import errno
import ipaddress
import socket
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum

Resolve = Callable[[str, int], Sequence[str]]
"""Gives the addresses of a host; raises OSError where there are none."""


class InwardError(OSError):
    """A host all of whose addresses are refused; the client gets the message."""


@dataclass(frozen=True, kw_only=True)
class Outward:
    """Decides which addresses of a host may be connected to.

    Attributes:
        own_ports: ports of this process that are refused on every address of this machine.
        resolve: gives a host's addresses.
        is_own: whether an address is one of this machine's.
        is_container: whether an address may be a neighbouring container's, such as another emulator's, which may take this one for its host.
    """

    own_ports: Collection[int] = ()
    resolve: Resolve = lambda host, port: resolve(host, port)
    is_own: Callable[[str], bool] = lambda address: is_own(address)
    is_container: Callable[[str], bool] = lambda _address: False

    def addresses(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses to connect to, in the resolver's order.

        Raises:
            InwardError: every address is refused.
            OSError: the name has no address.
        """
        found = self.resolve(host, port)
        allowed = [one for one in found if not self._refused(one, port)]
        if not allowed:
            shown = host if read_address(host) is not None else f"{host} ({', '.join(found)})"
            raise InwardError(errno.EACCES, inward_reason(shown))
        return allowed

    def _refused(self, text: str, port: int) -> bool:
        address = ipaddress.ip_address(text.partition("%")[0])
        if is_inward(address):
            return True
        known = str(getattr(address, "ipv4_mapped", None) or address)
        if port in self.own_ports and self.is_own(known):
            return True
        return self.is_container(known) and not self.is_own(known)


def resolve(host: str, port: int) -> Sequence[str]:
    """Return the addresses of *host*, each once; one question to the resolver.

    Raises:
        OSError: there are none, or a resolver does not accept the name.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError(errno.EINVAL, f"'{host}' is not the name of a host") from error
    return list(dict.fromkeys(str(address[0]) for *_, address in found))


def is_own(address: str) -> bool:
    """Return whether *address* belongs to this machine: a socket can be bound to it."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((address, 0))
        except OSError:
            return False
    return True


LOGIN_HOSTS = frozenset({"login.microsoftonline.com", "login.windows.net", "sts.windows.net", "login.microsoft.com"})

SERVICE_HOSTS = frozenset({"management.azure.com", "ml.azure.com", "api.azureml.ms"}) | LOGIN_HOSTS
SERVICE_SUFFIX = ".api.azureml.ms"
REGISTRY_SUFFIX = ".experiments.azureml.net"
"""The end of the hosts that answer for registries, ``cert-REGION`` before it: azure-ai-ml 1.35, ``_utils/_registry_utils.py``."""

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


Address = ipaddress.IPv4Address | ipaddress.IPv6Address

INWARD_NETWORKS: tuple[ipaddress.IPv4Network | ipaddress.IPv6Network, ...] = (
    ipaddress.IPv4Network("0.0.0.0/8"),
    *(ipaddress.IPv4Network(one) for one in ("168.63.129.16", "100.100.100.200", "192.0.0.192")),
    *(ipaddress.IPv6Network(one) for one in ("fd00:ec2::254", "fd20:ce::254")),
)
"""Besides what :mod:`ipaddress` calls loopback, link-local, unspecified or multicast: "this host on this network"
(https://www.rfc-editor.org/rfc/rfc1122#section-3.2.1.3), and what clouds answer their machines on: Azure's wire server, the metadata
services of Alibaba Cloud and Oracle Cloud, and those of AWS and Google Cloud by IPv6. Others are link-local."""

TRANSLATED_NETWORK = ipaddress.IPv6Network("64:ff9b::/96")
"""NAT64's prefix: https://www.rfc-editor.org/rfc/rfc6052."""


class Destination(Enum):
    """The handling of a request."""

    SERVICE = "service"
    SERVICE_FOR_JOBS = "service-for-jobs"
    BLOB = "blob"
    REGISTRY = "registry"
    REFUSED = "refused"
    ONWARD = "onward"


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The destination of a request; *reason* says why it is refused."""

    destination: Destination
    reason: str = ""


def decide(host: str, *, blob_host: str, login_server: str) -> Decision:
    """Return where a request for *host* goes.

    Args:
        host: a DNS name or an address, without a port; case and a trailing dot do not matter.
    """
    name = host.strip("[]").rstrip(".").lower()
    if name in SERVICE_HOSTS or name.endswith((SERVICE_SUFFIX, REGISTRY_SUFFIX)):
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
    address = read_address(name)
    if name == "localhost" or name.endswith(".localhost") or (address is not None and is_inward(address)):
        return Decision(destination=Destination.REFUSED, reason=inward_reason(name))
    return Decision(destination=Destination.ONWARD)


def names_for_jobs(location: str, *, blob_host: str, login_server: str) -> tuple[str, ...]:
    """Return the names of hosts that a job needs in the region *location*."""
    return (*sorted(SERVICE_HOSTS), f"{location}{SERVICE_SUFFIX}", blob_host, login_server)


def is_public_storage(host: str) -> bool:
    """Return whether a host is that of a storage account in Azure."""
    return host.strip("[]").rstrip(".").lower().endswith(".blob.core.windows.net")


def inward_reason(what: str) -> str:
    """Return why a request for this machine is refused, and what to do instead."""
    return f"{what} is this machine itself, a container or a cloud's service for its machine; put it into NO_PROXY to reach it"


def read_address(host: str) -> Address | None:
    """Return the IP address that *host* is, None for a name.

    Resolvers take every spelling of inet_aton(3) for an address: ``127.1``, ``0x7f.1``, ``2130706433``.
    """
    name = host.strip("[]").rstrip(".").partition("%")[0]
    try:
        return ipaddress.ip_address(name)
    except ValueError:
        try:
            return ipaddress.IPv4Address(socket.inet_aton(name))
        except (OSError, ValueError):
            return None


def is_inward(address: Address) -> bool:
    """Return whether *address* is this machine's own or a cloud's metadata service.

    An IPv6 address that stands for an IPv4 address (mapped, NAT64, 6to4, Teredo) is judged by both.
    """
    return any(
        one.is_loopback
        or one.is_link_local
        or one.is_unspecified
        or one.is_multicast
        or any(one in network for network in INWARD_NETWORKS)
        for one in (address, *_embedded(address))
    )


def _embedded(address: Address) -> Iterator[ipaddress.IPv4Address]:
    """Yield the IPv4 addresses that an IPv6 address may stand for."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    yield from (one for one in (address.ipv4_mapped, address.sixtofour, *(address.teredo or ())) if one is not None)
    if int(address) >> 32 == 0 and int(address) > 1:
        # IPv4-compatible, which RFC 4291 has deprecated.
        yield ipaddress.IPv4Address(int(address))
    if address in TRANSLATED_NETWORK:
        yield ipaddress.IPv4Address(address.packed[12:])
