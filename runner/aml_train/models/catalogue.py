"""Protocols of a workspace's models, and of the records of promotions.

Promotions and lineages need them besides jobs. The adapters are in :mod:`aml_train.azure`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Protocol

from aml_train.config.yaml.shapes import nearest
from aml_train.core.errors import InvalidError
from aml_train.jobs.workspace import ModelView


class Catalogue(Protocol):
    """Models, environments and data assets.

    Every method raises ServiceError if the service refuses or does not answer.
    """

    def names(self) -> Iterator[str]:
        """Yield the names of all models."""

    def version(self, name: str, version: str) -> ModelView | None:
        """Return one version of a model, or None."""

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
    ) -> None:
        """Set tags of a version, and remove those whose value is None.

        Nothing else of the version changes.

        *guard* is called just before each request that writes, and may raise. Such a request ends within ten seconds, and is
        repeated after a transient failure. A tag that has the wanted value is not written.
        """

    def environment_image(self, job: str, node: str = "") -> str | None:
        """Return the image that the job's environment names; None if it is built.

        Args:
            job: its name. A sweep has the environment of its trials.
            node: a node of a pipeline job; without one, the image counts that all nodes have.
        """

    def has_data(self, name: str, version: str) -> bool:
        """Return whether that version of a data asset is registered."""


def no_model(catalogue: Catalogue, name: str) -> InvalidError:
    """Return the error for a model that is not in the workspace; its hint names the one that may be meant."""
    near = nearest(name, tuple(catalogue.names()))
    meant = f"Did you mean {near}? " if near else ""
    return InvalidError(f"There is no model {name} in the workspace.", hint=f"{meant}See: aml-train model list")


class LockedRecord(Protocol):
    """A model's record that only this process may write while its lock lasts.

    Every method raises :class:`aml_train.core.errors.ServiceError` if the lock was lost or the storage refuses.
    """

    def renew(self) -> None:
        """Check that the lock is still ours, and extend it to its full time.

        Called just before each write elsewhere, which must take less time than the lock lasts.
        """

    def read(self) -> bytes:
        """Return the record; empty for none."""

    def write(self, content: bytes) -> None:
        """Replace the record. The storage itself refuses this if the lock was lost."""


class PromotionStore(Protocol):
    """The records of a workspace's promotions."""

    def read(self, model: str) -> bytes:
        """Return the record of *model* without locking it; empty for none.

        Raises:
            ServiceError: the storage refuses or does not answer.
        """

    def hold(self, model: str) -> AbstractContextManager[LockedRecord]:
        """Lock the record of *model*, after waiting for another holder.

        The lock is released at the end, or when this process dies.

        Raises:
            ServiceError: another process holds it for too long, or the storage refuses or does not answer.
        """


@dataclass(frozen=True, kw_only=True)
class StoredFile:
    """A file in the workspace's storage.

    Attributes:
        path: relative.
        size: bytes.
        read: yields the contents.
    """

    path: str
    size: int
    read: Callable[[], Iterator[bytes]] = field(repr=False)


class PassportStore(Protocol):
    """The files that passports are about, and the passports of a workspace's models.

    Every method raises ServiceError if the storage refuses or does not answer, InvalidError for another kind of storage.
    """

    def model_files(self, model: ModelView) -> Iterator[StoredFile]:
        """Yield the files of a registered version, from the place that it names."""

    def code_files(self, job: str) -> Iterator[StoredFile] | None:
        """Return the files of the code snapshot that *job* ran; None if it ran none."""

    def read(self, model: str, version: str, name: str) -> bytes:
        """Return a document that is kept with a version; empty for none."""

    def write(self, model: str, version: str, name: str, content: bytes) -> None:
        """Keep a document with a version; one of that name is replaced."""
