"""Blob containers, by azure-storage-blob."""

from __future__ import annotations

import contextlib
import datetime
import mimetypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, BinaryIO, Final

from aml_train.azure.clouds import core_sdk
from aml_train.core.answers import MISREAD, REACH, traced
from aml_train.core.errors import ServiceError
from aml_train.core.version import PRODUCT

if TYPE_CHECKING:
    import requests
    from azure.core.credentials import TokenCredential


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One blob.

    Attributes:
        name: its full name in the container.
        size: bytes.
        md5: the checksum that is stored with it, 16 bytes; None if its writer stored none.
        modified: when it was written.
        etag: changes with each writing.
    """

    name: str
    size: int
    md5: bytes | None
    modified: datetime.datetime
    etag: str


@dataclass(frozen=True, kw_only=True)
class Access:
    """Credentials of a container: *key*, *sas*, or, with neither, the identity."""

    account_url: str
    container: str
    key: str | None = None
    sas: str | None = None

    def __repr__(self) -> str:
        return f"Access({self.account_url}/{self.container})"


_AT_ONCE: Final = 4
"""Parts of one blob that are on their way at once."""

MOST_PAUSE_SECONDS: Final = 42.0
"""Between two tries of a request."""

_TRANSIENT: Final = frozenset({408, 429, 500, 502, 503, 504})
_FOLDER_MARK: Final = "hdi_isfolder"
"""Metadata of the blobs that stand for folders where the account has a hierarchical namespace."""


def blob_sdk() -> Any:
    """Return azure-storage-blob, which is slow to import."""
    import azure.storage.blob

    return azure.storage.blob


def retries(total: int) -> dict[str, Any]:
    """Return options of azure-storage-blob's clients that decide what is repeated.

    The first pause is about three seconds instead of 18, and the longest is that of the SDK, 42 seconds: its formula gives twelve
    minutes for the sixth, to which it comes if answers are cut off. 429 is repeated too: the SDK does not expect it from the storage,
    which throttles with 503 (https://learn.microsoft.com/rest/api/storageservices/common-rest-api-error-codes), but gateways before it
    answer so.

    Args:
        total: the most repetitions of a request.
    """
    policy = blob_sdk().ExponentialRetry(
        initial_backoff=0, increment_base=3, random_jitter_range=1, retry_total=total
    )
    of_sdk = policy.get_backoff_time
    policy.get_backoff_time = lambda settings: min(of_sdk(settings), MOST_PAUSE_SECONDS)

    def throttled(response: Any) -> None:
        if response.http_response.status_code == 429:
            response.http_response.status_code = 503  # which the SDK repeats

    return {"retry_policy": policy, "raw_response_hook": throttled}


class AzureBlobs:
    """One container, signed in to. Safe to use from several threads.

    Every method raises :class:`aml_train.core.errors.ServiceError` when the storage refuses or stays away; what may go away by itself was
    tried again.

    Args:
        access: the container.
        identity: who signs in, where *access* brings neither key nor signature.
        session: sends the requests.
        tries: the most repetitions of a request.
        timeout: seconds for connecting, and between two pieces of an answer.

    Attributes:
        place: account and container, for messages; two with the same place are one.
        container: the client of azure-storage-blob; its calls stand in a block of :meth:`translated`.
    """

    def __init__(
        self,
        access: Access,
        identity: TokenCredential,
        session: requests.Session,
        *,
        tries: int = 6,
        timeout: tuple[float, float] = (20.0, 120.0),
    ) -> None:
        transport = core_sdk().pipeline.transport.RequestsTransport(
            session=session, session_owner=False, connection_timeout=timeout[0], read_timeout=timeout[1]
        )
        self.place = f"{access.account_url.rstrip('/')}/{access.container}"
        self.container = blob_sdk().ContainerClient(
            access.account_url,
            access.container,
            credential=core_sdk().credentials.AzureSasCredential(access.sas)
            if access.sas
            else access.key or identity,
            transport=transport,
            max_single_get_size=64 * 1024 * 1024,
            max_single_put_size=64 * 1024 * 1024,
            max_block_size=8 * 1024 * 1024,
            **retries(tries),
            user_agent=PRODUCT,
        )

    def walk(self, prefix: str) -> Iterator[Entry]:
        """Yield the blobs whose names begin with *prefix*, without markers of folders."""
        with self.translated(f"Listing {prefix!r}"):
            for item in self.container.list_blobs(name_starts_with=prefix or None, include=["metadata"]):
                if not _is_folder(item):
                    yield _entry(item)

    def level(self, folder: str) -> Iterator[Entry | str]:
        """Yield blobs and folders directly in *folder*: empty, or with a slash at its end."""
        with self.translated(f"Listing {folder!r}"):
            for item in self.container.walk_blobs(name_starts_with=folder or None, include=["metadata"]):
                if isinstance(item, blob_sdk().BlobPrefix):
                    yield str(item.name)
                elif not _is_folder(item):
                    yield _entry(item)

    def find(self, name: str) -> Entry | None:
        """Return the blob of exactly that name, or None."""
        with self.translated(f"Looking for {name!r}"):
            try:
                found = self.container.get_blob_client(name).get_blob_properties()
            except core_sdk().exceptions.ResourceNotFoundError as error:
                # A HEAD has no body: the header distinguishes a missing container from a missing blob.
                if error_code(error) == "ContainerNotFound":
                    raise
                return None
            return None if _is_folder(found) else _entry(found)

    def chunks(self, entry: Entry) -> Iterator[bytes]:
        """Yield a blob's contents; an error if *entry* has changed."""
        with self.translated(f"Reading {entry.name!r}"):
            yield from self._opened(entry).chunks()

    def download(self, entry: Entry, file: BinaryIO) -> None:
        """Write a blob's contents into *file*; the parts of a large one come in parallel."""
        with self.translated(f"Reading {entry.name!r}"):
            self._opened(entry).readinto(file)

    def _opened(self, entry: Entry) -> Any:
        return self.container.get_blob_client(entry.name).download_blob(
            max_concurrency=_AT_ONCE, etag=f'"{entry.etag}"', match_condition=core_sdk().MatchConditions.IfNotModified
        )

    def upload(self, name: str, blocks: Iterator[bytes], size: int, *, md5: bytes | None) -> None:
        """Write a blob of *size* bytes, the parts of a large one in parallel, and keep its checksum; each request has one of its own."""
        with self.translated(f"Writing {name!r}"):
            self.container.get_blob_client(name).upload_blob(
                blocks,
                length=size,
                overwrite=True,
                validate_content=True,
                max_concurrency=_AT_ONCE,
                content_settings=_settings(name, md5),
            )

    def delete(self, name: str) -> None:
        """Delete a blob with its snapshots."""
        with self.translated(f"Deleting {name!r}"):
            self.container.delete_blob(name, delete_snapshots="include")

    @contextlib.contextmanager
    def translated(self, what: str) -> Iterator[None]:
        """Turn the SDK's errors into ours, with place, answer and remedy."""
        try:
            yield
        except core_sdk().exceptions.HttpResponseError as error:
            code, status = error_code(error), error.status_code
            if code in _LOST:
                raise ServiceError(
                    f"{what} in {self.place}: the lock was lost: another promotion took it, or the lease was broken.",
                    hint="Run the same command again: it looks at what is there now, and finishes what was begun.",
                    transient=True,
                ) from error
            answer = f"{status} {code}".strip() if status else type(error).__name__
            raise ServiceError(
                f"{what} in {self.place}: the storage answered {answer} ({traced(error)}).",
                hint=hint_of(code, status),
                transient=status in _TRANSIENT,
            ) from error
        except core_sdk().exceptions.AzureError as error:
            # The SDK's words may hold the address with its signature.
            raise ServiceError(
                f"{what} in {self.place}: the storage does not answer ({type(error).__name__}).",
                hint=f"{REACH} Then run the same command again.",
                transient=True,
            ) from None
        except MISREAD as error:
            raise ServiceError(
                f"{what} in {self.place}: the storage's answer cannot be read ({type(error).__name__}).",
                hint="If a proxy answers instead of the storage, correct HTTPS_PROXY and NO_PROXY.",
            ) from error


#: Another holder has taken a lease, or somebody has broken it.
_LOST: Final = frozenset(
    {
        "LeaseLost",
        "LeaseIdMismatchWithLeaseOperation",
        "LeaseIdMismatchWithBlobOperation",
        "LeaseNotPresentWithBlobOperation",
        "LeaseNotPresentWithLeaseOperation",
        "LeaseIsBrokenAndCannotBeRenewed",
    }
)
_HINTS: Final[Mapping[str, str]] = {
    "ContainerNotFound": "The datastore stands for a container that is not there: create it in the storage account.",
    "InvalidBlobOrBlock": "Another client left blocks for this blob: delete the blob, or use another name.",
    "AuthorizationPermissionMismatch": "The identity needs the role 'Storage Blob Data Contributor' (to read: 'Reader') on the storage account.",
    "AuthenticationFailed": "The datastore's key or SAS is not valid (any more): register it again.",
    "ConditionNotMet": "The blob was changed meanwhile: run the command again.",
    "InvalidBlobType": "A blob of another kind (an append blob, such as a log) has that name: delete it first, or use another name.",
    "Md5Mismatch": "The data was damaged on its way: run the command again.",
}
_BY_STATUS: Final[Mapping[int, str]] = {
    403: "The datastore's credentials, or the identity, may not do this; a firewall of the storage account answers so, too.",
    412: "The blob was changed meanwhile: run the command again.",
    429: "The storage is busy: run the same command again.",
    503: "The storage is busy: run the same command again.",
}


def hint_of(code: str | None, status: int | None) -> str | None:
    """Return the remedy for a refusal of the storage."""
    return _HINTS.get(code or "") or _BY_STATUS.get(status or 0)


def error_code(error: Any) -> str | None:
    """Return the storage's word for an error of azure-storage-blob, if it has one."""
    code = getattr(error, "error_code", None)
    if code is None and getattr(error, "response", None) is not None:
        code = error.response.headers.get("x-ms-error-code")
    return None if code is None else str(getattr(code, "value", code))


def _is_folder(item: Any) -> bool:
    """Return whether a blob stands for a folder.

    One with contents is a file: a mark, which is metadata, must not hide it.
    """
    return bool((item.metadata or {}).get(_FOLDER_MARK)) and not item.size


def _entry(item: Any) -> Entry:
    md5 = item.content_settings.content_md5
    return Entry(
        name=str(item.name),
        size=int(item.size),
        md5=bytes(md5) if md5 else None,
        modified=item.last_modified,
        etag=str(item.etag).strip('"'),
    )


def _settings(name: str, md5: bytes | None) -> Any:
    kind = mimetypes.guess_type(name)[0]
    return blob_sdk().ContentSettings(
        content_type=kind or "application/octet-stream", content_md5=None if md5 is None else bytearray(md5)
    )
