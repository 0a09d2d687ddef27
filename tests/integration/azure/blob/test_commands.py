"""``aml-train data`` as people call it, against real storage: every kind of address, credentials and refusal."""

from __future__ import annotations

import json
import os
import re
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import generate_container_sas

from tests.integration.azure.blob.two_targets import TwoTargets
from tests.support.emulator_client import signed_in

STORE = "azureml://datastores/workspaceblobstore/paths"


@pytest.fixture(scope="module")
def pictures(two: TwoTargets) -> Path:
    folder = two.folder / "pictures"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "one.png").write_bytes(b"one")
    (folder / "cats" / "söme näme.png").write_bytes(b"two")
    (folder / "dogs.csv").write_bytes(b"three")
    (folder / "large.bin").write_bytes(os.urandom(70_000_000))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.full
def test_an_asset_goes_up_is_listed_and_comes_down(two: TwoTargets, pictures: Path) -> None:
    assert "workspaceblobstore" in two.run("ls")
    sent = two.run("upload", "pictures", "--name", "pictures")
    assert re.search(r"sent 4 files \(70\.0 MB\)", sent)
    assert sent.splitlines()[1:] == [f"{STORE}/data/pictures/1/", "azureml:pictures:1"]
    listed = [json.loads(line) for line in two.run("ls", "-r", "--json", "azureml:pictures@latest").splitlines()]
    assert [one["name"] for one in listed] == ["cats/one.png", "cats/söme näme.png", "dogs.csv", "large.bin"]
    assert listed[0]["md5"] == "f97c5d29941bfb1b2fdab0874906ab82"
    assert "cats/" in two.run("ls", f"{STORE}/data/pictures/1")
    assert two.run("ls", f"{STORE}/data/**/*.csv").split()[-1] == "pictures/1/dogs.csv"

    two.run("download", "azureml:pictures:1", "down")
    assert files(two.folder / "down") == files(pictures)
    again = two.run("download", "azureml:pictures:1", "down")
    assert "received 0 files (0 B)" in again
    assert "4 were there already" in again

    taken = two.run("upload", "pictures", "--name", "pictures", "--version", "1", code=2)
    assert "pictures:1 is registered already" in taken
    assert two.run("ls", "--target", "azure", f"{STORE}/", code=0) == ""
    assert "There is nothing at" in two.run("ls", f"{STORE}/nowhere", code=8)


@pytest.mark.full
def test_data_are_copied_and_deleted_after_a_question(two: TwoTargets, pictures: Path) -> None:
    two.run("upload", "pictures", f"{STORE}/old")
    assert "copied 4 files (70.0 MB)" in two.run("cp", f"{STORE}/old", f"{STORE}/new/")
    two.run("download", f"{STORE}/new", "new")
    assert files(two.folder / "new") == files(pictures)
    assert "is a folder: nothing was deleted" in two.run("rm", "-y", f"{STORE}/old", code=2)
    assert "only paths in a datastore" in two.run("rm", "-y", "azureml:pictures:1", code=2)
    assert "Delete 4 files (70.0 MB)" in two.run("rm", "-r", f"{STORE}/old", code=7)
    two.run("rm", "-y", f"{STORE}/old/*.csv")
    assert "deleted 3 files" in two.run("rm", "-r", "-y", f"{STORE}/old")
    assert "There is nothing at" in two.run("ls", f"{STORE}/old", code=8)


@pytest.mark.full
def test_every_kind_of_credentials_serves_and_none_is_told(two: TwoTargets, pictures: Path) -> None:
    identity = json.loads((two.local.folder / "data" / "identity.json").read_text())
    account, key = identity["storage_account"], identity["storage_key"]
    sas = generate_container_sas(
        account, "azureml", account_key=key, permission="racwdl", expiry=datetime.now(UTC) + timedelta(hours=1)
    )
    expired = generate_container_sas(
        account, "azureml", account_key=key, permission="rl", expiry=datetime.now(UTC) - timedelta(hours=1)
    )
    credentials = {
        "bykey": {"credentialsType": "AccountKey", "secrets": {"secretsType": "AccountKey", "key": key}},
        "bysas": {"credentialsType": "Sas", "secrets": {"secretsType": "Sas", "sasToken": sas}},
        "byidentity": {"credentialsType": "None"},
        "expired": {"credentialsType": "Sas", "secrets": {"secretsType": "Sas", "sasToken": expired}},
    }
    for name, given in credentials.items():
        _register(two, name, "azureml", given)
    _register(two, "nowhere", "not-there", credentials["bykey"])

    def there_and_back(name: str) -> None:
        at = f"azureml://datastores/{name}/paths/{name}"
        assert "sent 4 files" in two.run("upload", "pictures", at)
        two.run("download", at, name)
        assert files(two.folder / name) == files(pictures)

    with ThreadPoolExecutor() as pool:
        list(pool.map(there_and_back, ("bykey", "bysas", "byidentity")))
    for name, words in (("expired", "the storage answered 403"), ("nowhere", "ContainerNotFound")):
        told = two.run("ls", f"azureml://datastores/{name}/paths/x", code=8)
        assert words in told
        assert "sig=" not in told
    assert "There is no datastore 'other'" in two.run("ls", "azureml://datastores/other/paths/", code=2)
    assert "the target `elsewhere` is not configured" in two.run("ls", "--target", "elsewhere", "azureml:x", code=2)


def _register(two: TwoTargets, name: str, container: str, credentials: object) -> None:
    info, environment = two.local.info, two.local.environment()
    with signed_in(environment) as session:
        answer = session.put(
            f"https://management.azure.com/subscriptions/{info['subscription_id']}/resourceGroups/{info['resource_group']}"
            f"/providers/Microsoft.MachineLearningServices/workspaces/{info['workspace']}/datastores/{name}",
            params={"api-version": "2024-10-01-preview", "skipValidation": "true"},
            json={
                "properties": {
                    "datastoreType": "AzureBlob",
                    "accountName": info["storage_account"],
                    "containerName": container,
                    "credentials": credentials,
                }
            },
            timeout=60,
        )
        assert answer.status_code in (200, 201), answer.text
