"""What the workspace's answers mean: where assets and outputs lie, which credentials there are, what is refused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest

from aml_train.azure.blob.address import Asset, DatastorePath, Scope, parse_address
from aml_train.azure.blob.datastores import DataWorkspace, asset_type
from aml_train.azure.blob.storage import Access
from aml_train.azure.http import AzureHttp
from aml_train.azure.names import WorkspaceId
from aml_train.azure.workspace import AzureRest
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.jobs.states import JobStatus
from aml_train.jobs.workspace import JobView
from tests.support.memory_storage import MemoryStorage
from tests.support.plain_answers import answered

LONG = "azureml://subscriptions/sub/resourcegroups/rg/workspaces/ws"


@dataclass
class Answer:
    body: Any
    ok: bool = True

    def json(self) -> Any:
        return self.body


@dataclass
class FakeRest:
    """The part of AzureRest that is used, over answers by path."""

    find_job = AzureHttp.find_job

    answers: dict[str, Any]
    credential = session = None
    workspace: WorkspaceId = field(
        default_factory=lambda: WorkspaceId(subscription_id="sub", resource_group="rg", name="ws")
    )
    sent: list[tuple[str, str, Any]] = field(default_factory=list)

    def tagged_jobs(self, _tag: str) -> Iterator[JobView]:
        return iter([JobView(name="done", status=JobStatus.COMPLETED)])

    def arm(self, path: str) -> str:
        return path

    def read(self, url: str, _what: str, *, params: Mapping[str, str]) -> Any:
        assert "api-version" in params
        return answered(self.answers.get(url))

    def items(self, url: str, _what: str, *, params: Mapping[str, str]) -> Iterator[Any]:
        for item in self.answers.get(url, []):
            if "isDefault" not in params or item["properties"].get("isDefault"):
                yield answered(item)

    def call(self, method: str, url: str, _what: str, *, params: Mapping[str, str], body: Any) -> Answer:
        assert "api-version" in params
        self.sent.append((method, url, body))
        return Answer(self.answers.get(url, {}))

    def need(self, method: str, url: str, what: str, *, params: Mapping[str, str], body: Any) -> Any:
        return answered(self.call(method, url, what, params=params, body=body).body)


def datastore(name: str, kind: str = "AzureBlob", credentials: str = "AccountKey", **more: Any) -> dict[str, Any]:
    properties = {
        "datastoreType": kind,
        "accountName": "account",
        "containerName": f"c-{name}",
        "endpoint": "core.windows.net",
        "protocol": "https",
        "credentials": {"credentialsType": credentials},
        **more,
    }
    return {"name": name, "properties": properties}


class Opened(MemoryStorage):
    """A container whose credentials are noted."""

    accesses: ClassVar[list[Access]] = []

    def __init__(self, access: Access, *_identity: object) -> None:
        super().__init__()
        self.accesses.append(access)


@pytest.fixture(autouse=True)
def _storage_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Opened, "accesses", [])
    monkeypatch.setattr("aml_train.azure.blob.datastores.AzureBlobs", Opened)


def workspace(**answers: Any) -> tuple[DataWorkspace, FakeRest, list[Access]]:
    stores = [datastore("main", isDefault=True), datastore("other")]
    rest = FakeRest(
        {"/datastores": stores, **{f"/{path.replace('__', '/')}": value for path, value in answers.items()}}
    )
    return DataWorkspace(cast("AzureRest", rest)), rest, Opened.accesses


def asset(uri: str) -> dict[str, Any]:
    return {"properties": {"dataType": "uri_folder", "dataUri": uri}}


@pytest.mark.parametrize(
    ("uri", "where"),
    [
        (f"{LONG}/datastores/main/paths/a/b/", DatastorePath(datastore="main", path="a/b/")),
        ("azureml://datastores/main/paths/x.csv", DatastorePath(datastore="main", path="x.csv")),
        ("https://account.blob.core.windows.net/c-other/a/b", DatastorePath(datastore="other", path="a/b")),
    ],
)
def test_where_an_asset_lies(uri: str, where: DatastorePath) -> None:
    found, _, _ = workspace(data__digits={"properties": {"latestVersion": "3"}}, data__digits__versions__3=asset(uri))
    for address in ("azureml:digits:3", "azureml:digits@latest", "azureml:digits"):
        located = found.locate(cast("Asset", parse_address(address)))
        assert (located.datastore, located.path) == (where.datastore, where.path)


@pytest.mark.parametrize(
    ("uri", "words"),
    [
        ("https://elsewhere.blob.core.windows.net/c/x?sig=secret", "no datastore stands for that container"),
        (
            "azureml://subscriptions/sub/resourcegroups/rg/workspaces/their/datastores/d/paths/x",
            "the workspace their",
        ),
        ("wasbs://c@account/x", "is not an address of data"),
    ],
)
def test_an_asset_that_lies_elsewhere_is_told(uri: str, words: str) -> None:
    found, _, _ = workspace(data__digits__versions__3=asset(uri))
    with pytest.raises((ServiceError, InvalidError)) as caught:
        found.locate(Asset(name="digits", version="3"))
    assert words in str(caught.value)
    assert "secret" not in str(caught.value)


def test_outputs_of_jobs() -> None:
    outputs = {
        "default": {"uri": "azureml://datastores/main/ExperimentRun/dcid.job"},
        "model": {"uri": "azureml://datastores/other/paths/azureml/job/model/"},
        "plain": {"uri": None},
    }
    found, _, _ = workspace(jobs__job={"properties": {"outputs": outputs}})
    cases = {
        "azureml://jobs/job/outputs/artifacts/paths/logs/": ("main", "ExperimentRun/dcid.job/logs/"),
        "azureml://jobs/job/outputs/default": ("main", "ExperimentRun/dcid.job/"),
        "azureml://jobs/job/outputs/model/paths/a.bin": ("other", "azureml/job/model/a.bin"),
        "azureml://jobs/job/outputs/plain": ("main", "azureml/job/plain/"),
    }
    for address, expected in cases.items():
        located = found.locate(cast("Asset", parse_address(address)))
        assert (located.datastore, located.path) == expected
    with pytest.raises(ServiceError, match=r"no output 'none'.\n?.*Its outputs are: default, model, plain"):
        found.locate(cast("Asset", parse_address("azureml://jobs/job/outputs/none")))
    with pytest.raises(InvalidError, match=r"There is no job gone in the workspace.\nDid you mean done\?"):
        found.locate(cast("Asset", parse_address("azureml://jobs/gone/outputs/none")))


@pytest.mark.parametrize(
    ("credentials", "secrets", "key", "sas", "asked"),
    [
        ("AccountKey", {"key": "K"}, "K", None, 1),
        ("Sas", {"sasToken": "?sv=1"}, None, "sv=1", 1),
        ("None", {}, None, None, 0),
    ],
)
def test_credentials(credentials: str, secrets: dict[str, str], key: str | None, sas: str | None, asked: int) -> None:
    found, rest, opened = workspace(
        datastores__main=datastore("main", credentials=credentials), datastores__main__listSecrets=secrets
    )
    found.storage("main")
    found.storage("main")
    (access,) = opened
    assert (access.account_url, access.container) == ("https://account.blob.core.windows.net", "c-main")
    assert (access.key, access.sas, len(rest.sent)) == (key, sas, asked)
    assert repr(access) == "Access(https://account.blob.core.windows.net/c-main)"


def test_what_is_no_blob_storage_or_not_there() -> None:
    found, _, _ = workspace(datastores__lake=datastore("lake", kind="AzureDataLakeGen2"))
    with pytest.raises(InvalidError, match="'lake' is of type AzureDataLakeGen2: only AzureBlob"):
        found.storage("lake")
    with pytest.raises(InvalidError, match=r"There is no datastore 'x' in the workspace ws.\nThere are: main, other"):
        found.storage("x")
    with pytest.raises(InvalidError, match=r"There is no datastore 'mian' in the workspace ws.\nDid you mean main\?"):
        found.storage("mian")


def test_a_long_address_of_another_workspace_is_refused() -> None:
    found, _, _ = workspace()
    scope = Scope(subscription_id="SUB", resource_group="RG", workspace="WS")
    assert found.locate(DatastorePath(datastore="d", path="p", scope=scope)).path == "p"
    other = Scope(subscription_id="sub", resource_group="rg", workspace="their")
    with pytest.raises(InvalidError, match=r"in the workspace their .* and the target is the workspace ws"):
        found.locate(DatastorePath(datastore="d", path="p", scope=other))


def test_registering() -> None:
    found, rest, _ = workspace(data__digits={"properties": {"nextVersion": "8"}})
    assert (found.next_version("digits"), found.next_version("new")) == ("8", "1")
    made = found.register("digits", "8", type_="uri_folder", where=DatastorePath(datastore="main", path="d/8/"))
    assert made.uri == f"{LONG}/datastores/main/paths/d/8/"
    ((method, url, body),) = rest.sent
    assert (method, url) == ("PUT", "/data/digits/versions/8")
    assert (body["properties"]["dataType"], body["properties"]["dataUri"]) == ("uri_folder", made.uri)


@pytest.mark.parametrize(
    ("given", "single", "has_mltable", "expected"),
    [
        (None, True, False, "uri_file"),
        (None, False, True, "uri_folder"),
        ("mltable", False, True, "mltable"),
        ("mltable", False, False, "no file MLTable"),
        ("uri_file", False, False, "does not fit a folder"),
        ("uri_folder", True, False, "does not fit a single file"),
        ("table", True, False, "there is no such type"),
    ],
)
def test_types(given: str | None, single: bool, has_mltable: bool, expected: str) -> None:
    try:
        assert asset_type(given, single=single, has_mltable=has_mltable) == expected
    except InvalidError as error:
        assert expected in error.message  # noqa: PT017 - both are in one table
