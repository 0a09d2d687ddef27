"""What promoting and lineage ask of a workspace beside its jobs: a Protocol. The adapter is :mod:`aml_train.azure.models`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Protocol

from aml_train.jobs import ModelView


class Catalogue(Protocol):
    """Models, environments and data assets. Every method raises ServiceError (exit code 8) when the service refuses or stays away."""

    def names(self) -> Iterator[str]:
        """Yield the names of the models that there are."""

    def version(self, name: str, version: str) -> ModelView | None:
        """Return one version of a model, or None."""

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
    ) -> None:
        """Set tags of a version, and take those away whose value is None; nothing else of it changes.

        *guard* is called just before each request that writes, and may raise. Such a request ends within ten seconds, and is
        repeated after a transient failure. What is as wanted already is not written.
        """

    def environment_image(self, job: str) -> str | None:
        """Return the image that the job's environment names; None where it names none, as one that is built does."""

    def has_data(self, name: str, version: str) -> bool:
        """Tell whether that version of a data asset is registered."""
