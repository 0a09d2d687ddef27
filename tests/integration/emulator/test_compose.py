"""The local AzureML started by Docker Compose (pytest-docker), as examples/emulator shows it, and a user's script against it."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from pytest_docker.plugin import Services

from aml_train.local.admin import emulator_info
from aml_train.local.settings import IMAGE, EmulatorSettings
from tests.integration.emulator.test_container import User
from tests.support.ports import free_port

pytestmark = pytest.mark.full

ROOT = Path(__file__).parents[3]
PORTS = ("AML_TRAIN_EMULATOR_PORT", "AML_TRAIN_EMULATOR_REGISTRY_PORT")
IMAGE_NAME = "AML_TRAIN_EMULATOR_IMAGE"
GIVEN = frozenset(os.environ)


@pytest.fixture(scope="session")
def docker_compose_command() -> str:
    """The Compose that the development environment brings; the engine's own client need not have one."""
    return str(Path(sys.executable).with_name("docker-compose"))


@pytest.fixture(scope="session")
def ports() -> tuple[int, int]:
    """Ports that the compose file takes from the environment, as it does the image."""
    chosen = (free_port(), free_port())
    os.environ.update(zip(PORTS, map(str, chosen), strict=True))
    os.environ.setdefault(IMAGE_NAME, IMAGE)
    return chosen


@pytest.fixture(scope="module", autouse=True)
def _only_here(ports: tuple[int, int]) -> Iterator[None]:
    """The services go on until the end of the session; what other modules start is not to have their ports."""
    yield
    for name in {*PORTS, IMAGE_NAME} - GIVEN:
        del os.environ[name]


@pytest.fixture(scope="session")
def docker_compose_file(ports: tuple[int, int], tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The example's file, and one that has Compose wait longer: on a machine under load an answer may take its time."""
    patient = tmp_path_factory.mktemp("compose") / "patient.yaml"
    patient.write_text("services: {azureml: {healthcheck: {timeout: 120s, retries: 20}}}\n")
    return [str(ROOT / "examples" / "emulator" / "compose.yaml"), str(patient)]


def test_a_users_script_works_against_the_composed_service(
    ports: tuple[int, int], docker_services: Services, tmp_path: Path
) -> None:
    port, registry_port = ports
    assert docker_services.port_for("azureml", 7380) == port
    settings = EmulatorSettings(name="composed", port=port, registry_port=registry_port)
    info = emulator_info(settings)
    assert info is not None
    user = User(info, tmp_path)
    job = user.submit("python train.py ${{inputs.rate}} ${{inputs.data}} ${{outputs.model}}")
    assert user("wait", job) == "Completed"


def test_the_commands_of_aml_train_find_it(ports: tuple[int, int], docker_services: Services) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "aml_train", "emulator", "env"], capture_output=True, text=True, check=True
    )
    assert f"http://127.0.0.1:{ports[0]}" in done.stdout
    assert "AZURE_CLIENT_SECRET" in done.stdout
