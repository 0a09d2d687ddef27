"""Blob storage in memory.

It answers the requests that the product, azure-storage-blob and the local AzureML send.
Shapes and codes: https://learn.microsoft.com/rest/api/storageservices/blob-service-rest-api. Signatures are not verified; the
time for which a signed address is valid is. A blob is stored whole or not at all: an answer is an acknowledgement.
"""

from __future__ import annotations

import base64
import binascii
import datetime
import hashlib
import re
import threading
import time
import uuid
from dataclasses import dataclass, field, replace
from typing import Final
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from simulation.world.http import Request, Response, http_date

_VERSION: Final = "2025-05-05"
_PAGE: Final = 5000
_META: Final = "x-ms-meta-"
_RANGE: Final = re.compile(r"bytes=(\d+)-(\d*)")
_KEPT_HEADERS: Final = {
    "x-ms-blob-content-type": "Content-Type",
    "x-ms-blob-content-md5": "Content-MD5",
    "x-ms-blob-content-encoding": "Content-Encoding",
    "x-ms-blob-cache-control": "Cache-Control",
}


@dataclass(frozen=True, kw_only=True)
class Blob:
    """One blob.

    Attributes:
        kind: ``BlockBlob`` or ``AppendBlob``.
        headers: what is stored with it: type, MD5, encoding.
        blocks: number of appended blocks.
    """

    kind: str
    content: bytes
    created: float
    modified: float
    etag: str
    headers: dict[str, str] = field(default_factory=dict)
    metadata: dict[str, str] = field(default_factory=dict)
    blocks: int = 0


@dataclass(frozen=True, kw_only=True)
class Held:
    """A lease of a blob: its id, and its end in seconds since the epoch."""

    lease: str
    until: float
    seconds: int


class _RefusedError(Exception):
    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


class BlobStorage:
    """One storage account.

    Args:
        account: its name; the first part of paths at hosts other than the account's own.
    """

    def __init__(self, account: str) -> None:
        self.account = account
        self.containers: dict[str, dict[str, Blob]] = {}
        self.leases: dict[tuple[str, str], Held] = {}
        self._staged: dict[tuple[str, str], dict[str, bytes]] = {}
        self._lock = threading.RLock()

    def handle(self, request: Request) -> Response:
        """Answer one request."""
        common = {"x-ms-request-id": str(uuid.uuid4()), "x-ms-version": _VERSION, "Date": http_date()}
        try:
            with self._lock:
                answered = self._answer(request)
        except _RefusedError as error:
            body = f'<?xml version="1.0" encoding="utf-8"?><Error><Code>{error.code}</Code><Message>{error.code}</Message></Error>'
            headers = {**common, "x-ms-error-code": error.code, "Content-Type": "application/xml"}
            return Response(status=error.status, headers=headers, body=body.encode())
        return replace(answered, headers={**common, **answered.headers})

    def append(self, container: str, name: str, data: bytes) -> None:
        """Append to a blob as a compute does, which has the storage mounted."""
        with self._lock:
            found = self._container(container).get(name)
            blob = found or self._blob(b"", "AppendBlob", {"Content-Type": "text/plain"}, {})
            self.containers[container][name] = replace(
                blob, content=blob.content + data, blocks=blob.blocks + 1, modified=time.time(), etag=_etag()
            )

    def write(self, container: str, name: str, data: bytes) -> None:
        """Write a blob as a compute does."""
        with self._lock:
            self._container(container)[name] = self._blob(data, "BlockBlob", {}, {})

    def _container(self, name: str) -> dict[str, Blob]:
        if name not in self.containers:
            raise _RefusedError(404, "ContainerNotFound")
        return self.containers[name]

    def _answer(self, request: Request) -> Response:
        query = request.query
        parts = request.path.strip("/").split("/")
        if not request.host.startswith(f"{self.account}."):
            parts = parts[1:]
        container, name = (parts[0] if parts else ""), "/".join(parts[1:])
        _check_expiry(request, query)
        if query.get("restype") == "account":
            return Response(status=200, headers={"x-ms-sku-name": "Standard_LRS", "x-ms-account-kind": "StorageV2"})
        if not container:
            return self._list_containers(query)
        if query.get("restype") == "container" or not name:
            return self._of_container(request, query, container)
        return self._of_blob(request, query, container, name)

    def _list_containers(self, query: dict[str, str]) -> Response:
        del query
        items = "".join(
            f"<Container><Name>{escape(name)}</Name><Properties><Last-Modified>{http_date()}</Last-Modified>"
            "<Etag>&quot;0x1&quot;</Etag></Properties></Container>"
            for name in sorted(self.containers)
        )
        return _xml(f"<EnumerationResults><Containers>{items}</Containers><NextMarker/></EnumerationResults>")

    def _of_container(self, request: Request, query: dict[str, str], container: str) -> Response:
        match request.method, query.get("comp", ""):
            case "PUT", "":
                if container in self.containers:
                    raise _RefusedError(409, "ContainerAlreadyExists")
                self.containers[container] = {}
                return Response(status=201, headers={"ETag": _etag(), "Last-Modified": http_date()})
            case "DELETE", "":
                self._container(container)
                del self.containers[container]
                return Response(status=202)
            case "GET", "list":
                return self._list(query, container)
            case (("GET" | "HEAD"), ""):
                self._container(container)
                return Response(status=200, headers={"ETag": '"0x1"', "Last-Modified": http_date()})
        raise _RefusedError(400, "UnsupportedQueryParameter")

    def _list(self, query: dict[str, str], container: str) -> Response:
        blobs = self._container(container)
        prefix, delimiter = query.get("prefix", ""), query.get("delimiter", "")
        marker, most = query.get("marker", ""), min(int(query.get("maxresults") or _PAGE), _PAGE)
        names = sorted(name for name in blobs if name.startswith(prefix))
        entries: dict[str, str] = {}
        for name in names:
            head, slash, _ = name[len(prefix) :].partition(delimiter) if delimiter else ("", "", "")
            if slash:
                shown = f"{prefix}{head}{delimiter}"
                entries[shown] = f"<BlobPrefix><Name>{escape(shown)}</Name></BlobPrefix>"
            else:
                entries[name] = self._listed(name, blobs[name])
        left = [key for key in sorted(entries) if key >= marker]
        page, following = left[:most], left[most : most + 1]
        body = "".join(entries[key] for key in page)
        last = f"<NextMarker>{escape(following[0])}</NextMarker>" if following else "<NextMarker/>"
        return _xml(
            f'<EnumerationResults ContainerName="{escape(container)}"><Prefix>{escape(prefix)}</Prefix>'
            f"<MaxResults>{most}</MaxResults>"
            f"<Blobs>{body}</Blobs>{last}</EnumerationResults>"
        )

    def _listed(self, name: str, blob: Blob) -> str:
        shown = {
            "Creation-Time": http_date(blob.created),
            "Last-Modified": http_date(blob.modified),
            "Etag": blob.etag.strip('"'),
            "Content-Length": str(len(blob.content)),
            "BlobType": blob.kind,
            "Content-Type": blob.headers.get("Content-Type", "application/octet-stream"),
            "Content-MD5": blob.headers.get("Content-MD5", ""),
            "LeaseStatus": "unlocked",
            "LeaseState": "available",
        }
        properties = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in shown.items())
        metadata = "".join(f"<{key}>{escape(value)}</{key}>" for key, value in blob.metadata.items())
        return (
            f"<Blob><Name>{escape(name)}</Name><Properties>{properties}</Properties>"
            f"<Metadata>{metadata}</Metadata></Blob>"
        )

    def _of_blob(self, request: Request, query: dict[str, str], container: str, name: str) -> Response:
        blobs = self._container(container)
        match request.method, query.get("comp", ""):
            case (("GET" | "HEAD"), ""):
                return self._read(request, blobs.get(name))
            case "GET", "blocklist":
                return self._block_list(container, name)
            case "PUT", "":
                return self._put(request, container, name)
            case "PUT", "block":
                block = query.get("blockid", "")
                _check_md5(request)
                self._staged.setdefault((container, name), {})[block] = request.body
                return Response(status=201, headers={"Content-MD5": _md5(request.body)})
            case "PUT", "blocklist":
                return self._commit(request, container, name)
            case "PUT", "appendblock":
                return self._append(request, container, name)
            case "PUT", "metadata":
                self._check_lease(request, container, name)
                blobs[name] = replace(_there(blobs.get(name)), metadata=_metadata(request), etag=_etag())
                return _written(200, blobs[name])
            case "PUT", "lease":
                return self._lease(request, container, name)
            case "DELETE", "":
                _there(blobs.get(name))
                self._check_lease(request, container, name)
                del blobs[name]
                return Response(status=202)
        raise _RefusedError(400, "UnsupportedQueryParameter")

    def _read(self, request: Request, found: Blob | None) -> Response:
        blob = _there(found)
        _check_conditions(request, blob)
        headers = {
            "Content-Type": "application/octet-stream",
            **blob.headers,
            **{f"{_META}{key}": value for key, value in blob.metadata.items()},
            "ETag": blob.etag,
            "Last-Modified": http_date(blob.modified),
            "x-ms-creation-time": http_date(blob.created),
            "x-ms-blob-type": blob.kind,
            "Accept-Ranges": "bytes",
            "x-ms-lease-status": "unlocked",
        }
        if blob.kind == "AppendBlob":
            headers["x-ms-blob-committed-block-count"] = str(blob.blocks)
        if request.method == "HEAD":
            return Response(status=200, headers={**headers, "Content-Length": str(len(blob.content))})
        asked = _RANGE.fullmatch(request.header("x-ms-range") or request.header("Range"))
        if asked is None:
            return Response(status=200, headers=headers, body=blob.content)
        size, begin = len(blob.content), int(asked[1])
        if begin >= size:
            raise _RefusedError(416, "InvalidRange")
        end = min(int(asked[2]) if asked[2] else size - 1, size - 1)
        # The MD5 of a whole blob has another name in an answer with a part.
        whole = headers.pop("Content-MD5", None)
        headers |= {"Content-Range": f"bytes {begin}-{end}/{size}"}
        headers |= {} if whole is None else {"x-ms-blob-content-md5": whole}
        return Response(status=206, headers=headers, body=blob.content[begin : end + 1])

    def _put(self, request: Request, container: str, name: str) -> Response:
        blobs = self._container(container)
        self._check_write(request, container, name)
        kind = request.header("x-ms-blob-type")
        if kind not in ("BlockBlob", "AppendBlob"):
            raise _RefusedError(400, "MissingRequiredHeader")
        content = request.body if kind == "BlockBlob" else b""
        stored = _stored(request)
        if kind == "BlockBlob":
            _check_md5(request)
            stored.setdefault("Content-MD5", _md5(content))
        blobs[name] = self._blob(content, kind, stored, _metadata(request), blobs.get(name))
        self._staged.pop((container, name), None)
        return _written(201, blobs[name])

    def _append(self, request: Request, container: str, name: str) -> Response:
        blobs = self._container(container)
        blob = _there(blobs.get(name))
        if blob.kind != "AppendBlob":
            raise _RefusedError(409, "InvalidBlobType")
        self._check_lease(request, container, name)
        at = len(blob.content)
        blobs[name] = replace(
            blob,
            content=blob.content + request.body,
            blocks=blob.blocks + 1,
            modified=time.time(),
            etag=_etag(),
        )
        answered = _written(201, blobs[name])
        more = {"x-ms-blob-append-offset": str(at), "x-ms-blob-committed-block-count": str(blob.blocks + 1)}
        return replace(answered, headers={**answered.headers, **more})

    def _block_list(self, container: str, name: str) -> Response:
        staged = self._staged.get((container, name), {})
        found = self._container(container).get(name)
        if found is None and not staged:
            raise _RefusedError(404, "BlobNotFound")
        items = "".join(
            f"<Block><Name>{escape(block)}</Name><Size>{len(data)}</Size></Block>" for block, data in staged.items()
        )
        return _xml(
            "<BlockList><CommittedBlocks></CommittedBlocks>"
            f"<UncommittedBlocks>{items}</UncommittedBlocks></BlockList>"
        )

    def _commit(self, request: Request, container: str, name: str) -> Response:
        self._check_write(request, container, name)
        staged = self._staged.get((container, name), {})
        try:
            listed = [str(one.text) for one in ElementTree.fromstring(request.body)]  # noqa: S314 - the product's own
        except ElementTree.ParseError:
            raise _RefusedError(400, "InvalidXmlDocument") from None
        if any(block not in staged for block in listed):
            raise _RefusedError(400, "InvalidBlockList")
        blobs = self._container(container)
        content = b"".join(staged[block] for block in listed)
        blobs[name] = self._blob(content, "BlockBlob", _stored(request), _metadata(request), blobs.get(name))
        self._staged.pop((container, name), None)
        return _written(201, blobs[name])

    def _blob(
        self, content: bytes, kind: str, headers: dict[str, str], metadata: dict[str, str], before: Blob | None = None
    ) -> Blob:
        now = time.time()
        return Blob(
            kind=kind,
            content=content,
            created=now if before is None else before.created,
            modified=now,
            etag=_etag(),
            headers=headers,
            metadata=metadata,
        )

    def _check_write(self, request: Request, container: str, name: str) -> None:
        found = self._container(container).get(name)
        if request.header("If-None-Match") == "*" and found is not None:
            raise _RefusedError(409, "BlobAlreadyExists")
        _check_conditions(request, found, writing=True)
        self._check_lease(request, container, name)

    def _held(self, container: str, name: str) -> Held | None:
        held = self.leases.get((container, name))
        return held if held is not None and held.until > time.time() else None

    def _check_lease(self, request: Request, container: str, name: str) -> None:
        held, given = self._held(container, name), request.header("x-ms-lease-id")
        if held is None:
            if given:
                known = (container, name) in self.leases
                raise _RefusedError(412, "LeaseLost" if known else "LeaseNotPresentWithBlobOperation")
            return
        if not given:
            raise _RefusedError(412, "LeaseIdMissing")
        if given != held.lease:
            raise _RefusedError(412, "LeaseIdMismatchWithBlobOperation")

    def _lease(self, request: Request, container: str, name: str) -> Response:
        blob = _there(self._container(container).get(name))
        key, held, given = (container, name), self._held(container, name), request.header("x-ms-lease-id")
        now, action = time.time(), request.header("x-ms-lease-action").lower()
        status = 200
        if action == "acquire":
            if held is not None:
                raise _RefusedError(409, "LeaseAlreadyPresent")
            seconds = int(request.header("x-ms-lease-duration"))
            lease = request.header("x-ms-proposed-lease-id") or str(uuid.uuid4())
            self.leases[key] = Held(
                lease=lease, until=now + seconds if seconds > 0 else float("inf"), seconds=seconds
            )
            status = 201
        elif action in ("renew", "release"):
            known = self.leases.get(key)
            if known is None:
                raise _RefusedError(409, "LeaseNotPresentWithLeaseOperation")
            if known.lease != given:
                raise _RefusedError(409, "LeaseIdMismatchWithLeaseOperation")
            if action == "release":
                del self.leases[key]
            else:
                # An ended lease can be renewed as long as no one has taken or changed the blob.
                self.leases[key] = replace(known, until=now + known.seconds)
        else:
            raise _RefusedError(400, "InvalidHeaderValue")
        lease_id = self.leases[key].lease if key in self.leases else given
        headers = {"ETag": blob.etag, "Last-Modified": http_date(blob.modified), "x-ms-lease-id": lease_id}
        return Response(status=status, headers=headers)


def _there(blob: Blob | None) -> Blob:
    if blob is None:
        raise _RefusedError(404, "BlobNotFound")
    return blob


def _check_expiry(request: Request, query: dict[str, str]) -> None:
    """Refuse a signed address outside of its time, and a lack of any credential."""
    if "sig" not in query:
        if not request.header("Authorization"):
            raise _RefusedError(404, "ResourceNotFound")
        return
    try:
        begin, end = (datetime.datetime.fromisoformat(query[key]) if key in query else None for key in ("st", "se"))
    except ValueError:
        raise _RefusedError(403, "AuthenticationFailed") from None
    now = time.time()
    if end is None or now >= end.timestamp() or (begin is not None and now < begin.timestamp()):
        raise _RefusedError(403, "AuthenticationFailed")


def _check_conditions(request: Request, blob: Blob | None, *, writing: bool = False) -> None:
    wanted = request.header("If-Match")
    if wanted and wanted != "*" and (blob is None or wanted.strip('"') != blob.etag.strip('"')):
        raise _RefusedError(412, "ConditionNotMet")
    unwanted = request.header("If-None-Match")
    if unwanted and unwanted != "*" and blob is not None and unwanted.strip('"') == blob.etag.strip('"'):
        raise _RefusedError(412 if writing else 304, "ConditionNotMet")


def _check_md5(request: Request) -> None:
    given = request.header("Content-MD5")
    if not given:
        return
    try:
        wanted = base64.b64decode(given, validate=True)
    except binascii.Error:
        raise _RefusedError(400, "InvalidMd5") from None
    if wanted != hashlib.md5(request.body, usedforsecurity=False).digest():
        raise _RefusedError(400, "Md5Mismatch")


def _stored(request: Request) -> dict[str, str]:
    found = {shown: value for name, shown in _KEPT_HEADERS.items() if (value := request.header(name))}
    if "Content-Type" not in found and request.header("Content-Type"):
        found["Content-Type"] = request.header("Content-Type")
    return found


def _metadata(request: Request) -> dict[str, str]:
    return {key[len(_META) :]: value for key, value in request.headers.items() if key.lower().startswith(_META)}


def _written(status: int, blob: Blob) -> Response:
    headers = {
        "ETag": blob.etag,
        "Last-Modified": http_date(blob.modified),
        "x-ms-request-server-encrypted": "true",
        **({"Content-MD5": blob.headers["Content-MD5"]} if "Content-MD5" in blob.headers else {}),
    }
    return Response(status=status, headers=headers)


def _xml(body: str) -> Response:
    text = f'<?xml version="1.0" encoding="utf-8"?>{body}'
    return Response(status=200, headers={"Content-Type": "application/xml"}, body=text.encode())


def _md5(content: bytes) -> str:
    return base64.b64encode(hashlib.md5(content, usedforsecurity=False).digest()).decode()


def _etag() -> str:
    return f'"0x{uuid.uuid4().hex[:15].upper()}"'
