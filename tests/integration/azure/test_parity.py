"""A recording of the local AzureML in Azure's place, under another identity, and the comparison with a default one."""

from __future__ import annotations

import base64
import json
import os
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aml_emulator.identity import Identity
from aml_train.azure.http import HttpWay
from aml_train.azure.parity.conversation import Raw, Skipped
from aml_train.azure.parity.file import Recording, read_recording, write_recording
from aml_train.azure.parity.recording import (
    Recorded,
    Taken,
    clean_recording,
    new_recording_id,
    record_workspace,
    scrubbed,
    take_workspace,
)
from aml_train.core.clock import SYSTEM_CLOCK, Clock
from parity.differences import Difference, compare
from tests.support.emulator_process import ROOT, Emulator, executing_by
from tests.support.parity_deviations import DEVIATIONS, SECOND_LOOK, DeviatingSession, Deviation, deviate
from tests.support.parity_place import place_of

PROGRAM = "tests.support.parity_emulator"
PACE = 0.05
SECONDS = 600
CONTOSO = Identity(
    instance="c0ffee12",
    tenant_id=str(uuid.UUID(int=0xA11CE << 80 | 0x1234)),
    client_id=str(uuid.UUID(int=0xB0B << 88 | 0x5678)),
    client_secret="s3cret-Of-Contoso~Vision.2026",
    object_id=str(uuid.UUID(int=0xC0DE << 80 | 0x9ABC)),
    token_secret="5ec7e7" * 10 + "abcd",
    subscription_id=str(uuid.UUID(int=0x5AB5 << 90 | 0xDEF)),
    resource_group="contoso-vision-rg",
    workspace="local",
    workspace_id=str(uuid.UUID(int=0x3A5E << 85 | 0x777)),
    location="westeurope",
    compute="contoso-small-cpus",
    login_server="contosovision.azurecr.io",
    storage_account="contosovisionstore",
    storage_key=base64.b64encode(bytes(range(64))).decode(),
)
"""Another identity than that of a new emulator. The workspace has the name of a common word, ``local``."""


@pytest.fixture(scope="module")
def azure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    folder = tmp_path_factory.mktemp("contoso")
    (folder / "data").mkdir()
    (folder / "data" / "identity.json").write_text(json.dumps(asdict(CONTOSO)))
    service = Emulator(
        folder,
        command=("-m", PROGRAM),
        environment={
            "PYTHONPATH": os.pathsep.join((str(ROOT), str(ROOT / "runner"))),
            "AML_EMULATOR_LOCATION": CONTOSO.location,
        },
    )
    service.start()
    yield service
    service.stop()


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    with executing_by(PROGRAM, tmp_path_factory.mktemp("default")) as service:
        yield service


@pytest.fixture(scope="module")
def recorded(azure: Emulator) -> Recorded:
    return record_workspace(place_of(azure), pace=PACE, with_sdk=False)


@pytest.fixture(scope="module")
def taken(local: Emulator) -> Taken:
    return take(local)


def take(emulator: Emulator, session: DeviatingSession | None = None) -> Taken:
    place = place_of(emulator)
    clock = SYSTEM_CLOCK
    if session is not None:
        prepared = place.way.session()
        session.proxies, session.verify, session.trust_env = prepared.proxies, prepared.verify, False
        clock = Clock(now=lambda: time.monotonic() + session.late, sleep=time.sleep)
    return take_workspace(
        place,
        id_=new_recording_id(),
        report=lambda _text: None,
        session=session,
        clock=clock,
        pace=PACE,
        with_sdk=False,
    )


def test_a_recording_takes_every_step_and_leaves_nothing(azure: Emulator, recorded: Recorded) -> None:
    skipped = [(one["step"], one["why"]) for one in recorded.recording.lines if one["kind"] == "skipped"]
    assert {why for _, why in skipped} == {"without azure-ai-ml"}, skipped
    assert len(recorded.recording.exchanges()) >= 130
    assert {one.result for one in recorded.removals} == {"removed"}, recorded.removals
    assert {"job", "cancelled job", "run", "environment", "datastore"} <= {one.name for one in recorded.removals}
    assert clean_recording(place_of(azure), recorded.id, pace=PACE) == ()


def test_no_id_and_no_secret_of_the_workspace_is_in_the_file(
    azure: Emulator, recorded: Recorded, tmp_path: Path
) -> None:
    write_recording(recorded.recording, tmp_path / "recording.jsonl")
    text = (tmp_path / "recording.jsonl").read_text().lower()
    assert text.count("<name:workspace>") > 100
    for name, value in secrets_of(azure).items():
        for spelling in (value, quote(value, safe=""), base64.b64encode(value.encode()).decode().rstrip("=")):
            assert not re.search(rf"(?<![a-z0-9]){re.escape(spelling.lower())}(?![a-z0-9])", text), name
    assert recorded.id not in text
    assert recorded.id.removeprefix("parity-") not in text
    # Nothing of a form that ids have, whichever they are.
    assert not re.search(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}", text)
    assert not re.search(r"eyj[a-z0-9_-]{8}|\d\d:\d\d:\d\d|@", text)


def secrets_of(azure: Emulator) -> dict[str, str]:
    """Return everything that is someone's in an emulator: its identity, what follows from it, and its files."""
    identity = CONTOSO
    known = {name: value for name, value in asdict(identity).items() if name != "artifact_container"}
    assert known | {"artifact_container": "azureml"} == json.loads((azure.folder / "data/identity.json").read_text())
    known |= {
        "e-mail": identity.person.username,
        "person": identity.person.object_id,
        "api host": identity.api_host,
        "blob host": identity.blob_host,
        "workspace's path": identity.workspace_arm_id,
        "container": identity.blob_container,
        "share": identity.file_share,
        "registry's name": identity.login_server.partition(".")[0],
        "port": f"127.0.0.1:{azure.port}",
        "folder": str(azure.folder),
    }
    # Of the ids without dashes as well, as datastores and services write them.
    return known | {f"{name}, bare": value.replace("-", "") for name, value in known.items() if value.count("-") == 4}


def test_a_default_emulator_has_no_difference(
    azure: Emulator, recorded: Recorded, taken: Taken, local: Emulator
) -> None:
    found = compare(recorded.recording, scrubbed(place_of(local), taken))
    assert found == [], [str(one) for one in found]


def test_fifty_deviations_at_once_are_found_and_nothing_else(recorded: Recorded, local: Emulator) -> None:
    assert len(DEVIATIONS) == 50 == len({one.step for one in DEVIATIONS})
    session = DeviatingSession([*DEVIATIONS, SECOND_LOOK])
    with session:
        deviating = take(local, session)
    assert sorted(set(session.applied)) == sorted(one.step for one in DEVIATIONS)
    found = compare(recorded.recording, scrubbed(place_of(local), deviating))
    assert missed(DEVIATIONS, found) == []
    assert surplus(DEVIATIONS, found) == []


@pytest.mark.full
@pytest.mark.parametrize("deviation", DEVIATIONS, ids=lambda one: f"{one.step}-{one.kind}")
def test_each_deviation_alone_is_found(
    recorded: Recorded, taken: Taken, local: Emulator, deviation: Deviation
) -> None:
    changed: list[tuple[Any, list[Raw] | Skipped]] = [
        (step, [deviate(raw, deviation) for raw in result])
        if step.name == deviation.step and not isinstance(result, Skipped)
        else (step, result)
        for step, result in taken.steps
    ]
    other = Taken(
        conversation=taken.conversation, steps=tuple(changed), outcomes=taken.outcomes, removals=taken.removals
    )
    found = compare(recorded.recording, scrubbed(place_of(local), other))
    assert missed([deviation], found) == []
    assert surplus([deviation], found) == []


def missed(deviations: Any, found: list[Difference]) -> list[str]:
    known = {(one.step, one.place, one.kind) for one in found}
    return [one.step for one in deviations if (one.step, one.place, one.kind) not in known]


def surplus(deviations: Any, found: list[Difference]) -> list[str]:
    """Return what no deviation explains; a key under another name is one that is missing, and one more."""
    places = {(one.step, one.place, one.kind) for one in deviations}
    renamed = {one.step for one in deviations if one.kind == "missing"}
    return [
        str(one)
        for one in found
        if (one.step, one.place, one.kind) not in places and not (one.kind == "extra" and one.step in renamed)
    ]


def command(emulator: Emulator, *arguments: str) -> list[str]:
    info = emulator.info
    names = ("--subscription", info["subscription_id"], "--resource-group", info["resource_group"])
    where = ("--workspace", info["workspace"])
    return [sys.executable, "-m", "aml_train", "parity", "record", *names, *where, *arguments]


def variables(emulator: Emulator) -> dict[str, str]:
    return {**emulator.environment(), "PYTHONPATH": str(ROOT / "runner")}


@pytest.mark.full
def test_the_command_records_with_azure_ai_ml_and_refuses_without_a_confirmation(
    azure: Emulator, tmp_path: Path
) -> None:
    file = tmp_path / "recording.jsonl.gz"
    arguments = ("--compute", CONTOSO.compute, "--output", str(file))
    refused = run(azure, *arguments)
    assert refused.returncode == 2
    assert "pass --yes" in refused.stderr
    done = run(azure, *arguments, "--yes")
    assert done.returncode == 0, done.stderr
    assert "at most 30" in done.stderr
    recording = read_recording(file)
    outcomes = {one["step"]: one["outcome"] for one in recording.lines if one["kind"] == "call"}
    assert outcomes.pop("sdk-job-unknown") == "ResourceNotFoundError"
    assert len(outcomes) == 8
    assert set(outcomes.values()) == {"ok"}, outcomes
    shown = subprocess.run(
        [sys.executable, "-m", "aml_train", "parity", "show", str(file)],
        env=variables(azure),
        capture_output=True,
        text=True,
        check=True,
    )
    assert "parity says hello" in shown.stdout
    assert "contoso" not in shown.stdout.lower() + file.read_bytes().decode(errors="replace").lower()


def run(emulator: Emulator, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        command(emulator, *arguments),
        env=variables(emulator),
        cwd=emulator.folder,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )


@pytest.mark.full
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_an_ended_recording_leaves_nothing_behind(azure: Emulator, number: signal.Signals) -> None:
    """SIGTERM cleans up itself; after SIGKILL the printed command does."""
    id_ = ""
    with subprocess.Popen(
        command(azure, "--compute", CONTOSO.compute, "--yes", "--no-sdk"),
        env=variables(azure),
        cwd=azure.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            id_ = line.rpartition("--clean ")[2].strip() if "--clean" in line else id_
            if "cancelled-submit" in line:
                break
        process.send_signal(number)
        said = process.stderr.read()
        code = process.wait(timeout=SECONDS)
    place = place_of(azure)
    if number == signal.SIGTERM:
        assert code == 7, said
        assert not list(azure.folder.glob("*.jsonl"))
    else:
        assert code == -signal.SIGKILL
        cleaned = run(azure, "--clean", id_)
        assert cleaned.returncode == 0, cleaned.stderr
        assert "cancelled job: removed" in cleaned.stderr
    assert clean_recording(place, id_, pace=PACE) == ()


def test_what_has_the_name_and_not_the_tag_stays(azure: Emulator) -> None:
    place, id_ = place_of(azure), new_recording_id()
    url = (
        f"https://management.azure.com{place.workspace.path}/environments/{id_}-env/versions/1?api-version=2024-10-01"
    )
    with HttpWay(proxy=place.way.proxy, ca_bundle=place.way.ca_bundle).session() as session:
        session.headers["Authorization"] = f"Bearer {place.sign_in.token(place.cloud.scope)}"
        made = session.put(url, json={"properties": {"image": "python:3.11"}}, timeout=60)
        assert made.status_code == 201
        removals = clean_recording(place, id_, pace=PACE)
        assert [(one.name, one.result) for one in removals] == [("environment", "foreign")]
        assert session.get(url, timeout=60).status_code == 200


def test_a_recording_is_the_same_file_after_reading(recorded: Recorded, tmp_path: Path) -> None:
    for name in ("recording.jsonl", "recording.jsonl.gz"):
        write_recording(recorded.recording, tmp_path / name)
        assert read_recording(tmp_path / name) == Recording(
            header=recorded.recording.header, lines=recorded.recording.lines
        )
