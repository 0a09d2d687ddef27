"""Where a model's record lies, and how it is locked: a Protocol. The adapter is :mod:`aml_train.azure.blob.lease`."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Held(Protocol):
    """A record that this process alone may write, as long as it is renewed in time.

    Every method raises :class:`aml_train.core.errors.ServiceError` where the lock was lost or the storage refuses.
    """

    def renew(self) -> None:
        """Make sure that the lock is still ours, and that it lasts its whole time from now on.

        Called just before each write elsewhere, which must take less time than the lock lasts.
        """

    def read(self) -> bytes:
        """Return what is written; empty for nothing."""

    def write(self, content: bytes) -> None:
        """Write *content* in place of what is there. The storage itself refuses it where the lock was lost."""


class PromotionStore(Protocol):
    """The records of a workspace."""

    def read(self, model: str) -> bytes:
        """Return what is written of *model*, without locking it; empty for nothing.

        Raises:
            ServiceError: the storage refuses or does not answer.
        """

    def hold(self, model: str) -> AbstractContextManager[Held]:
        """Lock the record of *model*; wait for whoever holds it. It is let go of at the end, or by itself when this process dies.

        Raises:
            ServiceError: somebody else holds it for too long, or the storage refuses or does not answer.
        """
