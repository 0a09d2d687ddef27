"""The models of a workspace in memory, for tests of promotions: see :class:`tests.support.memory_workspace.MemoryService`."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from aml_train.core.errors import ServiceError
from aml_train.jobs.workspace import ModelView
from tests.support.memory_workspace import MemoryService


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
