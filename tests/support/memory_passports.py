"""The files of models and code in memory, and the passports: see :class:`aml_train.models.catalogue.PassportStore`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial

from aml_train.core.errors import ServiceError
from aml_train.jobs.workspace import ModelView
from aml_train.models.catalogue import StoredFile


@dataclass
class MemoryPassports:
    """See :class:`aml_train.models.catalogue.PassportStore`.

    Attributes:
        models: the files of models: a version's path → relative path → contents.
        code: the files of code snapshots: job → relative path → contents.
        data: the files of data: address → relative path → contents.
        kept: what is kept with versions: model, version, name → contents.
        fault: raised by every read of files; None for none.
    """

    models: dict[str, dict[str, bytes]] = field(default_factory=dict)
    code: dict[str, dict[str, bytes]] = field(default_factory=dict)
    kept: dict[tuple[str, str, str], bytes] = field(default_factory=dict)
    fault: ServiceError | None = None

    def model_files(self, model: ModelView) -> Iterator[StoredFile]:
        """See :meth:`aml_train.models.catalogue.PassportStore.model_files`."""
        if model.path not in self.models:
            raise ServiceError(f"There is nothing at {model.path}.")
        return self._files(self.models[model.path])

    def code_files(self, job: str) -> Iterator[StoredFile] | None:
        """See :meth:`aml_train.models.catalogue.PassportStore.code_files`."""
        return self._files(self.code[job]) if job in self.code else None

    def read(self, model: str, version: str, name: str) -> bytes:
        """See :meth:`aml_train.models.catalogue.PassportStore.read`."""
        return self.kept.get((model, version, name), b"")

    def write(self, model: str, version: str, name: str, content: bytes) -> None:
        """See :meth:`aml_train.models.catalogue.PassportStore.write`."""
        self.kept[model, version, name] = content

    def _files(self, files: Mapping[str, bytes]) -> Iterator[StoredFile]:
        if self.fault is not None:
            raise self.fault
        for path, content in files.items():
            yield StoredFile(path=path, size=len(content), read=partial(iter, [content]))
