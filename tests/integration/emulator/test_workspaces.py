"""Several workspaces of one emulator, by the unmodified SDK; the plugin of pytest."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import requests

from aml_train.local.lifecycle import emulator_status, find_emulator, start_emulator
from aml_train.local.settings import EmulatorSettings
from tests.support.emulator_process import Emulator, instant_emulator

pytestmark = pytest.mark.full


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with instant_emulator(tmp_path_factory.mktemp("workspaces")) as service:
        yield service


def create(emulator: Emulator, name: str) -> dict[str, Any]:
    answer = emulator.admin("POST", f"workspaces?name={name}")
    answer.raise_for_status()
    made: dict[str, Any] = answer.json()
    return made


def test_a_plain_process_is_found_and_not_started_again(emulator: Emulator) -> None:
    settings = EmulatorSettings(name="aml-emulator-none", port=emulator.port, registry_port=emulator.registry_port)
    found = find_emulator(settings)
    assert found is not None
    assert emulator_status(settings)["state"] == "running"
    assert start_emulator(settings, lambda event: pytest.fail(str(event))) == found


def test_two_workspaces_know_nothing_of_each_other(emulator: Emulator) -> None:
    names = ("team-a", "team-b")
    for name in names:
        create(emulator, name)
    with ThreadPoolExecutor(2) as both:
        use = lambda name: emulator.client("use", script="workspace_steps.py", workspace=name)  # noqa: E731
        seen = dict(zip(names, both.map(use, names), strict=True))
    for name in names:
        assert seen[name] == {
            "status": "Completed",
            "log": f"in {name}\n",
            "data": ["digits:1"],
            "place": True,
            "jobs": ["train"],
            "workspaces": ["local", *names],
            "metrics": {"loss": float(len(name))},
        }
    assert emulator.admin("GET", "status").json()["jobs"] == {}
    assert emulator.admin("GET", "status?workspace=team-a").json()["jobs"] == {"Completed": 1}


def test_they_are_there_after_a_restart_and_gone_after_their_end(emulator: Emulator) -> None:
    create(emulator, "kept")
    emulator.client("use", script="workspace_steps.py", workspace="kept")
    (folder,) = (emulator.folder / "data" / "workspaces").glob(workspace_id(emulator, "kept"))
    emulator.stop()
    emulator.start()
    assert emulator.admin("GET", "status?workspace=kept").json()["jobs"] == {"Completed": 1}
    page = requests.get(
        f"http://127.0.0.1:{emulator.port}/ui/", headers={"Host": f"kept.localhost:{emulator.port}"}, timeout=60
    )
    assert page.status_code == 200
    assert "train" in page.text
    assert emulator.admin("DELETE", "workspaces?name=kept").status_code == 200
    assert not folder.exists()
    assert emulator.admin("GET", "status?workspace=kept").status_code == 404


def workspace_id(emulator: Emulator, name: str) -> str:
    found = emulator.admin("GET", "workspaces").json()["workspaces"]
    return next(str(one["id"]) for one in found if one["name"] == name)


PROJECT = """
import os
from azure.ai.ml import MLClient
from azure.ai.ml.entities import Data
from azure.identity import DefaultAzureCredential
import pytest

@pytest.mark.parametrize("number", range(2))
def test_data_are_registered(aml_workspace, tmp_path, number):
    client = MLClient.from_config(DefaultAzureCredential(), path=str(aml_workspace.write_config(tmp_path)))
    assert not list(client.data.list())
    (tmp_path / "a.txt").write_text("a")
    client.data.create_or_update(Data(name="a", path=str(tmp_path / "a.txt"), type="uri_file"))
    assert [one.name for one in client.data.list()] == ["a"]

def test_nothing_is_left(monkeypatch):
    assert "AML_WORKSPACE" not in os.environ
"""


def test_the_plugin_gives_each_test_a_workspace(emulator: Emulator, tmp_path: Path) -> None:
    (tmp_path / "test_project.py").write_text(PROJECT)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    before = len(emulator.admin("GET", "workspaces").json()["workspaces"])
    kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env={**kept, "AML_TRAIN_EMULATOR_PORT": str(emulator.port), "XDG_CACHE_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "3 passed" in done.stdout
    assert len(emulator.admin("GET", "workspaces").json()["workspaces"]) == before
