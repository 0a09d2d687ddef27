"""The local AzureML's container image, its life as `aml-train emulator` drives it, and a user's script against it."""

from __future__ import annotations

import dataclasses
import json
import os
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

import docker
import pytest
import requests
from docker.models.containers import Container

from aml_train.core.docker import buildkit_cli
from aml_train.core.errors import ServiceError
from aml_train.core.events import Event, Notice
from aml_train.local import lifecycle
from aml_train.local import lifecycle as emulator
from aml_train.local.admin import emulator_info, read_problems, request_admin
from aml_train.local.environment import client_environment
from aml_train.local.settings import INSIDE_REGISTRY_PORT, EmulatorInfo, EmulatorSettings
from scripts.bootstrap.sources import SOURCE_LABEL, emulator_reference, emulator_source, project_version
from scripts.release.checks import EMULATOR_IMAGE
from tests.integration.emulator.job_reach import WANTED, reached
from tests.support import emulator_client
from tests.support.emulator_client import SECONDS
from tests.support.ports import free_port
from tests.support.scheduling import one_at_a_time

if TYPE_CHECKING:
    from docker import DockerClient

ROOT: Final = Path(__file__).parents[3]
_BUILT: Final = "aml-emulator-test:1"


def emulator_image(engine: DockerClient) -> str:
    """Return the image: as it was bootstrapped, or built here."""
    source = emulator_source(ROOT)
    for reference in (emulator_reference(ROOT), _BUILT):
        for found in engine.images.list(name=reference):
            if found.labels.get(SOURCE_LABEL) == source:
                return reference
    cli = buildkit_cli(os.environ)
    argv = [cli.path, *(["buildx", "build", "--load"] if cli.buildx else ["build"])]
    argv += [f"--tag={_BUILT}", f"--label={SOURCE_LABEL}={source}"]
    argv += [f"--build-arg=VERSION={project_version(ROOT)}", "--file=runner/aml_emulator/Dockerfile", "."]
    subprocess.run(argv, cwd=ROOT, env=dict(cli.environ), check=True)
    return _BUILT


BASE = "python:3.11-slim-bookworm"
CLIENT = Path(__file__).with_name("container_client.py")

TRAIN = """
import json, os, pathlib, sys, urllib.request
rate, data, model = sys.argv[1:]
print("rate", rate, "data", pathlib.Path(data).read_text(), "colour", os.environ["COLOUR"])
base = os.environ["MLFLOW_TRACKING_URI"].replace("azureml://", "https://")
url = f"{base}/api/2.0/mlflow/runs/get?run_id={os.environ['MLFLOW_RUN_ID']}"
request = urllib.request.Request(url, headers={"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]})
answer = json.load(urllib.request.urlopen(request))
print("tracked as", answer["run"]["info"]["run_id"] == os.environ["MLFLOW_RUN_ID"])
# As by a program that knows no proxy.
direct = urllib.request.build_opener(urllib.request.ProxyHandler({}))
print("the same directly", json.load(direct.open(request)) == answer, "fuse", os.path.exists("/dev/fuse"))
pathlib.Path(model, "weights").write_text(rate)
pathlib.Path("outputs", "note.txt").write_text("noted")
"""
ASKING = """
import json, sys, urllib.error, urllib.request

def status(url):
    try:
        return urllib.request.build_opener(urllib.request.ProxyHandler({})).open(url, timeout=20).status
    except urllib.error.HTTPError as error:
        return error.code

print(json.dumps([status(url) for url in sys.argv[1:]]))
"""
# A blob, and how many journals Azurite keeps.
AZURITE = """
import io, os, subprocess
from pathlib import Path
from aml_emulator.processes.backing import AZURITE_SCRIPT
from aml_emulator.store.blobs import Blobs

account, key, folder = "account", "a2V5", Path("/tmp/blobs")
argv = ["azurite-blob", "--blobPort", "10000", "--location", str(folder), "--skipApiVersionCheck", "--disableTelemetry", "--silent"]
variables = {"NODE_OPTIONS": f"--require={AZURITE_SCRIPT}", "AZURITE_ACCOUNTS": f"{account}:{key}"}
with subprocess.Popen(argv, env={**os.environ, **variables}, stdout=subprocess.PIPE, text=True) as azurite:
    next(line for line in azurite.stdout if "listens on" in line)
    endpoint = f"http://127.0.0.1:10000/{account}"
    blobs = Blobs(account=account, key=key, endpoint=endpoint, public_endpoint=endpoint, ca_file="unused")
    blobs.create_container("some")
    blobs.write("some", "one", io.BytesIO(b"content"))
    azurite.kill()
    azurite.communicate()
print(len(list(folder.glob("*.journal.*"))))
"""


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what hangs takes longer to get ready, even on a machine under load."""
    monkeypatch.setattr(lifecycle, "READY_SECONDS", 600.0)


@pytest.fixture(scope="module")
def engine() -> Iterator[docker.DockerClient]:
    client = docker.from_env()
    yield client
    client.close()


@pytest.fixture(scope="module")
def image(engine: docker.DockerClient) -> str:
    """The image of these sources: as it was bootstrapped, or built here; for a release's tests that of the release."""
    if EMULATOR_IMAGE in os.environ:
        return os.environ[EMULATOR_IMAGE]
    with one_at_a_time("emulator-image"):
        return emulator_image(engine)


@pytest.fixture
def settings(image: str) -> Iterator[EmulatorSettings]:
    made = EmulatorSettings(
        name=f"aml-emulator-test-{secrets.token_hex(4)}", image=image, port=free_port(), registry_port=free_port()
    )
    yield made
    emulator.reset_emulator(made)


@dataclasses.dataclass
class User:
    """Runs the user's script with nothing but the variables that we give out."""

    info: EmulatorInfo
    folder: Path

    def __call__(self, *arguments: str) -> object:
        base = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        variables = base | client_environment(self.info, os.environ, cache=self.folder / "cache")
        done = subprocess.run(
            [sys.executable, str(CLIENT), *arguments], env=variables, capture_output=True, text=True, timeout=900
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout.splitlines()[-1])

    def submit(self, line: str, image: str = BASE) -> str:
        code = self.folder / "code"
        code.mkdir(exist_ok=True)
        (code / "train.py").write_text(TRAIN)
        (code / "data.csv").write_text("1,2")
        return str(self("submit", str(code), image, line, self.info.compute))


def aliases(engine: docker.DockerClient, settings: EmulatorSettings, job: str) -> list[str]:
    """Return the names that the emulator was given on the networks of a job."""
    networks = engine.containers.get(settings.name).attrs["NetworkSettings"]["Networks"]
    return [alias for key, item in networks.items() if job in key for alias in item["Aliases"][:1]]


def ignore(_event: Event) -> None:
    """Listen to nothing."""


@pytest.mark.full
def test_its_life_and_a_users_script(settings: EmulatorSettings, engine: docker.DockerClient, tmp_path: Path) -> None:
    events: list[Event] = []
    info = emulator.start_emulator(settings, events.append)
    notices = [event.text for event in events if isinstance(event, Notice)]
    assert notices == [f"Starting the local AzureML in the container {settings.name}"]
    events.clear()
    assert emulator.start_emulator(settings, events.append) == info
    assert [event for event in events if isinstance(event, Notice) and event.text.startswith("Starting")] == []
    assert emulator_info(settings) == info

    page = requests.get(f"{settings.page_origin}/ui/", timeout=SECONDS)
    assert (page.status_code, "There are no runs yet" in page.text) == (200, True)

    user = User(info, tmp_path)
    name = user.submit("python train.py ${{inputs.rate}} ${{inputs.data}} ${{outputs.model}}")
    ended = user("wait", name)
    container = engine.containers.get(settings.name)
    assert ended == "Completed", container.logs(tail=50).decode()
    assert "tracked as True" in requests.get(f"{settings.page_origin}/ui/runs/{name}", timeout=SECONDS).text
    user("download", name, str(tmp_path / "got"))
    got = {path.name: path.read_text() for path in (tmp_path / "got").rglob("*") if path.is_file()}
    assert got["std_log.txt"] == (
        "rate 0.25 data 1,2 colour blue\ntracked as True\nthe same directly True fuse False\n"
    )
    assert (got["weights"], got["note.txt"]) == ("0.25", "noted")

    long = user.submit("echo up; sleep 36000")
    assert user("wait", long, "Running") == "Running"
    changed = dataclasses.replace(settings, max_jobs=3)
    with pytest.raises(ServiceError, match=f"with other settings, and jobs run in it: {long}"):
        emulator.start_emulator(changed, ignore)
    assert emulator.stop_emulator(settings)
    assert not emulator.stop_emulator(settings)
    assert emulator_info(settings) is None
    assert emulator.emulator_status(settings) == {"name": settings.name, "state": "exited"}
    assert emulator.start_emulator(settings, ignore) == info
    assert user("status", name) == "Completed"
    assert user("status", long) == "Running"

    # Made anew while a job runs: the job finds it again, under the same name on its network.
    engine.containers.get(settings.name).remove(force=True)
    assert emulator.start_emulator(changed, ignore) == info
    deadline = time.monotonic() + 300
    while (names := aliases(engine, settings, long)) != ["azureml"] and time.monotonic() < deadline:
        time.sleep(0.1)
    assert names == ["azureml"]
    assert user("status", long) == "Running"
    user("cancel", long)
    assert user("wait", long) == "Canceled"
    assert user("status", name) == "Completed"
    # A job is let go of once its container is gone, which is after its end.
    deadline = time.monotonic() + 300
    while (state := emulator.emulator_status(changed)).get("active") and time.monotonic() < deadline:
        time.sleep(0.1)
    assert (state["state"], state["active"], state["unsupported"]) == ("running", [], {})
    assert any("ready" in line for line in emulator.emulator_logs(changed))

    emulator.reset_emulator(changed)
    assert emulator.emulator_status(changed) == {"name": settings.name, "state": "absent"}
    assert engine.volumes.list(filters={"name": settings.volume}) == []
    own = {"label": f"org.aml-train.emulator.instance={info.instance}"}
    assert engine.networks.list(filters=dict(own)) == []


@pytest.mark.full
def test_the_journal_takes_effect_in_the_images_azurite(engine: docker.DockerClient, image: str) -> None:
    """Its modules are bundled into one file, which loads none of them by name."""
    printed = engine.containers.run(image, ["-c", AZURITE], entrypoint="python", network_mode="none", remove=True)
    assert int(printed) >= 1


def test_a_port_that_is_taken_is_named(settings: EmulatorSettings) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = int(taken.getsockname()[1])
        with pytest.raises(ServiceError, match=rf"cannot start: .*{port}(.|\n)*AML_TRAIN_EMULATOR_REGISTRY_PORT"):
            emulator.start_emulator(dataclasses.replace(settings, registry_port=port), ignore)


def test_a_container_of_somebody_else_is_left_alone(settings: EmulatorSettings, engine: docker.DockerClient) -> None:
    foreign = engine.containers.create(BASE, name=settings.name)
    try:
        with pytest.raises(ServiceError, match="that is not a local AzureML"):
            emulator.start_emulator(settings, ignore)
    finally:
        foreign.remove()


@pytest.mark.full
def test_one_that_does_not_get_ready_shows_its_log(settings: EmulatorSettings) -> None:
    broken = dataclasses.replace(settings, max_jobs=1000)
    with pytest.raises(ServiceError, match=r"ended with status code 2\. Its log ends with:\n(.|\n)*--max-jobs"):
        emulator.start_emulator(broken, ignore)


@pytest.fixture
def port() -> int:
    return free_port()


@pytest.fixture
def other(image: str, engine: docker.DockerClient, port: int) -> Iterator[Container]:
    """Another emulator, made as the documentation says, on the engine's default network; not yet started."""
    made = engine.containers.create(
        image,
        ports={"7380/tcp": ("127.0.0.1", port)},
        volumes={"/var/run/docker.sock": {"bind": "/var/run/docker.sock", "mode": "rw"}},
    )
    yield made
    made.remove(force=True, v=True)


def asked_from(engine: docker.DockerClient, network: str, *urls: str) -> list[int]:
    """Return how addresses answer a container on a network, as a step of a build is on the default one."""
    command = ["python", "-c", ASKING, *urls]
    return list(json.loads(engine.containers.run(BASE, command, network=network, remove=True)))


def address_on(container: Container, network: str) -> str:
    container.reload()
    return str(container.attrs["NetworkSettings"]["Networks"][network]["IPAddress"])


@pytest.mark.full
def test_containers_reach_azures_services_alone(
    settings: EmulatorSettings, engine: docker.DockerClient, other: Container, port: int, tmp_path: Path
) -> None:
    """Jobs, by their own network and by the proxy through another emulator, and steps of builds."""
    info = emulator.start_emulator(settings, ignore)
    engine.networks.get(settings.network).connect(other)
    other.start()
    started = dataclasses.replace(settings, port=port)
    deadline = time.monotonic() + 300
    while read_problems(started) and time.monotonic() < deadline:
        time.sleep(0.1)
    # The published ports' machine has everything.
    assert emulator_info(started) is not None
    bridge = address_on(other, "bridge")
    urls = [f"http://{bridge}:{path}" for path in ("7380/_emulator/info", "7380/ui/", "7381/v2/_catalog")]
    assert asked_from(engine, "bridge", *urls) == [403, 403, 401]

    # This one's own network has nothing but what its owner puts there.
    own = f"http://{address_on(engine.containers.get(settings.name), settings.network)}"
    name = f"http://{settings.name}:7380/_emulator/info"
    assert asked_from(engine, settings.network, f"{own}:7380/_emulator/info", f"{own}:7381/v2/", name) == [
        200,
        200,
        403,
    ]

    variables = client_environment(info, os.environ, cache=tmp_path)
    beside = f"{address_on(other, settings.network)}:7380"
    with emulator_client.signed_in(variables) as session:
        described = request_admin(settings, "info")
        assert described is not None
        seen = reached(session, described[1], registry_port=INSIDE_REGISTRY_PORT, other=beside)
    assert seen == WANTED
    assert emulator_info(settings) == info
