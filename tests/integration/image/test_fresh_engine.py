"""An engine that has started once, on a machine that has nothing: what `nox -s fresh_engine` runs all tests on."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.integration.image.disposable_engine import DisposableEngine, disposable_engine, missing

pytestmark = [
    pytest.mark.full,
    pytest.mark.skipif(
        missing(connected=True) is not None, reason=f"no engine of the test's own: {missing(connected=True)}"
    ),
]

FACTS = """
import json, docker
from pathlib import Path
from tests.support.docker_bridge import bridge_address, interface_address
engine = docker.DockerClient(base_url="unix:///var/run/docker.sock")
network = engine.networks.get("bridge").attrs
pids = sorted(path.name for path in Path("/run").glob("*.pid"))
found = {"address": bridge_address(network), "bridge": interface_address("docker0"), "images": len(engine.images.list())}
print(json.dumps({**found, "pids": pids}))
engine.close()
"""


@pytest.fixture(scope="module")
def fresh() -> Iterator[DisposableEngine]:
    with disposable_engine(disk=1 << 30, connected=True) as engine:
        yield engine


@pytest.fixture(scope="module")
def facts(fresh: DisposableEngine) -> Any:
    done = subprocess.run(fresh.inside([sys.executable, "-c", FACTS]), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_the_bridges_address_is_found_at_the_first_start(facts: Any) -> None:
    assert facts["address"] == facts["bridge"]


def test_nothing_is_there(facts: Any) -> None:
    assert facts["images"] == 0
    assert facts["pids"] == []


def test_this_machine_can_be_reached_from_inside(fresh: DisposableEngine) -> None:
    assert fresh.address is not None
    outer = fresh.address.removesuffix("2") + "1"
    with socket.create_server((outer, 0)) as server:
        fetch = f"import socket; print(socket.create_connection(('{outer}', {server.getsockname()[1]}), 60).recv(9))"
        client = subprocess.Popen(fresh.inside([sys.executable, "-c", fetch]), stdout=subprocess.PIPE, text=True)
        server.settimeout(60)
        connection, (address, _) = server.accept()
        with connection:
            connection.sendall(b"from here")
        assert client.communicate(timeout=60)[0] == "b'from here'\n"
    assert address == fresh.address
