"""State of earlier versions of the local AzureML, as their own code left it, is read by today's; scripts/fixtures makes it."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from aml_emulator.store.database import SCHEMA_VERSION
from tests.support.emulator_client import Client
from tests.support.emulator_process import ROOT, Emulator, azurite, executing_by
from tests.support.log_follower import Following
from tests.support.upgrades import FOLDER, GO, SECONDS, WAITING, observe, status_of, unpack

INSTANT = "tests.support.instant_emulator"


def _kept(facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return what must not change: all but the progress of the job that was under way, and what versions add."""
    jobs = {name: dict(job) for name, job in facts["jobs"].items()}
    for field in ("status", "logs"):
        jobs.get(WAITING, {}).pop(field, None)
    runs = {name: run for name, run in facts["runs"].items() if name != WAITING}
    same = ("models", "data", "artifacts", "computes", "instance")
    return {"jobs": jobs, "runs": runs, **{key: facts[key] for key in same}}


#: The oldest and the present one are part of the core.
SCHEMAS = [
    pytest.param(one, marks=() if one in (1, SCHEMA_VERSION) else pytest.mark.full)
    for one in range(1, SCHEMA_VERSION + 1)
]


@pytest.mark.parametrize("schema", SCHEMAS)
def test_state_is_read_and_its_jobs_continue(schema: int, tmp_path: Path) -> None:
    facts = unpack(schema, tmp_path)
    with executing_by(INSTANT, tmp_path) as emulator:
        found = observe(emulator, facts["names"])
        assert _kept(found) == _kept(facts)
        assert set(facts["datastores"]) <= set(found["datastores"])
        _read_by_the_product(emulator, facts)
        if WAITING not in facts["jobs"]:
            return
        client = Client(emulator.environment(), emulator.info)
        url = f"{client.api}/history/v1.0{client.scope}/runs/{WAITING}"
        client.ask("PATCH", url, data=json.dumps({"tags": {GO: "1"}})).raise_for_status()
        end = time.monotonic() + SECONDS
        while (status := status_of(client, WAITING)) != "Completed":
            assert time.monotonic() < end, status
            time.sleep(0.05)
        client.close()
        after = observe(emulator, facts["names"])
    assert after["jobs"][WAITING]["logs"]["user_logs/std_log.txt"].endswith("begun\ndone\n")


def _read_by_the_product(emulator: Emulator, facts: Mapping[str, Any]) -> None:
    """Fail unless today's client finds jobs with their tags, metrics, and models with their stages."""
    service = Following(emulator).service
    stages = {model.version: (model.staged, model.origin) for model in service.models("digits")}
    assert stages == {"1": ("archived", "trained"), "2": ("production", "trained")}
    for name, job in facts["jobs"].items():
        found = service.find(name)
        assert found is not None
        assert found.tags == job["tags"]
        assert service.last_metrics(name) == facts["runs"][name]["last"]
        for metric, history in facts["runs"][name]["metrics"].items():
            assert [[point.step, point.value] for point in service.metric_history(name, metric)] == history


def test_every_schema_has_a_fixture_of_a_version_that_wrote_it() -> None:
    assert {path.name for path in FOLDER.glob("state-*")} == {
        f"state-{number}.tar.xz" for number in range(1, SCHEMA_VERSION + 1)
    }
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < 300_000


def test_a_version_that_is_older_than_the_state_says_so_and_changes_nothing(tmp_path: Path) -> None:
    unpack(SCHEMA_VERSION, tmp_path)
    store = tmp_path / "data" / "store.db"
    with sqlite3.connect(store) as database:
        database.execute(f"PRAGMA user_version={SCHEMA_VERSION + 1}")
    database.close()
    before = store.read_bytes()
    message = _refused(tmp_path)
    assert f"schema {SCHEMA_VERSION + 1}, newer than {SCHEMA_VERSION}" in message
    assert "Start it again with the version of aml-train that wrote it" in message
    assert "aml-train emulator reset" in message
    assert store.read_bytes() == before


def test_the_copy_before_a_migration_brings_the_earlier_version_back(tmp_path: Path) -> None:
    facts = unpack(3, tmp_path)
    with executing_by(INSTANT, tmp_path):
        pass
    data = tmp_path / "data"
    with sqlite3.connect(data / "store.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (SCHEMA_VERSION,)
    database.close()
    for name in ("store.db", "store.db-wal", "store.db-shm"):
        (data / name).unlink(missing_ok=True)
    shutil.copy(data / "store.db.schema-3", data / "store.db")
    with sqlite3.connect(data / "store.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (3,)
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        assert {row[0] for row in database.execute("SELECT id FROM runs")} >= set(facts["names"]["jobs"])
    database.close()


def _refused(folder: Path) -> str:
    """Start the service on the state in *folder*; return what it says when it ends."""
    argv = [sys.executable, "-m", "aml_emulator", "serve", "--data", str(folder / "data"), "--port", "0"]
    done = subprocess.run(
        [*argv, "--azurite", azurite()],
        env={**os.environ, "PYTHONPATH": str(ROOT / "runner")},
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert "Traceback" not in done.stderr
    return done.stderr


def test_emulators_of_the_fixtures_are_not_the_present_one() -> None:
    commits = {path.name: unpack_commit(path) for path in FOLDER.glob("state-*")}
    assert len(set(commits.values())) == len(commits)


def unpack_commit(path: Path) -> str:
    """Return the commit that made a fixture."""
    import tarfile

    with tarfile.open(path) as archive:
        facts = archive.extractfile("facts.json")
        assert facts is not None
        return str(json.load(facts)["commit"])


def test_a_service_of_the_previous_schema_started_and_stopped_twice_is_as_before(tmp_path: Path) -> None:
    facts = unpack(SCHEMA_VERSION - 1, tmp_path)
    emulator = Emulator(
        tmp_path,
        command=("-m", INSTANT),
        environment={"PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner")))},
    )
    for _ in range(2):
        emulator.start()
        found = observe(emulator, facts["names"])
        emulator.stop()
    assert _kept(found) == _kept(facts)
