"""The host and containers, told apart by the kernel's routes: tables without a network."""

from __future__ import annotations

from pathlib import Path

import pytest

from aml_emulator.network import neighbours
from aml_emulator.network.neighbours import Clients, Neighbours

HEADING = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n"
IN_A_CONTAINER = HEADING + (
    "eth0\t00000000\t010012AC\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "eth0\t000012AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
    "eth1\t000013AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
)
ON_A_MACHINE = HEADING + (
    "ens3\t00000000\t0101A8C0\t0003\t0\t0\t0\t00000000\t0\t0\t0\n"
    "ens3\t0001A8C0\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n"
    "docker0\t000011AC\t00000000\t0001\t0\t0\t0\t0000FFFF\t0\t0\t0\n"
)


@pytest.fixture
def routes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(neighbours, "_ROUTES", tmp_path / "route")
    return tmp_path / "route"


@pytest.mark.parametrize(
    ("clients", "address", "host"),
    [
        ("host", "127.0.0.1", True),
        ("host", "::1", True),
        ("host", "172.18.0.1", True),
        ("host", "::ffff:172.18.0.1", True),
        ("host", "172.18.0.3", False),
        ("host", "::ffff:172.18.0.3", False),
        ("host", "172.19.0.2", False),
        # The machine on a job's network: a plain process's jobs arrive so, by its proxy.
        ("host", "172.19.0.1", False),
        ("host", "fe80::1%eth0", False),
        ("host", "fd00::2", False),
        ("host", "192.168.65.1", True),
        ("network", "172.18.0.3", True),
        ("network", "172.19.0.2", False),
        ("network", "172.19.0.1", False),
    ],
)
def test_in_a_container_the_host_comes_by_the_gateway_of_published_ports(
    routes: Path, clients: Clients, address: str, host: bool
) -> None:
    routes.write_text(IN_A_CONTAINER)
    assert Neighbours(contained=True, clients=clients).is_host(address) is host


def test_without_a_table_of_routes_only_loopback_is_the_host(routes: Path) -> None:
    assert not routes.exists()
    assert [Neighbours(contained=True).is_host(one) for one in ("127.0.0.1", "192.168.65.1")] == [True, False]


@pytest.mark.parametrize(
    ("contained", "address", "container"),
    [
        (True, "172.18.0.3", True),
        (True, "172.19.0.2", True),
        (True, "172.18.0.1", False),
        (True, "10.1.2.3", False),
        (True, "2001:db8::1", False),
        (False, "172.17.0.2", True),
        (False, "::ffff:172.17.0.2", True),
        (False, "192.168.1.7", False),
        (False, "10.1.2.3", False),
    ],
)
def test_addresses_of_containers(routes: Path, contained: bool, address: str, container: bool) -> None:
    routes.write_text(IN_A_CONTAINER if contained else ON_A_MACHINE)
    found = Neighbours(contained=contained, is_bridge=lambda interface: interface == "docker0")
    assert found.is_container(address) is container
