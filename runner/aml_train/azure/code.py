"""Code assets: hashed as by azure-ai-ml, reused, or uploaded and registered.

A version is registered only after the storage has acknowledged every block with its MD5: an interrupted upload leaves blobs in a separate
container, and no asset. Requests and shapes are those of azure-ai-ml 1.34.1 (``CodeOperations.create_or_update``, ``_upload_to_datastore``),
which therefore reuses these assets, as the studio shows them."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import re
import threading
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Final, Self, cast
from urllib.parse import quote, urlsplit

import requests
import urllib3
from requests.utils import DEFAULT_CA_BUNDLE_PATH

from aml_train.azure.data_identity import CodeLister
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.answers import REACH, Answer, split, trace_of
from aml_train.core.errors import CancelledError, ServiceError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet, changed
from aml_train.core.http_client import USER_AGENT, ProxyAdapter
from aml_train.core.threads import CancelToken, in_background
from aml_train.jobs.snapshot import HASH_VERSION, Block, Snapshot, read_snapshot

_API: Final = "2023-04-01"
#: Put Blob and Put Block of this version take Content-MD5 and answer 400 where it does not fit:
#: https://learn.microsoft.com/rest/api/storageservices/put-blob
_STORAGE_API: Final = "2021-12-02"
#: A small file costs a round trip, of some 30 ms in Azure: many at once, where azure-ai-ml is held up by its own work for each.
_CONNECTIONS: Final = 32
#: Whatever has more bytes than `_SMALL` fills the line by itself, and is held in memory: so many at once.
_LARGE_AT_ONCE: Final = 8
_SMALL: Final = 1 << 20
_TIMEOUT: Final = urllib3.Timeout(connect=10.0, read=120.0)
_PLAIN: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_ASSET: Final = re.compile(r"/codes/([^/]+)/versions/([^/]+)$")


def ensure_code(rest: AzureRest, files: FileSet, submission: CancelToken) -> str:
    """Return the code asset of these files, ``azureml:NAME:VERSION``, or upload it.

    An asset of its hash is used if the storage lists the same files: the hash is what its maker says.

    Args:
        rest: the workspace.
        files: what belongs to the snapshot, one file at least.
        submission: calls the upload off.

    Raises:
        InvalidError: a file changed while it was read.
        CancelledError: the submission was called off.
        ServiceError: the service or its storage refuses, or does not answer.
    """
    snapshot = read_snapshot(files)
    name = str(uuid.uuid4())
    found = _find(rest, name, snapshot)
    if found is not None:
        return found
    address = _upload(rest, name, snapshot, submission)
    properties = {"hash_sha256": snapshot.content_hash, "hash_version": HASH_VERSION}
    body = {"properties": {"codeUri": address, "isAnonymous": True, "properties": properties}}
    _ask(rest, "PUT", _asset(name), "Registering the code", body)
    return f"azureml:{name}:1"


def _upload(rest: AzureRest, name: str, snapshot: Snapshot, submission: CancelToken) -> str:
    """Upload a snapshot to the place of a code asset; return its folder's address."""
    body = {"pendingUploadType": "TemporaryBlobReference"}
    answer = _ask(rest, "POST", f"{_asset(name)}/startPendingUpload", "Preparing the upload of the code", body)
    place = answer.at("blobReferenceForConsumption")
    address = place.text("credential.sasUri")
    if split(address) is None:
        raise answer.fail("names an address to upload to that is none")
    root = snapshot.files.root.name
    folder = root if _PLAIN.fullmatch(root) else "code"
    with _Upload(address, folder, snapshot) as upload:
        submission.add_action(upload.stop)
        upload.run()
    return f"{place.text('blobUri').rstrip('/')}/{folder}"


def _asset(name: str) -> str:
    return f"/codes/{name}/versions/1"


def _find(rest: AzureRest, name: str, snapshot: Snapshot) -> str | None:
    """Return an asset with that content; the name in the address does not count."""
    query = {"api-version": _API, "hash": snapshot.content_hash, "hashVersion": str(HASH_VERSION)}
    listed = rest.read(rest.arm(f"/codes/{name}/versions"), "Looking for the code among the assets", params=query)
    items = [] if listed is None else list(listed.each("value"))
    lister = CodeLister(rest) if items else None
    for item in items:
        match, uri = _ASSET.search(item.text("id")), item.optional_text("properties.codeUri")
        with contextlib.suppress(ServiceError):  # what cannot be listed is uploaded again
            if match and uri and lister and lister.listing(uri) == snapshot.listing:
                return f"azureml:{match[1]}:{match[2]}"
    return None


def _ask(rest: AzureRest, method: str, path: str, what: str, body: object) -> Answer:
    return rest.need(method, rest.arm(path), what, params={"api-version": _API}, body=body)


@dataclass(frozen=True, kw_only=True)
class _Task:
    """One request: a whole file, or the block of that number of one."""

    entry: FileEntry
    block: Block
    number: int | None


@dataclass
class _Upload:
    """One upload into one container, by several threads that no one has to wait for.

    Args:
        address: of the container, with a shared access signature. It is shown nowhere.
        folder: the folder in it.
        snapshot: what is sent.
    """

    address: str
    folder: str
    snapshot: Snapshot
    _stopped: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _large: threading.Semaphore = field(default_factory=lambda: threading.Semaphore(_LARGE_AT_ONCE))

    def __post_init__(self) -> None:
        container, _, self._signature = self.address.partition("?")
        self._container = urlsplit(container.rstrip("/"))
        self._adapter = ProxyAdapter(pool_connections=1, pool_maxsize=_CONNECTIONS)
        self._pool = _pool(self._adapter, container)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._stopped.set()
        self._adapter.close()

    def stop(self) -> None:
        """Send nothing more; requests that are on their way end by themselves."""
        self._stopped.set()

    def run(self) -> None:
        """Send everything; return when the storage has acknowledged all of it.

        Raises:
            CancelledError: it was stopped.
            InvalidError: a file changed.
            ServiceError: the storage refuses or does not answer.
        """
        self._in_parallel(iter(self._tasks()))
        for entry in self.snapshot.files.entries:
            blocks = self.snapshot.blocks[entry.path]
            if len(blocks) > 1:
                self._commit(entry, len(blocks))
        self._go_on()

    def _tasks(self) -> Iterator[_Task]:
        for entry in self.snapshot.files.entries:
            blocks = self.snapshot.blocks[entry.path]
            for number, block in enumerate(blocks):
                yield _Task(entry=entry, block=block, number=number if len(blocks) > 1 else None)

    def _in_parallel(self, tasks: Iterator[_Task]) -> None:
        """Do *tasks* in several threads; the first failure ends all of them."""

        def work() -> None:
            while not self._stopped.is_set():
                with self._lock:
                    task = next(tasks, None)
                if task is None:
                    return
                try:
                    with self._large if task.block.length > _SMALL else contextlib.nullcontext():
                        self._send(task)
                except BaseException:
                    self._stopped.set()
                    raise

        count = min(_CONNECTIONS, sum(len(blocks) for blocks in self.snapshot.blocks.values()))
        workers: list[Future[None]] = [in_background(work, f"upload-{number}") for number in range(count)]
        failures = [error for worker in workers if (error := worker.exception()) is not None]
        if failures:
            raise next((error for error in failures if not isinstance(error, CancelledError)), failures[0])

    def _go_on(self) -> None:
        if self._stopped.is_set():
            raise CancelledError("The upload was called off.")

    def _send(self, task: _Task) -> None:
        block = task.block
        with (self.snapshot.files.root / task.entry.path).open("rb") as file:
            file.seek(block.offset)
            data = file.read(block.length)
        if hashlib.md5(data, usedforsecurity=False).digest() != block.md5:
            raise changed(self.snapshot.files.root / task.entry.path)
        query = "" if task.number is None else f"comp=block&blockid={quote(_block_id(task.number))}&"
        headers = {"Content-MD5": base64.b64encode(block.md5).decode(), "Content-Type": "application/octet-stream"}
        if task.number is None:
            headers["x-ms-blob-type"] = "BlockBlob"
        self._put(task.entry, query, headers, data)

    def _commit(self, entry: FileEntry, count: int) -> None:
        """Make one blob of its blocks."""
        listed = "".join(f"<Latest>{_block_id(number)}</Latest>" for number in range(count))
        body = f'<?xml version="1.0" encoding="utf-8"?><BlockList>{listed}</BlockList>'
        md5 = base64.b64encode(self.snapshot.md5s[entry.path]).decode()
        headers = {"Content-Type": "application/xml", "x-ms-blob-content-md5": md5}
        self._put(entry, "comp=blocklist&", headers, body.encode())

    def _put(self, entry: FileEntry, query: str, headers: Mapping[str, str], data: bytes) -> None:
        """Send one request, again after a transient failure."""
        target = f"{self._container.path}/{self.folder}/{quote(entry.path, safe='/~')}?{query}{self._signature}"
        headers = {**headers, "x-ms-version": _STORAGE_API, "User-Agent": USER_AGENT}
        host = self._container.netloc
        what = f"Uploading {entry.path}"
        for attempt in retries.repeated():
            with attempt:
                self._go_on()
                try:
                    response = self._pool.urlopen(
                        "PUT", target, body=data, headers=headers, timeout=_TIMEOUT, retries=False, redirect=False
                    )
                except urllib3.exceptions.HTTPError as error:
                    # The error's own text would show the signature.
                    why = f"{what}: {host} does not answer: {type(error).__name__}"
                    raise ServiceError(why, hint=REACH, transient=True) from None
                if response.status != requests.codes.created:
                    code = response.headers.get("x-ms-error-code") or response.reason
                    raise ServiceError(
                        f"{what}: {host} answered {response.status}: {code} ({trace_of(response.headers)})",
                        transient=response.status in retries.TRANSIENT_STATUS,
                        retry_after=retries.retry_after(response.headers),
                    )


def _pool(adapter: ProxyAdapter, url: str) -> urllib3.HTTPConnectionPool:
    """Return connections to *url*'s host, with the environment's proxy and trust.

    They omit the rest of requests' work, which costs more than sending a small file, for each of thousands.
    """
    with requests.Session() as session:
        settings = session.merge_environment_settings(url, {}, None, None, None)
        request = session.prepare_request(requests.Request("PUT", url))
    trust = DEFAULT_CA_BUNDLE_PATH if settings["verify"] is True else settings["verify"]
    pool = adapter.get_connection_with_tls_context(request, trust, proxies=settings["proxies"])
    return cast("urllib3.HTTPConnectionPool", pool)


def _block_id(number: int) -> str:
    """Return the name of a block: base64, all of the same length."""
    return base64.b64encode(f"{number:06d}".encode()).decode()
