"""Blob storage that loses its answers: the store is a transport in memory."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping
from functools import cached_property
from typing import Any
from urllib.parse import unquote, urlsplit

import requests
from requests.adapters import BaseAdapter

from aml_emulator.store.blobs import BlobEntry, Blobs

ENDPOINT = "https://127.0.0.1:1/amllocalstore"
LIST = """\
<?xml version="1.0" encoding="utf-8"?>
<EnumerationResults ContainerName="c"><Blobs>{}</Blobs><NextMarker/></EnumerationResults>"""
BLOB = """\
<Blob><Name>{}</Name><Properties><Content-Length>{}</Content-Length><BlobType>BlockBlob</BlobType></Properties></Blob>"""


class Losing(BaseAdapter):
    """Holds the blobs of one container, by name; of a deletion it loses the first answer."""

    def __init__(self, blobs: Mapping[str, int]) -> None:
        super().__init__()
        self.blobs = dict(blobs)
        self.deletions: list[str] = []

    def send(self, request: requests.PreparedRequest, *_args: Any, **_settings: Any) -> requests.Response:
        assert request.url is not None
        if request.method == "GET":
            blobs = "".join(BLOB.format(name, size) for name, size in sorted(self.blobs.items()))
            return answer(request, 200, LIST.format(blobs))
        assert request.method == "DELETE"
        name = unquote(urlsplit(request.url).path.removeprefix("/amllocalstore/c/"))
        self.deletions.append(name)
        if self.blobs.pop(name, None) is not None:
            raise requests.ConnectionError("the store closed the connection")
        return answer(request, 404, "", {"x-ms-error-code": "BlobNotFound"})

    def close(self) -> None:
        return


def answer(
    request: requests.PreparedRequest, status: int, body: str, headers: Mapping[str, str] | None = None
) -> requests.Response:
    made = requests.Response()
    made.status_code, made.raw, made.request, made.url = status, io.BytesIO(body.encode()), request, str(request.url)
    made.headers.update({"Content-Type": "application/xml", **(headers or {})})
    return made


class LosingBlobs(Blobs):
    """Has :class:`Losing` in the store's place."""

    def __init__(self, store: Losing) -> None:
        super().__init__(
            account="amllocalstore",
            key=base64.b64encode(bytes(64)).decode("ascii"),
            endpoint=ENDPOINT,
            public_endpoint="https://amllocalstore.blob.core.windows.net",
            ca_file="unused",
        )
        self._store = store

    @cached_property
    def _session(self) -> requests.Session:
        session = requests.Session()
        session.trust_env = False
        session.mount("https://", self._store)
        return session


def test_a_blob_whose_deletion_was_not_answered_is_deleted() -> None:
    store = Losing({"run/a.txt": 1, "run/b.txt": 2})
    blobs = LosingBlobs(store)
    assert blobs.delete_prefix("c", "run") == [BlobEntry(name="a.txt", size=1), BlobEntry(name="b.txt", size=2)]
    assert store.blobs == {}
    assert store.deletions == ["run/a.txt", "run/a.txt", "run/b.txt", "run/b.txt"]
