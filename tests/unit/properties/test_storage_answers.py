"""Blob storage behind azure-storage-blob, met by arbitrary answers: our own errors, and no other end."""

from __future__ import annotations

import io
import itertools
import platform
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import azure.identity
import azure.storage.blob  # noqa: F401 - its import looks at the platform, which a test may not
import pytest
import requests
from requests.adapters import HTTPAdapter

from aml_train.azure.blob.lease import AzureLeases
from aml_train.azure.blob.storage import Access, AzureBlobs
from aml_train.azure.sign_in import sign_in_to_azure
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.http_client import Session
from tests.support.wrong_answers import CASES, Answering, Reply, as_json, tries

MD5 = "CY9rzUYh03PK3k6DJie09g=="
BLOB = {
    "Content-Type": "application/octet-stream",
    "Content-MD5": MD5,
    "ETag": '"0x1"',
    "Last-Modified": "Thu, 01 Jan 2026 00:00:00 GMT",
    "x-ms-blob-type": "BlockBlob",
    "x-ms-request-id": "5d2c",
}
LISTED = b"""<?xml version="1.0" encoding="utf-8"?>
<EnumerationResults ServiceEndpoint="https://account.blob.core.windows.net/" ContainerName="c"><Blobs><Blob><Name>a/b</Name><Properties>
<Last-Modified>Thu, 01 Jan 2026 00:00:00 GMT</Last-Modified><Etag>0x1</Etag><Content-Length>4</Content-Length>
<Content-Type>text/plain</Content-Type><Content-MD5>CY9rzUYh03PK3k6DJie09g==</Content-MD5><BlobType>BlockBlob</BlobType></Properties>
</Blob><BlobPrefix><Name>a/</Name></BlobPrefix></Blobs><NextMarker /></EnumerationResults>"""
BLOCKS = b"""<?xml version="1.0" encoding="utf-8"?>
<BlockList><CommittedBlocks><Block><Name>MDAw</Name><Size>4</Size></Block></CommittedBlocks><UncommittedBlocks /></BlockList>"""
SIGN_IN = {
    "token_endpoint": "https://login.microsoftonline.com/t/oauth2/v2.0/token",
    "authorization_endpoint": "https://login.microsoftonline.com/t/oauth2/v2.0/authorize",
    "issuer": "https://login.microsoftonline.com/t/v2.0",
    "tenant_discovery_endpoint": "https://login.microsoftonline.com/t/v2.0/.well-known/openid-configuration",
    "token_type": "Bearer",
    "expires_in": 3600,
    "access_token": "t",
}
CLOCK = itertools.count()
#: azure-core asks for it, which starts a process at the first time.
PLATFORM = platform.platform()


def valid(request: requests.PreparedRequest) -> Reply:
    """Return what Blob storage answers."""
    if "login.microsoftonline.com" in str(request.url):
        return as_json(SIGN_IN)
    asked = parse_qs(urlsplit(str(request.url)).query)
    what = asked.get("comp", [""])[0]
    if what == "list":
        return Reply(headers={"Content-Type": "application/xml"}, body=LISTED)
    if what == "blocklist" and request.method == "GET":
        return Reply(headers={**BLOB, "Content-Type": "application/xml"}, body=BLOCKS)
    if what == "properties":
        return Reply(
            headers={
                **BLOB,
                "x-ms-is-hns-enabled": "true",
                "x-ms-sku-name": "Standard_LRS",
                "x-ms-account-kind": "StorageV2",
            }
        )
    if what == "lease":
        acquired = request.headers.get("x-ms-lease-action") == "acquire"
        return Reply(status=201 if acquired else 200, headers={**BLOB, "x-ms-lease-id": "1"})
    if request.method == "PUT":
        return Reply(status=201, headers=BLOB)
    if request.method == "DELETE":
        return Reply(status=202, headers=BLOB)
    if request.method == "HEAD":
        return Reply(headers={**BLOB, "Content-Length": "4"})
    return Reply(status=206, headers={**BLOB, "Content-Range": "bytes 0-3/4", "Content-Length": "4"}, body=b"test")


PRINCIPAL = {"AZURE_TENANT_ID": "0" * 36, "AZURE_CLIENT_ID": "c", "AZURE_CLIENT_SECRET": "s"}
ANSWERING = Answering(valid)
ACCESS = Access(account_url="https://account.blob.core.windows.net", container="c", key="a2V5")


@pytest.fixture(autouse=True)
def faked(monkeypatch: pytest.MonkeyPatch) -> None:
    def send(_self: HTTPAdapter, request: requests.PreparedRequest, **_options: Any) -> requests.Response:
        return ANSWERING.send(request)

    monkeypatch.setattr(HTTPAdapter, "send", send)
    monkeypatch.setattr(time, "sleep", lambda _seconds: None)


def blobs() -> AzureBlobs:
    return AzureBlobs(ACCESS, cast("Any", None), Session())


def leases() -> AzureLeases:
    clock = Clock(now=lambda: float(next(CLOCK)), sleep=lambda _seconds: None)
    found = AzureLeases(cast("Any", None), clock=clock, wait=3.0)
    vars(found)["_storage"] = blobs()
    return found


def found() -> Iterator[bytes]:
    one = blobs().find("a/b")
    if one is not None:
        yield from blobs().chunks(one)


def held() -> bytes:
    with leases().hold("m") as lease:
        lease.renew()
        lease.write(b"{}")
        return lease.read()


def signed_in() -> str:
    return sign_in_to_azure(PRINCIPAL).token("https://management.azure.com/.default")


def downloaded() -> None:
    one = blobs().find("a/b")
    if one is not None:
        list(blobs().chunks(one))
        blobs().download(one, io.BytesIO())


OPERATIONS: Mapping[str, Callable[[], object]] = {
    "walk": lambda: list(blobs().walk("")),
    "level": lambda: list(blobs().level("a/")),
    "find and read": lambda: list(found()),
    "upload": lambda: blobs().upload("a", iter([b"test"]), 4, md5=b"0" * 16),
    "find and download": downloaded,
    "a promotion's record": lambda: leases().read("m"),
    "a lease": held,
    "sign-in": signed_in,
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_arbitrary_answers_of_storage(name: str) -> None:
    tries(ANSWERING, OPERATIONS[name], count=max(1, CASES // 20 // len(OPERATIONS)))


@pytest.mark.parametrize("name", OPERATIONS)
def test_valid_answers_are_understood(name: str) -> None:
    ANSWERING.begin(b"")
    OPERATIONS[name]()
    assert ANSWERING.sent


def test_a_redirect_with_an_undecodable_body_is_our_error(monkeypatch: pytest.MonkeyPatch) -> None:
    headers = {**BLOB, "Location": "?x", "Content-Encoding": "deflate", "Content-Length": "2"}
    redirecting = Answering(lambda _request: Reply(status=302, headers=headers, body=b"{}"))
    redirecting.begin(b"")

    def send(_self: HTTPAdapter, request: requests.PreparedRequest, **_options: Any) -> requests.Response:
        return redirecting.send(request)

    monkeypatch.setattr(HTTPAdapter, "send", send)
    with pytest.raises(ServiceError, match=r"Looking for 'a/b' in .*: the storage's answer cannot be read"):
        blobs().find("a/b")
