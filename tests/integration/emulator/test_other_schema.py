"""A workspace whose state is another version's: the emulator works without it, and says what is wrong."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import requests

from tests.support.emulator_client import Client
from tests.support.emulator_process import executing_by

SECONDS = 300


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
