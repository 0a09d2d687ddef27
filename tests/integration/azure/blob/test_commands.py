"""``aml-train data`` as people call it, against real storage: every kind of address, credentials and refusal."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from azure.storage.blob import generate_container_sas

from tests.support.emulator_client import signed_in
from tests.support.emulator_process import Emulator, running

STORE = "azureml://datastores/workspaceblobstore/paths"


@dataclass(frozen=True, kw_only=True)
class Commands:
    """``aml-train data``, called in a folder, with the workspace of a local AzureML as its target ``azure``."""

    service: Emulator
    folder: Path

    def run(self, *arguments: str, code: int = 0) -> str:
        """Run a command and return what it printed: on stdout, or on stderr if it is to fail with *code*."""
        done = self.service.python(self.folder, "-m", "aml_train", "data", *arguments, code=code)
        return done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Commands]:
    folder = tmp_path_factory.mktemp("work")
    (folder / "aml-train.yml").write_text("target: azure\n")
    with running(Emulator(tmp_path_factory.mktemp("azure"))) as service:
        yield Commands(service=service, folder=folder)


@pytest.fixture(scope="module")
def pictures(data: Commands) -> Path:
    folder = data.folder / "pictures"
    (folder / "cats").mkdir(parents=True)
    (folder / "cats" / "one.png").write_bytes(b"one")
    (folder / "cats" / "söme näme.png").write_bytes(b"two")
    (folder / "dogs.csv").write_bytes(b"three")
    (folder / "large.bin").write_bytes(os.urandom(70_000_000))
    return folder


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.full
def test_an_asset_goes_up_is_listed_and_comes_down(data: Commands, pictures: Path) -> None:
    assert "workspaceblobstore" in data.run("ls")
    sent = data.run("upload", "pictures", "--name", "pictures")
    assert re.search(r"sent 4 files \(70\.0 MB\)", sent)
    assert sent.splitlines()[1:] == [f"{STORE}/data/pictures/1/", "azureml:pictures:1"]
    listed = [json.loads(line) for line in data.run("ls", "-r", "--json", "azureml:pictures@latest").splitlines()]
    assert [one["name"] for one in listed] == ["cats/one.png", "cats/söme näme.png", "dogs.csv", "large.bin"]
    assert listed[0]["md5"] == "f97c5d29941bfb1b2fdab0874906ab82"
    assert "cats/" in data.run("ls", f"{STORE}/data/pictures/1")
    assert data.run("ls", f"{STORE}/data/**/*.csv").split()[-1] == "pictures/1/dogs.csv"

    data.run("download", "azureml:pictures:1", "down")
    assert files(data.folder / "down") == files(pictures)
    again = data.run("download", "azureml:pictures:1", "down")
    assert "received 0 files (0 B)" in again
    assert "4 were there already" in again

    taken = data.run("upload", "pictures", "--name", "pictures", "--version", "1", code=2)
    assert "pictures:1 is registered already" in taken
    assert "There is nothing at" in data.run("ls", f"{STORE}/nowhere", code=8)


@pytest.mark.full
def test_data_are_copied_and_deleted_after_a_question(data: Commands, pictures: Path) -> None:
    data.run("upload", "pictures", f"{STORE}/old")
    assert "copied 4 files (70.0 MB)" in data.run("cp", f"{STORE}/old", f"{STORE}/new/")
    data.run("download", f"{STORE}/new", "new")
    assert files(data.folder / "new") == files(pictures)
    assert "is a folder: nothing was deleted" in data.run("rm", "-y", f"{STORE}/old", code=2)
    assert "only paths in a datastore" in data.run("rm", "-y", "azureml:pictures:1", code=2)
    assert "Delete 4 files (70.0 MB)" in data.run("rm", "-r", f"{STORE}/old", code=7)
    data.run("rm", "-y", f"{STORE}/old/*.csv")
    assert "deleted 3 files" in data.run("rm", "-r", "-y", f"{STORE}/old")
    assert "There is nothing at" in data.run("ls", f"{STORE}/old", code=8)


@pytest.mark.full
def test_every_kind_of_credentials_serves_and_none_is_told(data: Commands, pictures: Path) -> None:
    identity = json.loads((data.service.folder / "data" / "identity.json").read_text())
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
        _register(data, name, "azureml", given)
    _register(data, "nowhere", "not-there", credentials["bykey"])

    def there_and_back(name: str) -> None:
        at = f"azureml://datastores/{name}/paths/{name}"
        assert "sent 4 files" in data.run("upload", "pictures", at)
        data.run("download", at, name)
        assert files(data.folder / name) == files(pictures)

    with ThreadPoolExecutor() as pool:
        list(pool.map(there_and_back, ("bykey", "bysas", "byidentity")))
    for name, words in (("expired", "the storage answered 403"), ("nowhere", "ContainerNotFound")):
        told = data.run("ls", f"azureml://datastores/{name}/paths/x", code=8)
        assert words in told
        assert "sig=" not in told
    assert "There is no datastore 'other'" in data.run("ls", "azureml://datastores/other/paths/", code=2)
    assert "the target `elsewhere` is not configured" in data.run("ls", "--target", "elsewhere", "azureml:x", code=2)


def _register(data: Commands, name: str, container: str, credentials: object) -> None:
    info, environment = data.service.info, data.service.environment()
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
