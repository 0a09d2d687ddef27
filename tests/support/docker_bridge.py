"""This machine's address on an engine's default network, which every container reaches."""

from __future__ import annotations

import fcntl
import socket
import struct
from collections.abc import Callable, Mapping
from typing import Any, Final

_NAME_OPTION: Final = "com.docker.network.bridge.name"
_SIOCGIFADDR: Final = 0x8915
"""netdevice(7): the request for an interface's IPv4 address; ``struct ifreq`` has 16 bytes of name, then a ``sockaddr_in``."""


def interface_address(name: str) -> str:
    """Return the IPv4 address of one of this machine's network interfaces.

    Raises:
        OSError: if there is no such interface, or it has no IPv4 address.
    """
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        answer = fcntl.ioctl(any_socket, _SIOCGIFADDR, struct.pack("256s", name.encode()))
    return socket.inet_ntoa(answer[20:24])


def bridge_address(network: Mapping[str, Any], address_of: Callable[[str], str] = interface_address) -> str:
    """Return the address by which containers of the default network reach this machine.

    The network's ``Gateway`` where the engine names one. Docker 20.10 does so from its second start on: at the first one it has
    made the bridge itself and lists the subnet alone. The bridge's own interface is asked then.

    Args:
        network: what the engine answers for the network ``bridge``.
        address_of: interface name → its IPv4 address.
    """
    subnets = network["IPAM"]["Config"] or ()
    gateways = [str(subnet["Gateway"]) for subnet in subnets if "." in subnet.get("Gateway", "")]
    return gateways[0] if gateways else address_of(network["Options"][_NAME_OPTION])
