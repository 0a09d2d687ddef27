"""The other ends of connections: the host, or a container next to this one.

The engine makes connections to published ports from the gateway of the network that it publishes them on. A container on one of this
container's networks has an address of the network's subnet. An address cannot be forged here: answers go to it.
The kernel's table of routes has both, also of networks that are joined later.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal

Clients = Literal["host", "network"]
"""The users of the emulator's own interfaces: the host, or also containers on its network."""

_ROUTES: Final = Path("/proc/net/route")
_INTERFACES: Final = Path("/sys/class/net")


@dataclass(frozen=True, kw_only=True)
class Route:
    """A line of the table; without a *gateway* the subnet is at the interface."""

    interface: str
    subnet: ipaddress.IPv4Network
    gateway: ipaddress.IPv4Address | None


def read_routes() -> tuple[Route, ...]:
    """Return the kernel's routes of IPv4; none if it has no such table."""
    try:
        _, *lines = _ROUTES.read_text(encoding="ascii").splitlines()
    except OSError:
        return ()
    found = []
    for line in lines:
        interface, subnet, gateway, _flags, _, _, _, mask = line.split()[:8]
        found.append(
            Route(
                interface=interface,
                subnet=ipaddress.IPv4Network((int(_address(subnet)), str(_address(mask)))),
                gateway=_address(gateway) if int(gateway, 16) else None,
            )
        )
    return tuple(found)


def _address(text: str) -> ipaddress.IPv4Address:
    """Return an address of the table, whose bytes have the machine's order."""
    return ipaddress.IPv4Address(int(text, 16).to_bytes(4, "little"))


def is_bridge(interface: str) -> bool:
    """Return whether containers may be connected to an interface."""
    return (_INTERFACES / interface / "bridge").exists()


@dataclass(frozen=True, kw_only=True)
class Neighbours:
    """Distinguishes the host from containers.

    Attributes:
        contained: whether this process runs in a container; the host of a plain process is its machine, over loopback.
        clients: who counts as the host.
        routes: reads the routes as they are now.
        is_bridge: whether an interface is one of containers, for a plain process.
    """

    contained: bool
    clients: Clients = "host"
    routes: Callable[[], tuple[Route, ...]] = read_routes
    is_bridge: Callable[[str], bool] = is_bridge

    def is_host(self, text: str) -> bool:
        """Return whether a connection from this address counts as the host's."""
        address = _read(text)
        if address.is_loopback:
            return True
        if not self.contained or isinstance(address, ipaddress.IPv6Address):
            return False
        routes = self.routes()
        at = {one.interface for one in routes if not one.gateway and address in one.subnet}
        if not at:
            # From further away: a machine that the ports are published to, or Docker Desktop's own address for the host.
            return bool(routes)
        way_out = next((one for one in routes if one.gateway and not one.subnet.prefixlen), None)
        return way_out is not None and (
            address == way_out.gateway or (self.clients == "network" and at == {way_out.interface})
        )

    def is_container(self, text: str) -> bool:
        """Return whether an address may be that of a container next to this process."""
        address, routes = _read(text), self.routes()
        return address not in {one.gateway for one in routes} and any(
            not one.gateway and address in one.subnet and (self.contained or self.is_bridge(one.interface))
            for one in routes
        )


def _read(text: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    address = ipaddress.ip_address(text.partition("%")[0])
    return getattr(address, "ipv4_mapped", None) or address
