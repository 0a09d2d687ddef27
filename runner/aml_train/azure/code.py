"""Code assets: hashed as by azure-ai-ml, reused, or uploaded and registered.

A version is registered only after the storage has acknowledged every request with its MD5: an interrupted upload leaves blobs in a separate
container, and no asset. Requests and shapes are those of azure-ai-ml 1.34.1 (``CodeOperations.create_or_update``, ``_upload_to_datastore``),
which therefore reuses these assets, as the studio shows them."""

from __future__ import annotations

import base64
import contextlib
import re
import threading
import uuid
from functools import partial
from typing import Final
from urllib.parse import quote

import requests

from aml_train.azure.blob.datastores import signed_place
from aml_train.azure.blob.storage import hint_of
from aml_train.azure.blob.transfer import LARGE, LARGE_AT_ONCE, for_each
from aml_train.azure.data_identity import CodeLister
from aml_train.azure.http import TIMEOUT
from aml_train.azure.workspace import AzureRest
from aml_train.core import retry as retries
from aml_train.core.answers import REACH, Answer, trace_of
from aml_train.core.errors import CancelledError, ServiceError
from aml_train.core.file_selection import FileEntry
from aml_train.core.files import FileSet
from aml_train.core.http_client import exchange, host_of
from aml_train.core.threads import CancelToken
from aml_train.jobs.snapshot import HASH_VERSION, Snapshot, read_snapshot

_API: Final = "2023-04-01"
#: Put Blob takes Content-MD5 and answers 400 where it does not fit: https://learn.microsoft.com/rest/api/storageservices/put-blob
_STORAGE_API: Final = "2021-12-02"
_CHUNK: Final = 1 << 20
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
    signed = place.text("credential.sasUri")
    storage, _ = signed_place(rest, signed)
    container, _, signature = signed.partition("?")
    files, stopped, large = snapshot.files, threading.Event(), threading.Semaphore(LARGE_AT_ONCE)
    folder = files.root.name if _PLAIN.fullmatch(files.root.name) else "code"
    submission.add_action(stopped.set)

    def go_on() -> None:
        if stopped.is_set():
            raise CancelledError("The upload was called off.")

    def send(entry: FileEntry) -> None:
        go_on()
        with large if entry.size > LARGE else contextlib.nullcontext(), files.open(entry) as file:
            path, md5 = f"{folder}/{entry.path}", snapshot.md5s[entry.path]
            if entry.size > _CHUNK:
                storage.upload(path, iter(partial(file.read, _CHUNK), b""), entry.size, md5=md5)
            else:
                address = f"{container.rstrip('/')}/{quote(path)}?{signature}"
                _put(rest.session, address, file.read(), md5, f"Uploading {entry.path}")

    for_each(send, files.entries)
    go_on()
    return f"{place.text('blobUri').rstrip('/')}/{folder}"


def _put(session: requests.Session, address: str, data: bytes, md5: bytes, what: str) -> None:
    """Send a small file in one request: azure-storage-blob's own work for each of thousands takes longer than sending it.

    *address* is signed and shown nowhere.
    """
    headers = {
        "x-ms-blob-type": "BlockBlob",
        "x-ms-version": _STORAGE_API,
        "Content-MD5": base64.b64encode(md5).decode(),
    }
    for attempt in retries.repeated():
        with attempt:
            try:
                answer = exchange(session, "PUT", address, data=data, headers=headers, timeout=TIMEOUT)
            except requests.RequestException as error:
                why = f"{what}: {host_of(address)} does not answer: {type(error).__name__}"
                raise ServiceError(why, hint=REACH, transient=True) from None
            if answer.status_code != requests.codes.created:
                code = answer.headers.get("x-ms-error-code") or answer.reason
                raise ServiceError(
                    f"{what}: {host_of(address)} answered {answer.status_code} {code} ({trace_of(answer.headers)})",
                    hint=hint_of(code, answer.status_code),
                    transient=answer.status_code in retries.TRANSIENT_STATUS,
                    retry_after=retries.retry_after(answer.headers),
                )


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
