"""The models of a workspace in memory, and the records of their promotions."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from aml_train.core.errors import ServiceError
from aml_train.jobs.workspace import ModelView
from aml_train.testing.memory import MemoryService


@dataclass
class MemoryCatalogue:
    """See :class:`aml_train.models.catalogue.Catalogue`.

    Attributes:
        service: has the jobs and the models.
        images: job → image, of jobs that were not submitted to *service*.
        data: the versions of data assets that there are, as ``NAME:VERSION``.
    """

    service: MemoryService
    images: dict[str, str] = field(default_factory=dict)
    data: Collection[str] = ()

    def names(self) -> Iterator[str]:
        """See :meth:`aml_train.models.catalogue.Catalogue.names`."""
        return iter(sorted({model.name for model in self.service.registered}))

    def version(self, name: str, version: str) -> ModelView | None:
        """See :meth:`aml_train.models.catalogue.Catalogue.version`."""
        return next((one for one in self.service.models(name) if one.version == version), None)

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
    ) -> None:
        """See :meth:`aml_train.models.catalogue.Catalogue.change_tags`."""
        found = self.version(name, version)
        if found is None:
            raise ServiceError(f"Changing the tags of the model {name}:{version}: there is no such version.")
        tags = {key: value for key, value in {**found.tags, **changes}.items() if value is not None}
        if tags == found.tags:
            return
        guard()
        self.service.registered[self.service.registered.index(found)] = replace(found, tags=tags)

    def environment_image(self, job: str, node: str = "") -> str | None:
        """See :meth:`aml_train.models.catalogue.Catalogue.environment_image`."""
        work = self.service.work.get(job)
        environment = work.spec.document.get("environment") if work is not None else None
        image = environment.get("image") if isinstance(environment, Mapping) else None
        return str(image) if image else self.images.get(job)

    def has_data(self, name: str, version: str) -> bool:
        """See :meth:`aml_train.models.catalogue.Catalogue.has_data`."""
        return f"{name}:{version}" in self.data


@dataclass
class MemoryRecords:
    """See :class:`aml_train.models.catalogue.PromotionStore`.

    Attributes:
        contents: the record of each model.
    """

    contents: dict[str, bytes] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def read(self, model: str) -> bytes:
        """See :meth:`aml_train.models.catalogue.PromotionStore.read`."""
        return self.contents.get(model, b"")

    @contextlib.contextmanager
    def hold(self, model: str) -> Iterator[HeldRecord]:
        """See :meth:`aml_train.models.catalogue.PromotionStore.hold`."""
        with self._lock:
            yield HeldRecord(store=self, model=model)


@dataclass
class HeldRecord:
    """See :class:`aml_train.models.catalogue.LockedRecord`; the lock is never lost."""

    store: MemoryRecords
    model: str

    def renew(self) -> None:
        """See :meth:`aml_train.models.catalogue.LockedRecord.renew`."""

    def read(self) -> bytes:
        """See :meth:`aml_train.models.catalogue.LockedRecord.read`."""
        return self.store.read(self.model)

    def write(self, content: bytes) -> None:
        """See :meth:`aml_train.models.catalogue.LockedRecord.write`."""
        self.store.contents[self.model] = content
