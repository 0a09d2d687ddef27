"""Claims of image addresses, in a workspace's default datastore.

Blob Storage writes a blob only if its etag is the expected one, or if there is none: of several writers, one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from aml_train.azure.blob.datastores import workspace_of
from aml_train.azure.blob.storage import Storage
from aml_train.azure.http import HttpWay
from aml_train.azure.workspace import AzureRest
from aml_train.core.errors import InvalidError, ServiceError
from aml_train.core.references import is_digest

_FOLDER: Final = "aml-train/images"
#: Others win a claim as often as there are runs at once; each of these is a write of another run.
_ATTEMPTS: Final = 50


class BlobClaims:
    """See :class:`aml_train.image.context.Claims`.

    Args:
        storage: opens the container; called for the first claim.
    """

    def __init__(self, storage: Callable[[], Storage]) -> None:
        self._storage = storage

    def claim(self, name: str, digest: str, *, replaces: Callable[[str], bool]) -> str:
        """See :meth:`aml_train.image.context.Claims.claim`."""
        try:
            storage = self._storage()
        except InvalidError as error:
            raise ServiceError(error.message, hint=error.hint) from error
        blob = f"{_FOLDER}/{name}"
        for _ in range(_ATTEMPTS):
            found = storage.content(blob)
            content, etag = found if found is not None else (b"", None)
            other = content.decode("ascii", errors="replace").strip()
            # Ours is there after a write whose answer was lost.
            if other == digest or (is_digest(other) and not replaces(other)):
                return other
            if storage.put_if(blob, digest.encode(), etag=etag):
                return digest
        raise ServiceError(f"Writing {blob!r} in {storage.place}: it changes at each attempt.", transient=True)


def claims_of(rest: AzureRest) -> BlobClaims:
    """Return the claims in a workspace's default datastore, looked up when needed."""

    def storage() -> Storage:
        data = workspace_of(rest, rest.credential, HttpWay(), rest.workspace.name)
        return data.storage(data.default_datastore())

    return BlobClaims(storage)
