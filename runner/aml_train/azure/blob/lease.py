"""A lock and the record that it guards in one blob, by a lease of Blob Storage.

The storage answers for the lock: one lease at a time, and only its holder can write the blob. A lease that is not renewed ends by
itself, so that a holder who was killed blocks no one for longer than that
(https://learn.microsoft.com/rest/api/storageservices/lease-blob).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeVar

from azure.core.credentials import AzureSasCredential
from azure.core.exceptions import AzureError, HttpResponseError, ResourceNotFoundError

from aml_train.azure.blob.datastores import Access
from aml_train.azure.blob.storage import blob_sdk, error_code, retries
from aml_train.azure.http import HttpSettings
from aml_train.core.answers import MISREAD, REACH, traced
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.core.version import PRODUCT

if TYPE_CHECKING:
    from azure.core.credentials import TokenCredential

#: Seconds. The service takes 15 to 60; each write elsewhere is bounded below it (:mod:`aml_train.azure.http`).
LEASE_SECONDS: Final = 45
WAIT_SECONDS: Final = 300.0
_PAUSE: Final = (0.2, 2.0)
_FOLDER: Final = "aml-train/promotion"
_HELD: Final = frozenset({"LeaseAlreadyPresent", "LeaseIdMissing"})
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
_Result = TypeVar("_Result")


class AzureLeases:
    """See :class:`aml_train.models.catalogue.PromotionStore`.

    Args:
        access: the container, of the workspace's default datastore.
        credential: who signs in, where *access* brings neither key nor signature.
        clock: time.
        way: how HTTP gets there.
        seconds: how long a lease lasts without being renewed, 15 to 60.
        wait: seconds to wait for a lease that another holder has.
    """

    def __init__(
        self,
        access: Access,
        credential: TokenCredential,
        *,
        clock: Clock,
        way: HttpSettings,
        seconds: int = LEASE_SECONDS,
        wait: float = WAIT_SECONDS,
    ) -> None:
        secret = AzureSasCredential(access.sas) if access.sas else access.key or credential
        self._place = f"{access.account_url}/{access.container}"
        self._container = blob_sdk().ContainerClient(
            access.account_url,
            access.container,
            credential=secret,
            **retries(4),
            connection_timeout=10,
            read_timeout=20,
            user_agent=PRODUCT,
            **way.azure_options(),
        )
        self._clock = clock
        self._seconds = seconds
        self._wait = wait

    def read(self, model: str) -> bytes:

        def work() -> bytes:
            try:
                content: bytes = self._blob(model).download_blob().readall()
            except ResourceNotFoundError as error:
                if error_code(error) == "ContainerNotFound":
                    raise
                return b""
            return content

        return self._translated(model, "Reading", work)

    @contextlib.contextmanager
    def hold(self, model: str) -> Iterator[_Lease]:
        lease = _Lease(self, model, self._acquire(model))
        try:
            yield lease
        finally:
            lease.release()

    def _acquire(self, model: str) -> Any:
        """Return the lease of azure-storage-blob; make the blob where it is missing.

        Raises:
            ServiceError: it is held for too long.
        """

        until = self._clock.now() + self._wait
        pause = _PAUSE[0]
        while True:
            try:
                return self._blob(model).acquire_lease(lease_duration=self._seconds)
            except HttpResponseError as error:
                code = error_code(error)
                if code == "BlobNotFound":
                    self._translated(model, "Making", lambda: self._make(model))
                    continue
                if code not in _HELD:
                    raise self._error(model, "Locking", error) from error
            except (AzureError, *MISREAD) as error:
                raise self._error(model, "Locking", error) from error
            if self._clock.now() >= until:
                raise ServiceError(
                    f"Another promotion of {model} has held {self._place}/{_name(model)} for {self._wait:.0f} seconds.",
                    hint="Wait for it to end, and run this again. A process that was killed holds it for less than a minute.",
                    transient=True,
                )
            self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - nothing is to be kept secret
            pause = min(pause * 2, _PAUSE[1])

    def _make(self, model: str) -> None:

        try:
            self._blob(model).upload_blob(b"", overwrite=False)
        except HttpResponseError as error:
            # Another process created it meanwhile, and may hold it by now.
            if error_code(error) not in ("BlobAlreadyExists", *_HELD):
                raise

    def _blob(self, model: str) -> Any:
        return self._container.get_blob_client(_name(model))

    def _translated(self, model: str, doing: str, work: Callable[[], _Result]) -> _Result:

        try:
            return work()
        except (AzureError, *MISREAD) as error:
            raise self._error(model, doing, error) from error

    def _error(self, model: str, doing: str, error: Any) -> ServiceError:
        code, status = error_code(error), getattr(error, "status_code", None)
        what = f"{doing} the record of {model}'s promotions in {self._place}/{_name(model)}"
        if isinstance(error, MISREAD):
            return ServiceError(f"{what}: the storage's answer cannot be read ({type(error).__name__}).")
        if code in _LOST:
            return ServiceError(
                f"{what}: the lock was lost: another promotion took it, or the lease was broken.",
                hint="Run the same command again: it looks at what is there now, and finishes what was begun.",
                transient=True,
            )
        hint = "The identity needs the role 'Storage Blob Data Contributor' on the workspace's storage account."
        if status is None:
            return ServiceError(f"{what}: the storage does not answer.", hint=REACH, transient=True)
        answer = f"the storage answered {status} {code or ''}".strip()
        transient = status in (408, 429) or status >= 500
        return ServiceError(
            f"{what}: {answer} ({traced(error)}).", hint=None if transient else hint, transient=transient
        )


class _Lease:
    """See :class:`aml_train.models.catalogue.LockedRecord`."""

    def __init__(self, store: AzureLeases, model: str, lease: Any) -> None:
        self._store, self._model, self._lease = store, model, lease

    def renew(self) -> None:
        self._store._translated(self._model, "Renewing the lock of", self._lease.renew)

    def read(self) -> bytes:
        return self._store.read(self._model)

    def write(self, content: bytes) -> None:
        def work() -> None:
            self._store._blob(self._model).upload_blob(content, overwrite=True, lease=self._lease)

        self._store._translated(self._model, "Writing", work)

    def release(self) -> None:
        """Release it; if that fails, the lease ends by itself."""

        with contextlib.suppress(AzureError, *MISREAD):
            self._lease.release()


def _name(model: str) -> str:
    return f"{_FOLDER}/{model}.json"
