"""The networks of jobs, whose addresses identify a job's connections.

An address cannot be forged here: answers go to it.
"""

from __future__ import annotations

import ipaddress
import threading
from collections.abc import Iterable, Mapping
from typing import Any

Subnet = ipaddress.IPv4Network | ipaddress.IPv6Network


class JobNetworks:
    """Remembers the subnets of the jobs' networks; used by many threads.

    Until they have been read from the engine, every connection from another machine or container counts as a job's:
    jobs of an earlier process may still run.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._subnets: dict[str, tuple[Subnet, ...]] | None = None

    @property
    def known(self) -> bool:
        """Whether the engine's networks have been read."""
        return self._subnets is not None

    def load(self, described: Iterable[Mapping[str, Any]]) -> None:
        """Record the networks that the engine describes; known ones stay."""
        found = {str(one["Id"]): _subnets(one) for one in described}
        with self._lock:
            self._subnets = {**found, **(self._subnets or {})}

    def add(self, described: Mapping[str, Any]) -> None:
        """Add a network, as the engine describes it."""
        with self._lock:
            self._subnets = {**(self._subnets or {}), str(described["Id"]): _subnets(described)}

    def remove(self, network_id: str) -> None:
        """Forget a network that is gone."""
        with self._lock:
            if self._subnets is not None:
                self._subnets = {key: value for key, value in self._subnets.items() if key != network_id}

    def is_job(self, text: str) -> bool:
        """Return whether a connection from this address may come from a job."""
        address = ipaddress.ip_address(text.partition("%")[0])
        if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
            address = address.ipv4_mapped
        if address.is_loopback:
            return False
        subnets = self._subnets
        if subnets is None or (address.version == 6 and address.is_link_local):
            # A link-local address says nothing of the network that it is on.
            return True
        return any(address in subnet for of_network in subnets.values() for subnet in of_network)


def _subnets(described: Mapping[str, Any]) -> tuple[Subnet, ...]:
    """Return the subnets of a network in the engine's ``GET /networks/{id}``."""
    parts = (described.get("IPAM") or {}).get("Config") or ()
    return tuple(ipaddress.ip_network(one["Subnet"], strict=False) for one in parts if one.get("Subnet"))
