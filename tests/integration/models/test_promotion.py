"""Promotion on the local AzureML, by the real clients: the same artefact, an intact lineage, one winner, and a way back."""

from __future__ import annotations

import json
import sqlite3
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.emulator_process import Emulator

RACERS = 20
#: The jobs are of no repository.
FOREIGN = ("--allow-foreign", "--reason", "of no repository")


class Workspace:
    """A workspace with the model ``digits``: versions 1 to 22 of a good job, and 23 of a bad one."""

    def __init__(self, emulator: Emulator, folder: Path) -> None:
        self.emulator, self.folder = emulator, folder
        self.made = self.step("prepare", port=emulator.registry_port, versions=RACERS + 2, folder=str(folder))
        (folder / "aml-train.yml").write_text(
            "job: job.yml\ntarget: azure\nmodel: {name: digits, path: outputs/m0}\n"
            "promote: {production: {gate: {acc: '>= baseline'}, bootstrap: true}}\n"
        )

    def run(self, *argv: str, code: int = 0) -> subprocess.CompletedProcess[str]:
        return self.emulator.python(self.folder, *argv, code=code, AML_TRAIN_ACTOR="ann")

    def step(self, name: str, *, code: int = 0, **arguments: Any) -> Any:
        worker = str(Path(__file__).with_name("promotion_worker.py"))
        done = self.run(worker, name, json.dumps(arguments), code=code)
        return None if code else json.loads(done.stdout.splitlines()[-1])

    def versions(self) -> dict[str, Any]:
        """Return what the service's database has of each version of the model."""
        database = sqlite3.connect(f"file:{self.emulator.folder / 'data' / 'store.db'}?mode=ro", uri=True)
        try:
            query = "SELECT version, properties FROM versions WHERE kind = 'models' AND name = 'digits'"
            return {version: json.loads(properties) for version, properties in database.execute(query)}
        finally:
            database.close()

    def aml_train(self, *arguments: str, code: int = 0) -> str:
        done = self.run("-m", "aml_train", *arguments, code=code)
        return done.stdout + done.stderr


@pytest.fixture(scope="module")
def place(instant: Emulator, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return Workspace(instant, tmp_path_factory.mktemp("promotion"))


def in_stage(versions: dict[str, Any], stage: str) -> list[str]:
    return sorted(version for version, one in versions.items() if one["tags"].get("aml-train.stage") == stage)


@pytest.mark.full
def test_of_twenty_promoters_one_wins_and_what_a_killed_one_began_is_finished(place: Workspace) -> None:
    before = place.versions()
    dry = place.aml_train("promote", "digits:1", "--to", "production", "--dry-run", *FOREIGN)
    assert "digits version 1 would be in production. Nothing was changed." in dry
    assert place.versions() == before
    first = place.aml_train(
        "promote", "digits:1", "--to", "production", "--allow-foreign", "--reason", "the first", "--yes"
    )
    assert "digits version 1 is in production, the first one." in first

    racers = [str(number) for number in range(2, 2 + RACERS)]
    ended = place.step("race", versions=racers)
    winners = [version for version, code, _, _ in ended if code == 0]
    assert len(winners) == 1, ended
    (winner,) = winners
    lost = [(code, status, message) for version, code, status, message in ended if version != winner]
    assert {(code, status) for code, status, _ in lost} == {(6, "gate-failed")}
    for _, _, message in lost:
        assert message.startswith(f"digits: version {winner} is in production by now (promote by racer {winner}, ")
        assert message.endswith("and not version 1, as was decided against.")
    after = place.versions()
    assert (in_stage(after, "production"), in_stage(after, "archived")) == ([winner], ["1"])
    # The same artefact: nothing but tags differs from what was registered. A change writes back the stage that every version shows.
    unstaged = {"tags": None, "stage": "Development"}
    assert {name: {**one, **unstaged} for name, one in after.items()} == {
        name: {"stage": "Development", **one, "tags": None} for name, one in before.items()
    }
    assert {one.get("stage") for one in after.values()} <= {None, "Development"}
    assert after["1"]["tags"]["aml-train.replaced-by"] == winner

    worse = place.aml_train("promote", "digits:23", "--to", "production", "--yes", *FOREIGN, code=6)
    assert f"acc = 0.5, wanted >= 0.9 (that of digits version {winner}" in worse

    # Killed with the new one tagged, the old one not, and the lock held.
    place.step("killed", version="22", code=-9)
    assert in_stage(place.versions(), "production") == sorted([winner, "22"])
    told = place.aml_train(
        "rollback", "digits", "--to", "production", "--yes", "--events", str(place.folder / "events.jsonl")
    )
    assert "Finished the promote of version 22 to production, which the late one began" in told
    assert f"digits version {winner} is in production again; version 22 is archived." in told
    last = json.loads((place.folder / "events.jsonl").read_text().splitlines()[-1])
    assert (last["status"], last["exit_code"]) == ("rolled-back", 0)
    states = dict(kinds(last["facts"]["lineage"]))
    assert states == dict.fromkeys(("model", "files", "job", "environment", "image", "tests"), "verified") | {
        "commit": "recorded"
    }
    end = place.step("sdk")
    assert end[winner]["path"] == before[winner]["modelUri"]
    assert (in_stage(end, "production"), in_stage(end, "archived")) == ([winner], ["1", "22"])

    listed = place.aml_train("model", "list", "--versions", "--stage", "production", "--json")
    assert [(one["version"], one["gate"]) for one in map(json.loads, listed.splitlines())] == [(winner, "none")]
    traced = place.aml_train("model", "lineage", "digits@production")
    assert f"└─ ✓ job         {place.made['jobs'][0]}" in traced
    assert f"✓ image       {place.made['digest']}  (in " in traced
    told = json.loads(place.aml_train("model", "show", f"digits:{winner}", "--json"))
    assert [one["what"] for one in told["promotions"]] == [
        "promote to production",
        "archived from production",
        "rollback to production",
    ]


def kinds(step: dict[str, Any]) -> Iterator[tuple[str, str]]:
    yield step["kind"], step["state"]
    for part in step["parts"]:
        yield from kinds(part)


@pytest.mark.full
def test_the_storage_refuses_whoever_has_lost_the_lock(place: Workspace) -> None:
    told = place.step("holding")
    assert told["content"] == "x"
    busy, foreign, renewing, writing = told["told"]
    assert busy.startswith("Another promotion of other has held https://")
    assert foreign == "LeaseIdMissing"
    assert renewing.startswith("Renewing the lock of the record of other's promotions in https://")
    assert "the lock was lost" in renewing
    assert "the lock was lost" in writing


@pytest.mark.full
def test_registrations_at_once_make_one_version_of_each_place(place: Workspace) -> None:
    done = place.step("register_race", job=place.made["jobs"][0], same=3, others=3)
    by_place = {
        artifact: {version for one, version in done["ended"] if one == artifact} for artifact, _ in done["ended"]
    }
    assert all(len(versions) == 1 for versions in by_place.values()), done
    assert sorted(done["found"]) == ["1", "2", "3", "4"]
    assert {next(iter(versions)): artifact for artifact, versions in by_place.items()} == {
        version: source.rpartition("/paths/")[2] for version, source in done["found"].items()
    }
