"""Blob storage as the service and its executor use it: containers and names.

The store is Azurite, reached over its own loopback address with the account's key; whatever is handed to a client
(a SAS URL) carries Azure's host name instead, because clients come in through the proxy. Requests and limits are
those of Azure Blob Storage: https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from typing import IO, Any
from urllib.parse import quote

import requests
from azure.core import MatchConditions
from azure.core.exceptions import ResourceExistsError, ResourceNotFoundError
from azure.core.pipeline.transport import RequestsTransport
from azure.storage.blob import BlobServiceClient, ContentSettings, generate_blob_sas, generate_container_sas
from requests.adapters import HTTPAdapter

APPEND_BLOCK_BYTES = 4 * 1024 * 1024
"""The largest block that Append Block takes."""

POOLED_CONNECTIONS = 32
"""Connections kept open to the store; more callers than this at once open further ones."""

CLOCK_SKEW = timedelta(minutes=15)
"""A SAS is valid from this long ago, for clients whose clock runs behind."""


@dataclass(frozen=True, kw_only=True)
class BlobEntry:
    """One blob of a listing.

    Attributes:
        name: the name relative to the prefix that was walked; empty if the prefix itself names the blob.
        size: bytes.
    """

    name: str
    size: int


class Blobs:
    """One storage account.

    Safe to use from several threads. Every method raises `azure.core.exceptions.HttpResponseError` (and its
    subclasses, `ResourceNotFoundError` among them) when the store refuses.

    Args:
        account: the account's name, for example ``amllocalstore``.
        key: the account's key, base64.
        endpoint: where the store listens, path style: ``https://127.0.0.1:10000/amllocalstore``.
        public_endpoint: what clients call it: ``https://amllocalstore.blob.core.windows.net``.
        ca_file: path of the PEM file with the CA that signed the store's certificate.
        clock: seconds since the epoch: what the validity of signed addresses is counted from.
    """

    def __init__(
        self,
        *,
        account: str,
        key: str,
        endpoint: str,
        public_endpoint: str,
        ca_file: str,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.account = account
        self.public_endpoint = public_endpoint.rstrip("/")
        self._key = key
        self._endpoint = endpoint
        self._ca_file = ca_file
        self._clock = clock

    @cached_property
    def _session(self) -> requests.Session:
        # Made on first use: URLs can be signed without it. The proxy variables of this process are for the jobs' own
        # traffic, never for the store next to this process.
        session = requests.Session()
        session.trust_env = False
        session.verify = self._ca_file
        session.mount("https://", HTTPAdapter(pool_connections=1, pool_maxsize=POOLED_CONNECTIONS))
        return session

    @cached_property
    def _service(self) -> Any:
        transport = RequestsTransport(
            session=self._session, session_owner=False, connection_verify=self._ca_file, use_env_settings=False
        )
        return BlobServiceClient(
            account_url=self._endpoint,
            credential={"account_name": self.account, "account_key": self._key},
            transport=transport,
        )

    def ping(self) -> None:
        """Return if the store answers a signed request, raise if it does not."""
        next(iter(self._service.list_containers(results_per_page=1)), None)

    def create_container(self, container: str) -> None:
        """Create the container unless it is there."""
        try:
            self._service.create_container(container)
        except ResourceExistsError:
            return

    def containers(self) -> tuple[str, ...]:
        """Return the names of all containers."""
        return tuple(str(item["name"]) for item in self._service.list_containers())

    def delete_container(self, container: str) -> None:
        """Delete the container and all blobs in it; one that is gone already is no error."""
        try:
            self._service.delete_container(container)
        except ResourceNotFoundError:
            return

    def walk(self, container: str, prefix: str) -> Iterator[BlobEntry]:
        """Yield every blob under a folder, in order of name.

        A prefix is a folder: ``a/b`` holds ``a/b/c`` but not ``a/bc``; the empty prefix is the whole container. If no
        blob is in that folder but one has exactly that name, it is yielded alone, with an empty relative name.
        """
        client = self._service.get_container_client(container)
        folder = _folder(prefix)
        found = False
        for item in client.list_blobs(name_starts_with=folder or None):
            found = True
            yield BlobEntry(name=str(item.name)[len(folder) :], size=int(item.size))
        if not found and folder:
            size = self.size(container, folder.rstrip("/"))
            if size is not None:
                yield BlobEntry(name="", size=size)

    def size(self, container: str, name: str) -> int | None:
        """Return the blob's size in bytes, or None if there is no such blob or container."""
        try:
            return int(self._blob(container, name).get_blob_properties().size)
        except ResourceNotFoundError:
            return None

    def read(self, container: str, name: str) -> Iterator[bytes]:
        """Yield the blob's contents in chunks of a few megabytes."""
        yield from self._blob(container, name).download_blob(max_concurrency=1).chunks()

    def read_range(self, container: str, name: str, offset: int, length: int) -> bytes:
        """Return at most *length* bytes of a blob from *offset* on.

        Beyond the blob's end there are none.

        Raises:
            azure.core.exceptions.ResourceNotFoundError: there is no such blob.
        """
        blob = self._blob(container, name)
        size = int(blob.get_blob_properties().size)
        if offset >= size or length <= 0:
            return b""
        data: bytes = blob.download_blob(
            offset=offset, length=min(length, size - offset), max_concurrency=1
        ).readall()
        return data

    def write(self, container: str, name: str, data: IO[bytes], length: int | None = None) -> None:
        """Write a block blob, replacing what was there.

        Args:
            container: an existing container.
            data: read from its current position, to its end or for *length* bytes.
            length: bytes; with it, a stream that cannot be rewound is not read into memory whole.
        """
        self._blob(container, name).upload_blob(data, length=length, overwrite=True, max_concurrency=1)

    def append(self, container: str, name: str, data: bytes) -> None:
        """Append to a blob of text, creating an append blob on first use.

        Empty *data* only creates it.
        """
        blob = self._blob(container, name)
        if not data:
            self._create_append(blob)
        for at in range(0, len(data), APPEND_BLOCK_BYTES):
            self._append(blob, data[at : at + APPEND_BLOCK_BYTES])

    def _append(self, blob: Any, block: bytes) -> None:
        try:
            blob.append_block(block)
        except ResourceNotFoundError:
            self._create_append(blob)
            blob.append_block(block)

    def set_metadata(self, container: str, name: str, metadata: Mapping[str, str]) -> None:
        """Replace the metadata of a blob."""
        self._blob(container, name).set_blob_metadata(dict(metadata))

    def delete_prefix(self, container: str, prefix: str) -> list[BlobEntry]:
        """Delete every blob that `walk` yields for the same arguments; return them.

        One that is gone already is no error.
        """
        folder = _folder(prefix)
        entries = list(self.walk(container, prefix))
        for entry in entries:
            name = folder + entry.name if entry.name else folder.rstrip("/")
            with contextlib.suppress(ResourceNotFoundError):
                self._blob(container, name).delete_blob()
        return entries

    def sas_url(self, container: str, name: str, *, permissions: str = "r", hours: float = 24) -> str:
        """Return a URL that gives access to one blob, with Azure's host name.

        Args:
            container: the container; it need not exist yet.
            permissions: letters of a blob SAS: r read, a add, c create, w write, d delete.
            hours: for how long it is valid, from now.
        """
        token = generate_blob_sas(
            account_name=self.account,
            container_name=container,
            blob_name=name,
            account_key=self._key,
            permission=permissions,
            **self._validity(hours),
        )
        return f"{self.url(container, name)}?{token}"

    def container_sas_url(self, container: str, *, permissions: str = "rcwl", hours: float = 24) -> str:
        """Return a signed URL of a whole container; see `sas_url`."""
        query = generate_container_sas(
            account_name=self.account,
            container_name=container,
            account_key=self._key,
            permission=permissions,
            **self._validity(hours),
        )
        return f"{self.url(container)}?{query}"

    def url(self, container: str, name: str = "") -> str:
        """Return the address of a container or blob without a credential."""
        return f"{self.public_endpoint}/{container}" + (f"/{quote(name, safe='/~')}" if name else "")

    def close(self) -> None:
        """Close the connections."""
        if "_service" in vars(self):
            self._service.close()
        if "_session" in vars(self):
            self._session.close()

    def _validity(self, hours: float) -> dict[str, datetime]:
        now = datetime.fromtimestamp(self._clock(), UTC)
        return {"start": now - CLOCK_SKEW, "expiry": now + timedelta(hours=hours)}

    def _blob(self, container: str, name: str) -> Any:
        return self._service.get_blob_client(container, name)

    @staticmethod
    def _create_append(blob: Any) -> None:
        try:
            blob.create_append_blob(
                content_settings=ContentSettings(content_type="text/plain"), match_condition=MatchConditions.IfMissing
            )
        except ResourceExistsError:
            return


def _folder(prefix: str) -> str:
    """Return the prefix as a folder: with one slash at its end, or empty."""
    stripped = prefix.strip("/")
    return f"{stripped}/" if stripped else ""
