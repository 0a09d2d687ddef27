"""State that was damaged between two lives of the emulator.

With the first workspace's it does not start and says what is wrong; without another workspace's it works.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
import requests

from tests.support.emulator_client import Client
from tests.support.emulator_process import ROOT, Emulator, azurite, executing_by

SECONDS = 300


def _start(folder: Path) -> subprocess.CompletedProcess[str]:
    argv = [sys.executable, "-m", "tests.support.instant_emulator", "serve", "--data", str(folder / "data")]
    return subprocess.run(
        [*argv, "--port", "0", "--registry-port", "0", "--azurite", azurite()],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )


@pytest.fixture(scope="module")
def lived(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an emulator that was started, ended, started again and ended again."""
    folder = tmp_path_factory.mktemp("emulator")
    emulator = Emulator(
        folder,
        command=("-m", "tests.support.instant_emulator"),
        environment={"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
    )
    for _ in range(2):
        emulator.start()
        assert emulator.admin("GET", "health").json() == {"status": "ready"}
        emulator.stop()
    return folder


def _emptied(path: Path) -> None:
    os.truncate(path, 0)


def _halved(path: Path) -> None:
    os.truncate(path, path.stat().st_size // 2)


def _numbered(path: Path) -> None:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version=2")


@pytest.mark.parametrize(
    ("name", "damaged", "said"),
    [
        ("blobs/__azurite_db_blob__.json", _emptied, "is empty: the blobs that it listed would be lost"),
        ("blobs/__azurite_db_blob_extent__.json", _halved, "is cut off or overwritten"),
        ("store.db", _halved, "is truncated"),
        ("store.db", _emptied, "is empty"),
        ("store.db", _numbered, "has schema 2, and this local AzureML knows 1"),
    ],
)
def test_it_does_not_start_on_damaged_state(
    lived: Path, name: str, damaged: Callable[[Path], None], said: str
) -> None:
    path = lived / "data" / name
    whole = path.read_bytes()
    damaged(path)
    try:
        done = _start(lived)
    finally:
        path.write_bytes(whole)
    assert done.returncode != 0
    assert f"{path} {said}" in done.stderr
    assert "aml-train emulator reset" in done.stderr


def test_it_works_without_another_workspace_that_is_damaged(tmp_path: Path) -> None:
    with executing_by("tests.support.instant_emulator", tmp_path) as emulator:
        emulator.admin("POST", "workspaces?name=team").raise_for_status()
        info = emulator.admin("GET", "info?workspace=team").json()
        team = Client(emulator.environment(), info)
        submitted = _submit(team, info["compute"])
        assert submitted.status_code == 201, submitted.text
        (database,) = (tmp_path / "data/workspaces").glob("*/store.db")
        emulator.stop()
        with sqlite3.connect(database) as connection:
            connection.execute("UPDATE runs SET status = 'Running'")
            connection.execute("PRAGMA user_version=99")
        connection.close()
        emulator.start()
        assert emulator.process is not None
        # Its job has not ended: the service opens it without being asked.
        while emulator.process.poll() is None and "workspace team cannot be opened" not in emulator.log.read_text():
            time.sleep(0.05)
        assert emulator.admin("GET", "health").json() == {"status": "ready"}
        first = Client(emulator.environment(), emulator.info)
        assert first.ask("GET", first.arm("jobs")).status_code == 200
        refused = team.ask("GET", team.arm("jobs"))
        error = refused.json()["error"]
        assert (refused.status_code, error["code"]) == (500, "StateDamaged")
        assert f"{database} has schema 99" in error["message"]
        assert "aml-train emulator workspace delete --force team" in error["message"]
        page = requests.get(
            f"http://127.0.0.1:{emulator.port}/ui/",
            headers={"Host": f"team.localhost:{emulator.port}"},
            proxies={"http": ""},
            timeout=SECONDS,
        )
        assert page.status_code == 500
        assert "has schema 99" in page.text
        assert emulator.admin("DELETE", "workspaces?name=team").status_code == 409
        assert database.exists()
        emulator.admin("DELETE", "workspaces?name=team&force=1").raise_for_status()
        assert not database.parent.exists()
        emulator.admin("POST", "workspaces?name=team").raise_for_status()
        assert emulator.admin("GET", "status?workspace=team").json()["jobs"] == {}
        for client in (first, team):
            client.close()


def _submit(client: Client, compute: str) -> requests.Response:
    """Submit a job, which ends at once."""
    client.ask("PUT", client.arm("environments/e/versions/1"), json={"properties": {"image": "python:3.11"}})
    job = {
        "jobType": "Command",
        "command": "say hello",
        "environmentId": f"{client.scope}/environments/e/versions/1",
        "computeId": f"{client.scope}/computes/{compute}",
    }
    return client.ask("PUT", client.arm("jobs/done"), json={"properties": job})
