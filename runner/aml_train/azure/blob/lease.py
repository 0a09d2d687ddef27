"""A lock and the record that it guards in one blob, by a lease of Blob Storage.

The storage answers for the lock: one lease at a time, and only its holder can write the blob. A lease that is not renewed ends by
itself, so that a holder who was killed blocks no one for longer than that
(https://learn.microsoft.com/rest/api/storageservices/lease-blob).
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.storage import AzureBlobs, error_code
from aml_train.azure.clouds import core_sdk
from aml_train.azure.workspace import AzureRest
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError

#: Seconds. The service takes 15 to 60; each write elsewhere is bounded below it (:mod:`aml_train.azure.http`).
LEASE_SECONDS: Final = 45
WAIT_SECONDS: Final = 300.0
_PAUSE: Final = (0.2, 2.0)
_FOLDER: Final = "aml-train/promotion"
_HELD: Final = frozenset({"LeaseAlreadyPresent", "LeaseIdMissing"})


class AzureLeases:
    """See :class:`aml_train.models.catalogue.PromotionStore`.

    The default datastore is looked up when it is needed.

    Args:
        service: the workspace.
        clock: time.
        seconds: how long a lease lasts without being renewed, 15 to 60.
        wait: seconds to wait for a lease that another holder has.
    """

    def __init__(
        self, service: AzureRest, *, clock: Clock, seconds: int = LEASE_SECONDS, wait: float = WAIT_SECONDS
    ) -> None:
        self._service = service
        self._clock = clock
        self._seconds = seconds
        self._wait = wait

    @cached_property
    def _storage(self) -> AzureBlobs:
        data = DataWorkspace(self._service)
        access = data.access(data.default_datastore())
        return AzureBlobs(access, self._service.credential, self._service.session, tries=4, timeout=(10.0, 20.0))

    def read(self, model: str) -> bytes:
        """See :meth:`aml_train.models.catalogue.PromotionStore.read`."""
        with self._translated(model, "Reading"):
            try:
                content: bytes = self._blob(model).download_blob().readall()
            except core_sdk().exceptions.ResourceNotFoundError as error:
                if error_code(error) == "ContainerNotFound":
                    raise
                return b""
            return content

    @contextlib.contextmanager
    def hold(self, model: str) -> Iterator[_Lease]:
        """See :meth:`aml_train.models.catalogue.PromotionStore.hold`."""
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
            with self._translated(model, "Locking"):
                try:
                    return self._blob(model).acquire_lease(lease_duration=self._seconds)
                except core_sdk().exceptions.HttpResponseError as error:
                    code = error_code(error)
                    if code == "BlobNotFound":
                        self._make(model)
                        continue
                    if code not in _HELD:
                        raise
            if self._clock.now() >= until:
                raise ServiceError(
                    f"Another promotion of {model} has held {self._storage.place}/{_name(model)} for {self._wait:.0f} seconds.",
                    hint="Wait for it to end, and run this again. A process that was killed holds it for less than a minute.",
                    transient=True,
                )
            self._clock.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - nothing is to be kept secret
            pause = min(pause * 2, _PAUSE[1])

    def _make(self, model: str) -> None:
        try:
            self._blob(model).upload_blob(b"", overwrite=False)
        except core_sdk().exceptions.HttpResponseError as error:
            # Another process created it meanwhile, and may hold it by now.
            if error_code(error) not in ("BlobAlreadyExists", *_HELD):
                raise

    def _blob(self, model: str) -> Any:
        return self._storage.container.get_blob_client(_name(model))

    def _translated(self, model: str, doing: str) -> contextlib.AbstractContextManager[None]:
        return self._storage.translated(f"{doing} the record of {model}'s promotions")


class _Lease:
    """See :class:`aml_train.models.catalogue.LockedRecord`."""

    def __init__(self, store: AzureLeases, model: str, lease: Any) -> None:
        self._store, self._model, self._lease = store, model, lease

    def renew(self) -> None:
        with self._store._translated(self._model, "Renewing the lock of"):
            self._lease.renew()

    def read(self) -> bytes:
        return self._store.read(self._model)

    def write(self, content: bytes) -> None:
        with self._store._translated(self._model, "Writing"):
            self._store._blob(self._model).upload_blob(content, overwrite=True, lease=self._lease)

    def release(self) -> None:
        """Release it; if that fails, the lease ends by itself."""
        with contextlib.suppress(ServiceError), self._store._translated(self._model, "Unlocking"):
            self._lease.release()


def _name(model: str) -> str:
    return f"{_FOLDER}/{model}.json"
