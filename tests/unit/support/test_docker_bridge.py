"""The address by which containers reach this machine, from what engines answer about their default network."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.docker_bridge import bridge_address

OPTIONS = {"com.docker.network.bridge.name": "docker0"}


def network(*subnets: dict[str, str]) -> dict[str, Any]:
    return {"Name": "bridge", "IPAM": {"Driver": "default", "Config": list(subnets)}, "Options": OPTIONS}


@pytest.mark.parametrize(
    ("answer", "address"),
    [
        # As docker.io 20.10.24 answers at an engine's first start, and from the second on.
        (network({"Subnet": "172.17.0.0/16"}), "of docker0"),
        (network({"Subnet": "172.17.0.0/16", "Gateway": "172.17.0.1"}), "172.17.0.1"),
        (
            network({"Subnet": "fd00::/64", "Gateway": "fd00::1"}, {"Subnet": "10.9.0.0/16", "Gateway": "10.9.0.1"}),
            "10.9.0.1",
        ),
        ({**network(), "IPAM": {"Driver": "default", "Config": None}}, "of docker0"),
    ],
)
def test_the_address_of_the_default_network(answer: dict[str, Any], address: str) -> None:
    assert bridge_address(answer, lambda name: f"of {name}") == address
