"""Code assets on the emulator, made by aml-train and by azure-ai-ml: either finds what the other has uploaded."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest

from aml_train.azure import code as azure_code
from aml_train.azure.code import ensure_code
from aml_train.azure.names import WorkspaceId
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.azure.workspace import AzureRest
from aml_train.core.errors import CancelledError, InvalidError, ServiceError
from aml_train.core.files import FileSet
from aml_train.core.threads import CancelToken
from aml_train.jobs.snapshot import read_snapshot, upload_hash
from tests.support.emulator_process import Emulator

STEPS = "code_steps.py"
STORAGE = "*.blob.core.windows.net"


class Recording(AzureRest):
    """A workspace that keeps what it is asked."""

    def __init__(self, emulator: Emulator) -> None:
        info = emulator.info
        workspace = WorkspaceId(
            subscription_id=info["subscription_id"], resource_group=info["resource_group"], name=info["workspace"]
        )
        super().__init__(workspace, sign_in_to_azure({**os.environ, "AML_TRAIN_SIGN_IN": "secret"}))
        self.asked: list[str] = []

    def call(self, method: str, url: str, *given: Any, **options: Any) -> Any:
        self.asked.append(f"{method} {url.partition('/workspaces/')[2].partition('/')[2]}")
        return super().call(method, url, *given, **options)


@pytest.fixture
def rest(emulator: Emulator, monkeypatch: pytest.MonkeyPatch) -> Recording:
    for name, value in emulator.environment().items():
        monkeypatch.setenv(name, value)
    return Recording(emulator)


def project(folder: Path, **more: bytes) -> Path:
    code = folder / "my code"
    (code / "pkg").mkdir(parents=True)
    contents = {"train.py": b"print(1)", "pkg/__init__.py": b"", "pkg/ä b%20#?.txt": b"odd", "B.txt": b"b", **more}
    for path, data in contents.items():
        (code / path).write_bytes(data)
    return code


def blobs(emulator: Emulator, asset: str, rest: AzureRest) -> dict[str, bytes]:
    """Return what lies where the asset says, read with the workspace's own key."""
    from azure.storage.blob import ContainerClient

    _, name, version = asset.split(":")
    query = {"api-version": "2023-04-01"}
    found = rest.need("GET", rest.arm(f"/codes/{name}/versions/{version}"), "Reading the asset", params=query)
    container, _, folder = found.text("properties.codeUri").removeprefix("https://").partition("/")[2].partition("/")
    store = "datastores/workspaceblobstore/listSecrets"
    secret = rest.need("POST", rest.arm(f"/{store}"), "key", params={"api-version": "2024-10-01-preview"}).value
    account = emulator.info["storage_account"]
    client = ContainerClient(f"https://{account}.blob.core.windows.net", container, credential=secret["key"])
    with client:
        names = [str(item.name) for item in client.list_blobs(name_starts_with=f"{folder}/")]
        return {name.removeprefix(f"{folder}/"): client.download_blob(name).readall() for name in names}


def listed(rest: AzureRest, code: Path) -> list[Any]:
    """Return the assets that carry the hash of a folder."""
    query = {"api-version": "2023-04-01", "hash": read_snapshot(FileSet.collect_code(code)).content_hash}
    return [one.value for one in rest.items(rest.arm("/codes/any/versions"), "Looking", params=query)]


def test_what_is_uploaded_is_whole_and_found_again(emulator: Emulator, rest: Recording, tmp_path: Path) -> None:
    code = project(tmp_path, **{".env": b"SECRET=1", "id_rsa": b"key"})
    asset = ensure_code(rest, FileSet.collect_code(code), CancelToken())
    assert blobs(emulator, asset, rest) == {
        "train.py": b"print(1)",
        "pkg/__init__.py": b"",
        "pkg/ä b%20#?.txt": b"odd",
        "B.txt": b"b",
    }
    rest.asked.clear()
    assert ensure_code(rest, FileSet.collect_code(code), CancelToken()) == asset
    assert [one for one in rest.asked if "codes/" in one] == rest.asked[:1], "nothing is sent or registered"


@pytest.mark.full
def test_azure_ai_ml_reuses_ours_and_we_reuse_its(emulator: Emulator, rest: Recording, tmp_path: Path) -> None:
    ours, theirs = project(tmp_path / "ours", mine=b"1"), project(tmp_path / "theirs", theirs=b"2")
    files = FileSet.collect_code(ours)
    seen = emulator.client("hash", script=STEPS, code=str(ours))
    assert (seen["hash"], seen["object"]) == (read_snapshot(files).content_hash, upload_hash(ours))
    made = ensure_code(rest, files, CancelToken())
    seen = emulator.client("register", script=STEPS, code=str(ours))
    assert f"azureml:{seen['name']}:{seen['version']}" == made

    seen = emulator.client("register", script=STEPS, code=str(theirs))
    rest.asked.clear()
    found = ensure_code(rest, FileSet.collect_code(theirs), CancelToken())
    assert found == f"azureml:{seen['name']}:{seen['version']}"
    assert not [one for one in rest.asked if "startPendingUpload" in one]


@pytest.mark.full
def test_an_upload_that_is_called_off_leaves_no_asset(
    rest: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = project(tmp_path, **{f"file{number}": bytes([number]) for number in range(60)})
    submission, sent = CancelToken(), threading.Event()
    original = rest.session.request

    def request(method: str, url: str, **options: Any) -> Any:
        answer = original(method, url, **options)
        if "blob.core" in url and not sent.is_set():
            sent.set()
            assert submission.cancel()
        return answer

    with monkeypatch.context() as patched:
        patched.setattr(rest.session, "request", request)
        with pytest.raises(CancelledError, match="called off"):
            ensure_code(rest, FileSet.collect_code(code), submission)
    assert sent.is_set()
    assert listed(rest, code) == []
    assert ensure_code(rest, FileSet.collect_code(code), CancelToken())
    assert len(listed(rest, code)) == 1


@pytest.mark.full
def test_a_file_that_changes_under_the_upload_leaves_no_asset(
    rest: Recording, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = project(tmp_path, late=b"before")
    files = FileSet.collect_code(code)

    def read(given: FileSet) -> Any:
        snapshot = read_snapshot(given)
        (code / "late").write_bytes(b"after!")
        return snapshot

    monkeypatch.setattr(azure_code, "read_snapshot", read)
    with pytest.raises(InvalidError, match="late changed while it was read"):
        ensure_code(rest, files, CancelToken())
    assert listed(rest, code) == []


def put_in(emulator: Emulator, **rule: object) -> None:
    """Have requests go wrong."""
    query = "&".join(f"{key}={quote(str(value), safe='')}" for key, value in rule.items())
    emulator.admin("POST", f"faults?{query}").raise_for_status()


@pytest.fixture
def faulty(emulator: Emulator) -> Iterator[Emulator]:
    """The emulator, whose faults go with the test."""
    yield emulator
    emulator.admin("DELETE", "faults").raise_for_status()


@pytest.mark.full
def test_faults_that_pass_do_not_end_an_upload(faulty: Emulator, rest: Recording, tmp_path: Path) -> None:
    code = project(tmp_path, **{f"file{number}": bytes([number]) * 9 for number in range(30)})
    put_in(faulty, kind="status", host=STORAGE, method="PUT", status=503, count=3, retry_after=0)
    put_in(faulty, kind="reset", host=STORAGE, method="PUT", skip=10, count=2, after="true")
    put_in(faulty, kind="reset", path="*/codes/*/versions/1*", method="PUT", count=1, after="true")
    asset = ensure_code(rest, FileSet.collect_code(code), CancelToken())
    assert len(blobs(faulty, asset, rest)) == 34
    assert len(listed(rest, code)) == 1


@pytest.mark.full
def test_a_refusal_of_the_storage_leaves_no_asset(faulty: Emulator, rest: Recording, tmp_path: Path) -> None:
    code = project(tmp_path, refused=b"x")
    put_in(faulty, kind="status", host=STORAGE, method="PUT", status=403, code="AuthorizationFailure", skip=2)
    with pytest.raises(ServiceError, match="answered 403 AuthorizationFailure") as caught:
        ensure_code(rest, FileSet.collect_code(code), CancelToken())
    assert "sig=" not in str(caught.value)
    assert not caught.value.transient
    assert listed(rest, code) == []
