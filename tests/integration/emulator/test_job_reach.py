"""What a job reaches from its network. A real job tries, with the emulator as a process; test_container has the image."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import docker
import pytest
import requests

from tests.integration.emulator.job_reach import WANTED, reached
from tests.support import emulator_client
from tests.support.docker_bridge import bridge_address
from tests.support.emulator_process import Emulator, instant_emulator, running


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    with running(Emulator(tmp_path)) as service:
        yield service


def test_a_job_reaches_azures_services_and_nothing_of_the_emulators_own(
    emulator: Emulator, engine: docker.DockerClient, tmp_path: Path
) -> None:
    bridge, folder = bridge_address(engine.networks.get("bridge").attrs), tmp_path / "other"
    folder.mkdir()
    with (
        instant_emulator(folder) as other,
        emulator_client.signed_in(emulator.environment()) as session,
    ):
        # The machine's services may be used; another emulator there takes nobody for its host but loopback.
        seen = reached(session, emulator.info, registry_port=emulator.registry_port, other=f"{bridge}:{other.port}")
        assert seen == {**WANTED, "its tunnel": 200}
    # The machine itself has all of it, as ever.
    assert emulator.admin("GET", "info").json()["client_secret"]
    with requests.Session() as plain:
        plain.trust_env = False
        address = f"http://127.0.0.1:{emulator.registry_port}/v2/_catalog"
        assert plain.get(address, timeout=60).status_code == 200
