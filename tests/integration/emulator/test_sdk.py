"""The unmodified azure-ai-ml, azure-identity and azureml-mlflow against a real emulator with everything real."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import docker
import pytest
import requests

from aml_emulator.executor.shared import RUN_LABEL
from tests import contracts
from tests.support import emulator_client
from tests.support.emulator_process import Emulator, running

SCOPE = "azureml://subscriptions/"


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with running(Emulator(tmp_path_factory.mktemp("emulator"), record=True)) as service:
        yield service


@pytest.mark.full
def test_the_workspace_can_be_looked_around_in(emulator: Emulator) -> None:
    seen = emulator.client("workspace")
    assert seen["workspace"] == "eastus"
    assert seen["listed"] == ["local"]
    assert seen["computes"] == ["local-cluster"]
    assert seen["made"] == ["cpu2", 2]
    assert max(seen["pauses"], default=0) < 20, seen["pauses"]  # azure-ai-ml itself would look again after 30
    assert "computes/nothing" in seen["missing"]
    assert (seen["version"], seen["latest"], seen["environments"]) == ("2", "2", ["1", "2"])
    assert seen["datastores"] == [
        "workspaceartifactstore",
        "workspaceblobstore",
        "workspacefilestore",
        "workspaceworkingdirectory",
    ]
    assert seen["default"] == "workspaceblobstore"
    assert seen["after"] == ["local-cluster"]


def test_a_job_is_submitted_followed_downloaded_and_registered(emulator: Emulator) -> None:
    seen = emulator.client("run")
    assert seen["seen"][-1] == "Completed"
    assert "hello from a job rate 0.25 data ['a.txt']" in seen["streamed"]
    assert seen["files"] == [
        "artifacts/outputs/result.txt",
        "artifacts/user_logs/std_log.txt",
        "models/thing/model/model.txt",
        "named-outputs/model/model.txt",
    ]
    assert seen["again"] == ["Completed", {"commit": "abc", "again": "yes"}]
    assert "A job with this name already exists" in seen["conflict"]
    assert "its command cannot be changed" in seen["conflict"]
    version, tags, path = seen["model"]
    assert (version, tags) == ("1", {"a": "b", "c": "d"})
    assert path.startswith(SCOPE)
    assert path.endswith(f"/datastores/workspaceblobstore/paths/azureml/{seen['name']}/model")
    assert (seen["second"], seen["models"]) == ("2", ["1"])
    assert seen["listed"] == [seen["name"]]


@pytest.mark.full
def test_what_was_there_before_a_restart_is_there_after_it(emulator: Emulator, engine: docker.DockerClient) -> None:
    tracked = emulator.client("track")
    assert (tracked["status"], tracked["name"]) == ("FINISHED", "first")
    assert tracked["params"] == {"rate": "0.1", "depth": "3"}
    assert tracked["metrics"] == {"loss": "0.2", "nan": "nan", "inf": "inf", "low": "-inf"}
    assert (tracked["tags"]["kind"], tracked["tags"]["mood"]) == ("test", "good")
    assert tracked["history"] == [[step, 1.0 / (step + 1)] for step in range(5)]
    assert tracked["searched"] == [tracked["run"]]
    assert (tracked["artifacts"], tracked["note"]) == (["notes"], "a note")
    assert tracked["registered"] == ["1", tracked["run"], {"x": "y"}]
    assert tracked["parent"] == tracked["run"]
    left = emulator.client("begin")
    emulator.stop()
    emulator.start()
    streaming = emulator.folder / "streaming"
    with ThreadPoolExecutor() as pool:
        recalled = pool.submit(
            emulator.client, "recall", job=left["name"], run=tracked["run"], streaming=str(streaming)
        )
        # azure-ai-ml streams nothing of a job that has ended already.
        while not (streaming.exists() or recalled.done()):
            time.sleep(0.1)
        for container in engine.containers.list(filters={"label": f"{RUN_LABEL}={left['name']}"}):
            assert container.exec_run(["touch", "/tmp/go"]).exit_code == 0
        seen = recalled.result()
    assert seen["status"] == "Completed"
    assert [line for line in seen["streamed"].splitlines() if line.startswith("line ")] == [
        f"line {number}" for number in range(1, 13)
    ]
    assert seen["model"] == {"a": "b", "c": "d"}
    assert len(seen["history"]) == 5


@pytest.mark.full
def test_every_answer_was_as_the_clients_declare_it(emulator: Emulator) -> None:
    """After the tests above, whose clients asked for all that is checked here."""
    wrong, beyond, checked, _ = contracts.check(emulator.recorded())
    assert wrong == {}
    reasons = contracts.undeclared()
    assert sorted(beyond - reasons.keys()) == []
    assert len(checked) >= 30, sorted(checked)


def test_the_proxy_keeps_real_clouds_out_and_tokens_are_checked(emulator: Emulator) -> None:
    environment = emulator.environment()
    with requests.Session() as session:
        session.trust_env = False
        session.proxies = {"https": environment["HTTPS_PROXY"], "http": environment["HTTPS_PROXY"]}
        session.verify = environment["REQUESTS_CA_BUNDLE"]
        with pytest.raises(requests.exceptions.ProxyError, match=r"403.*other\.blob\.core\.windows\.net"):
            session.get("https://other.blob.core.windows.net/", timeout=emulator_client.SECONDS)
        assert session.get("http://169.254.169.254/metadata", timeout=emulator_client.SECONDS).status_code == 403
        path = f"/subscriptions/{emulator.info['subscription_id']}/resourceGroups/aml-local"
        for header in ({}, {"Authorization": "Bearer x.y.z"}):
            answer = session.get(
                f"https://management.azure.com{path}", headers=header, timeout=emulator_client.SECONDS
            )
            assert answer.status_code == 401
            assert answer.json()["error"]["code"].startswith(("AuthenticationFailed", "InvalidAuthentication"))
        answer = session.get("https://amllocal.azurecr.io/v2/", timeout=emulator_client.SECONDS)
        assert (answer.status_code, answer.headers["Docker-Distribution-Api-Version"]) == (401, "registry/2.0")
        assert answer.headers["WWW-Authenticate"].startswith(
            'Bearer realm="https://amllocal.azurecr.io/oauth2/token"'
        )


def refused_to_start(service: Emulator, words: str) -> None:
    """Start a service that cannot, and check what it says."""
    with pytest.raises(RuntimeError, match=words):
        service.start()
    assert service.process is not None
    assert service.process.wait(timeout=emulator_client.SECONDS) == 1
    assert service.process.stdout is not None
    service.process.stdout.close()


@pytest.mark.full
def test_what_cannot_start_says_why(emulator: Emulator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("second", "port", "engine"):
        (tmp_path / name).mkdir()
    (tmp_path / "second" / "data").symlink_to(emulator.folder / "data")
    refused_to_start(Emulator(tmp_path / "second"), "in use by another emulator")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        service = Emulator(tmp_path / "port")
        service.port = taken.getsockname()[1]
        refused_to_start(service, "Address already in use")
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    refused_to_start(Emulator(tmp_path / "engine"), "the container engine does not answer")


@pytest.mark.full
def test_a_child_that_dies_ends_the_service_and_is_told(tmp_path: Path) -> None:
    service = Emulator(tmp_path)
    service.start()
    assert service.process is not None
    assert service.process.stdout is not None
    registry = subprocess.run(
        ["pgrep", "-P", str(service.process.pid), "-f", "registry.json"], capture_output=True, text=True, check=True
    )
    os.kill(int(registry.stdout), signal.SIGKILL)
    assert service.process.wait(timeout=emulator_client.SECONDS) == 1
    service.process.stdout.close()
    assert "the registry ended unexpectedly with code -9" in service.log.read_text()
