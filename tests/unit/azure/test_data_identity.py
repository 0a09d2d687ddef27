"""What data are, by the storage's listing or an address's headers; the real storage is in tests/integration/pipeline/test_data.py."""

from __future__ import annotations

import io
from collections.abc import Mapping
from typing import Any

import pytest
import requests

from aml_train.azure import data_identity
from aml_train.azure.clouds import AZURE_PUBLIC
from aml_train.azure.data_identity import identify_data
from aml_train.azure.names import WorkspaceId
from aml_train.azure.workspace import AzureRest
from aml_train.jobs.data import DataIdentity, DataSource
from tests.support.plain_answers import answered

STORE = "azureml://datastores/blobs/paths"
DATASTORE = {"properties": {"datastoreType": "AzureBlob", "accountName": "acc", "containerName": "c"}}
KEY = {"key": "a2V5"}


def blob(name: str, *, etag: str = "0x1", md5: str = "bQ==", day: int = 1, kind: str = "") -> str:
    folder = "<Metadata><hdi_isfolder>true</hdi_isfolder></Metadata>" if kind else ""
    size = 0 if kind == "folder" else 3
    return (
        f"<Blob><Name>{name}</Name><Properties><Last-Modified>Sat, {day:02} Nov 2026 08:00:00 GMT</Last-Modified>"
        f"<Etag>{etag}</Etag><Content-Length>{size}</Content-Length><Content-MD5>{md5}</Content-MD5></Properties>{folder}</Blob>"
    )


class Storage(requests.Session):
    """Answers by address, and by prefix of a listing."""

    def __init__(
        self, blobs: Mapping[str, str], heads: Mapping[str, Mapping[str, str]], *, page: int, status: int
    ) -> None:
        super().__init__()
        self.blobs, self.heads, self.page, self.status = blobs, heads, page, status
        self.sent: list[Mapping[str, Any]] = []

    def request(self, method: str, url: str, **options: Any) -> requests.Response:  # type: ignore[override]
        self.sent.append({"method": method, "url": url, **options})
        response = requests.Response()
        response.url, response.status_code, content = url, self.status, ""
        if method == "HEAD":
            response.status_code = 200 if url in self.heads else 404
            response.headers.update(self.heads.get(url, {}))
        elif self.status == 200:
            query = options["params"]
            found = [text for name, text in sorted(self.blobs.items()) if name.startswith(query["prefix"])]
            first, size = int(query.get("marker", 0)), int(query.get("maxresults", self.page))
            more = str(first + size) if len(found) > first + size else ""
            content = f"<R><Blobs>{''.join(found[first : first + size])}</Blobs><NextMarker>{more}</NextMarker></R>"
        else:
            response.headers["x-ms-error-code"] = "AuthorizationFailure"
        response.raw = io.BytesIO(content.encode())
        return response


class Rest(AzureRest):
    """A workspace with a datastore, the asset ``azureml:images:1`` in it, and the model ``azureml:net:2``."""

    def __init__(
        self,
        *blobs: str,
        heads: Mapping[str, Mapping[str, str]] | None = None,
        page: int = 100,
        status: int = 200,
    ) -> None:
        names = {text.partition("<Name>")[2].partition("<")[0]: text for text in blobs}
        self.storage = Storage(names, heads or {}, page=page, status=status)
        place = WorkspaceId(subscription_id="s", resource_group="g", name="w")
        super().__init__(place, None, AZURE_PUBLIC, session=self.storage)  # type: ignore[arg-type]

    def read(
        self, url: str, what: str, *, params: Mapping[str, str] | None = None, attempts: int | None = None
    ) -> Any:
        folder = "azureml://subscriptions/s/resourcegroups/g/workspaces/w/datastores/blobs/paths/images"
        known: Mapping[str, Any] = {
            "datastores/blobs": {
                "properties": {**DATASTORE["properties"], "credentials": {"credentialsType": "AccountKey"}}
            },
            "data/images/versions/1": {"properties": {"dataUri": folder, "dataType": "uri_folder"}},
            "models/net/versions/2": {"properties": {"modelUri": folder}},
            "datastores": {"value": []},
        }
        return next((answered(value) for path, value in known.items() if url.endswith(path)), None)

    def need(self, method: str, url: str, what: str, **_options: Any) -> Any:
        assert url.endswith("/listSecrets")
        return answered(KEY)


def identity(rest: AzureRest, path: str, type_: str = "uri_folder") -> DataIdentity:
    (found,) = identify_data(rest, [DataSource(path=path, type=type_)])
    return found


IMAGES = (blob("images/a.png"), blob("images/b/c.png", day=2), blob("images/b", kind="folder"), blob("images2/x"))


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        (f"{STORE}/images", "uri_folder"),
        (f"{STORE}/images/", "uri_folder"),
        ("azureml:images:1", "mltable"),
        ("azureml:net:2", "custom_model"),
        ("https://acc.blob.core.windows.net/c/images?sig=x", "uri_folder"),
    ],
)
def test_a_folder_is_its_files(path: str, type_: str) -> None:
    rest = Rest(*IMAGES, page=1)
    found = identity(rest, path, type_)
    if "?" in path:
        assert found.problem == "acc.blob.core.windows.net answers 404", "a signed address is read as it is given"
        return
    assert (found.files, found.newest, found.problem) == (2, "2026-11-02T08:00:00Z", "")
    assert [one.name for one in found.listed] == ["a.png", "b/c.png"]
    assert found == identity(Rest(*IMAGES), path, type_), "the pages do not matter"


@pytest.mark.parametrize(
    "changed",
    [
        (blob("images/a.png", etag="0x2"), IMAGES[1]),
        (blob("images/a.png", md5="bg=="), IMAGES[1]),
        (IMAGES[0],),
        (*IMAGES, blob("images/new")),
        (*IMAGES, blob("images/marked", kind="a file that bears the mark of a folder")),
    ],
)
def test_other_files_are_other_data(changed: tuple[str, ...]) -> None:
    before = identity(Rest(*IMAGES), f"{STORE}/images")
    assert before.mark != identity(Rest(*changed), f"{STORE}/images").mark


def test_an_address_is_known_by_its_etag_or_else_by_its_time_and_length() -> None:
    url = "https://example.org/data/labels.csv"

    def of(**headers: str) -> DataIdentity:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return identity(Rest(heads={url: named}), url, "uri_file")

    first = of(ETag='"1"', Last_Modified="Sat, 28 Nov 2026 08:44:51 GMT", Content_Length="3")
    assert (first.files, first.newest, first.listed[0].name) == (1, "2026-11-28T08:44:51Z", "labels.csv")
    assert first.mark != of(ETag='"2"', Last_Modified="Sat, 28 Nov 2026 08:44:51 GMT", Content_Length="3").mark
    dated = of(Last_Modified="Sat, 28 Nov 2026 08:44:51 GMT", Content_Length="3")
    assert dated.mark
    assert dated.mark != of(Last_Modified="Sat, 28 Nov 2026 08:44:51 GMT", Content_Length="4").mark
    assert of(Content_Length="3").problem == "example.org says neither ETag nor Last-Modified and length"
    gone = identity(Rest(), url)
    assert gone.problem == "example.org answers 404"


@pytest.mark.parametrize(
    ("path", "problem"),
    [
        ("azureml:nothing:1", "There is no data asset nothing:1 in the workspace w."),
        (
            "wasbs://c@acc.blob.core.windows.net/x",
            "'wasbs://c@acc.blob.core.windows.net/x' is not an address of data",
        ),
        (f"{STORE.replace('blobs', 'lake')}/x", "There is no datastore 'lake'"),
    ],
)
def test_what_cannot_be_found_is_not_identified(path: str, problem: str) -> None:
    assert identity(Rest(), path).problem.startswith(problem)


def test_a_listing_that_is_refused_or_too_large_is_not_identified(monkeypatch: pytest.MonkeyPatch) -> None:
    refused = identity(Rest(status=403), f"{STORE}/images")
    assert refused.problem == "acc.blob.core.windows.net answers 403 (AuthorizationFailure)"
    assert str(refused) == f"not identified: {refused.problem}"
    monkeypatch.setattr(data_identity, "MOST_FILES", 2)
    many = [blob(f"images/{number}") for number in range(5)]
    assert identity(Rest(*many, page=1), f"{STORE}/images").problem == "there are more than 2 files"
    monkeypatch.setattr(data_identity, "SECONDS", 0)
    assert identity(Rest(*many), f"{STORE}/images").problem == "listing takes longer than 0 s"
