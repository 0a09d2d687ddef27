"""Identities of a job's data, read from the storage: names, sizes, ETags.

The listing is plain REST: azure-storage-blob takes 0.3 s to load, which is a quarter of a run with nothing to do.
"""

from __future__ import annotations

import base64
import email.utils
import hmac
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import quote, unquote, urlsplit
from xml.etree import ElementTree

import requests

from aml_train.azure.blob.address import Asset, DatastorePath, LocalPath, parse_address
from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.storage import Access
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.answers import split
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.http_client import exchange, host_of
from aml_train.core.threads import in_background, map_parallel
from aml_train.jobs.data import DataFile, DataIdentity, DataSource, identity_of
from aml_train.jobs.snapshot import listing_digest

SECONDS: Final = 5.0
"""Time within which the data of all inputs are listed."""
MOST_FILES: Final = 100_000
"""Files of one input that are listed."""

_MODELS_API: Final = "2023-08-01-preview"
_STORAGE_API: Final = "2020-10-02"
_STORAGE_SCOPE: Final = "https://storage.azure.com/.default"
_REGISTRY: Final = re.compile(r"azureml://registries/[^/]+/(?:data|models)/[^/]+/versions/[^/]+", re.IGNORECASE)
_MODEL: Final = re.compile(r"(?:azureml:(?P<short>[^/:@]+):|.*/models/(?P<long>[^/]+)/versions/)(?P<version>[^/:@]+)")
_MONTHS: Final = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")


class _BoundsError(ServiceError):
    """A listing is longer than its bounds."""


def identify_data(rest: AzureRest, sources: Sequence[DataSource]) -> list[DataIdentity]:
    """See :meth:`aml_train.jobs.workspace.Workspace.identify_data`."""
    reader = _Reader(rest, time.monotonic() + SECONDS)
    return map_parallel(reader.identity, sources, "data-identity")


class CodeLister:
    """Lists the files of code assets, in the account of the default datastore."""

    def __init__(self, rest: AzureRest) -> None:
        self._reader = _Reader(rest, time.monotonic() + SECONDS)
        data = DataWorkspace(rest)
        # It is read while the assets are.
        self._access = in_background(lambda: data.access(data.default_datastore()), "datastore")

    def listing(self, uri: str) -> str:
        """Return the digest of the names, sizes and checksums at *uri*.

        Raises:
            ServiceError: it is elsewhere, or the storage refuses or does not answer.
        """
        access, parts = self._access.result(), split(uri)
        if parts is None or f"{parts.scheme}://{parts.netloc}" != access.account_url.rstrip("/"):
            raise ServiceError(f"The code at {uri.partition('?')[0]} is not in the account of the default datastore.")
        container, _, path = parts.path.lstrip("/").partition("/")
        leaf, found = path.rpartition("/")[2], []
        for one in self._reader.files(replace(access, container=container), path, ""):
            name = leaf if one.name == path else one.name.removeprefix(f"{path}/")
            if one.name in (path, f"{path}/{name}"):
                found.append((name, one.size, _md5_of(one)))
        return listing_digest(found)


def _md5_of(file: DataFile) -> bytes:
    """Return the checksum that the storage has of a file; empty without one."""
    try:
        return base64.b64decode(file.tag.rpartition(" ")[2])
    except ValueError:
        return b""


class _Reader:
    """Reads identities until *deadline*, a time of the monotonic clock."""

    def __init__(self, rest: AzureRest, deadline: float) -> None:
        self._rest = rest
        self._deadline = deadline
        self._data = DataWorkspace(rest)
        self._lock = threading.Lock()
        self._access: dict[str, Access] = {}

    def identity(self, source: DataSource) -> DataIdentity:
        """Return what the data of one input are; a refusal is its problem."""
        try:
            return self._identity(source)
        except (InvalidError, ServiceError) as error:
            return DataIdentity(problem=" ".join(error.message.split()))

    def _identity(self, source: DataSource) -> DataIdentity:
        path = source.path
        if _REGISTRY.fullmatch(path):
            # A registry copies what is registered in it, and a version does not change:
            # https://learn.microsoft.com/azure/machine-learning/how-to-share-data-across-workspaces-with-registries
            return identity_of([DataFile(name="", size=0, tag=path, modified="")])
        if source.is_model and (model := _MODEL.fullmatch(path)):
            path = self._model_path(model["short"] or model["long"], model["version"])
        elif not path.startswith("https://"):
            address = parse_address(path)
            if isinstance(address, Asset):
                path = self._data.asset(address).uri
        if path.startswith("https://") and (".blob." not in host_of(path) or "?" in path):
            return self._of_url(path)
        try:
            where = self._locate(path)
        except ServiceError:
            if path.startswith("https://"):  # a container that no datastore stands for, which may be public
                return self._of_url(path)
            raise
        access = self._access_of(where.datastore)
        folder, name = f"{where.path.rstrip('/')}/".lstrip("/"), where.path.rstrip("/")
        found = [] if source.type == "uri_file" else list(self.files(access, folder, folder))
        if not found:  # the path of a single file
            start = f"{name.rpartition('/')[0]}/".lstrip("/")
            found = [one for one in self.files(access, name, start, most=1) if start + one.name == name]
        if not found:
            raise ServiceError(f"there is nothing at {where.path or '/'} of the datastore {where.datastore}")
        return identity_of(found)

    def _locate(self, path: str) -> DatastorePath:
        if path.startswith("https://"):
            return self._data.follow(path, "the data")
        address = parse_address(path)
        if isinstance(address, LocalPath):
            raise ServiceError(f"{path.partition(':')[0]}: addresses are not listed")
        return self._data.locate(address)

    def _model_path(self, name: str, version: str) -> str:
        url = self._rest.arm(f"/models/{quote(name)}/versions/{quote(version)}")
        found = self._rest.read(url, f"Looking for the model {name}", params={"api-version": _MODELS_API})
        if found is None:
            raise ServiceError(f"there is no model {name}:{version}")
        return found.text("properties.modelUri")

    def _access_of(self, datastore: str) -> Access:
        with self._lock:
            if datastore not in self._access:
                self._access[datastore] = self._data.access(datastore)
            return self._access[datastore]

    def _of_url(self, url: str) -> DataIdentity:
        """Return the identity of the file at an address, by the headers of its answer."""
        response = self._send("HEAD", url, allow_redirects=True)
        headers = response.headers
        length, modified = headers.get("Content-Length", ""), headers.get("Last-Modified", "")
        tag = headers.get("ETag") or (f"{modified} {length}" if modified and length else "")
        if not tag:
            raise ServiceError(f"{host_of(url)} says neither ETag nor Last-Modified and length")
        name = unquote(urlsplit(url).path).rpartition("/")[2]
        size = int(length) if length.isdecimal() and len(length) < 20 else 0
        return identity_of([DataFile(name=name, size=size, tag=tag, modified=_sortable(modified))])

    def files(self, access: Access, prefix: str, start: str, *, most: int | None = None) -> Iterator[DataFile]:
        """Yield the blobs whose names begin with *prefix*, or the first *most* of them.

        *start* is the part of their names that is left out.
        """
        query = {"comp": "list", "include": "metadata", "prefix": prefix, "restype": "container"}
        if most is not None:
            query["maxresults"] = str(most)
        count = 0
        while True:
            for attempt in retries.repeated(retries.FEW):
                with attempt:
                    page = self._page(access, query)
            for item in page.iterfind("Blobs/Blob"):
                if (file := _file(item, start)) is not None:
                    count += 1
                    yield file
            marker = page.findtext("NextMarker")
            if not marker or most is not None:
                return
            if count >= MOST_FILES:
                raise _BoundsError(f"there are more than {MOST_FILES:,} files")
            query["marker"] = marker

    def _page(self, access: Access, query: Mapping[str, str]) -> ElementTree.Element:
        url = f"{access.account_url.rstrip('/')}/{access.container}"
        headers = {"x-ms-version": _STORAGE_API, "x-ms-date": email.utils.formatdate(usegmt=True)}
        if access.key is not None:
            headers["Authorization"] = _signature(access, access.key, query, headers)
        elif access.sas is not None:
            url += f"?{access.sas}"
        else:
            headers["Authorization"] = f"Bearer {self._rest.credential.token(_STORAGE_SCOPE)}"
        response = self._send("GET", url, params=query, headers=headers)
        try:
            return ElementTree.fromstring(response.content)  # noqa: S314 - the storage's answer, over TLS
        except ElementTree.ParseError as error:
            raise ServiceError(f"{host_of(url)} sends no list of blobs", transient=True) from error

    def _send(self, method: str, url: str, **options: Any) -> requests.Response:
        left = self._deadline - time.monotonic()
        if left <= 0:
            raise _BoundsError(f"listing takes longer than {SECONDS:.0f} s")
        try:
            response = exchange(self._rest.session, method, url, timeout=left, **options)
        except requests.RequestException as error:
            raise ServiceError(f"{host_of(url)} does not answer: {type(error).__name__}", transient=True) from error
        if not response.ok:
            word = response.headers.get("x-ms-error-code", "")
            what = f"{host_of(url)} answers {response.status_code}{f' ({word})' if word else ''}"
            raise ServiceError(what, transient=response.status_code in retries.TRANSIENT_STATUS)
        return response


def _file(item: ElementTree.Element, start: str) -> DataFile | None:
    """Read one blob, without *start* in its name; None for what stands for a folder."""

    def value(path: str) -> str:
        return item.findtext(path) or ""

    size = value("Properties/Content-Length")
    folder = value("Properties/ResourceType") == "directory" or value("Metadata/hdi_isfolder").lower() == "true"
    if folder and size in ("", "0"):  # one with contents is a file: a mark must not hide it
        return None
    return DataFile(
        name=value("Name").removeprefix(start),
        size=int(size) if size.isdecimal() else 0,
        tag=f"{value('Properties/Etag')} {value('Properties/Content-MD5')}",
        modified=_sortable(value("Properties/Last-Modified")),
    )


def _sortable(date: str) -> str:
    """Return an HTTP date as ``2026-11-28T08:44:51Z``; empty if it is none."""
    words = date.split()
    if len(words) < 5 or words[2] not in _MONTHS:
        return ""
    return f"{words[3]}-{_MONTHS.index(words[2]) + 1:02}-{words[1]}T{words[4]}Z"


def _signature(access: Access, key: str, query: Mapping[str, str], headers: Mapping[str, str]) -> str:
    """Return the Authorization header of a listing by the account's key.

    https://learn.microsoft.com/rest/api/storageservices/authorize-with-shared-key
    """
    account = host_of(access.account_url).partition(".")[0]
    lines = ["GET", *[""] * 11]
    lines += [f"{name}:{value}" for name, value in sorted(headers.items())]
    lines.append(f"/{account}/{access.container}")
    lines += [f"{name}:{value}" for name, value in sorted(query.items())]
    try:
        secret = base64.b64decode(key)
    except ValueError as error:
        raise ServiceError(f"the key of the account {account} is no base64") from error
    digest = hmac.digest(secret, "\n".join(lines).encode(), "sha256")
    return f"SharedKey {account}:{base64.b64encode(digest).decode('ascii')}"
