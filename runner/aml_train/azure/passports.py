"""Files of models and of code in a workspace's storage, and the passports there."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import partial
from typing import Final
from urllib.parse import quote

from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import model_place
from aml_train.azure.blob.storage import Entry, Storage
from aml_train.azure.workspace import AzureRest
from aml_train.core.answers import MOST_BYTES
from aml_train.jobs.workspace import ModelView
from aml_train.models.catalogue import StoredFile

_API: Final = {"api-version": "2023-04-01"}
_FOLDER: Final = "aml-train/passport"
_CHUNK: Final = 8 << 20


class AzurePassports:
    """See :class:`aml_train.models.catalogue.PassportStore`.

    Passports are in the default datastore: ``aml-train/passport/MODEL/VERSION/NAME``.
    """

    def __init__(self, rest: AzureRest, data: DataWorkspace) -> None:
        self._rest = rest
        self._data = data

    def model_files(self, model: ModelView) -> Iterator[StoredFile]:
        """See :meth:`aml_train.models.catalogue.PassportStore.model_files`."""
        place = model_place(self._data, model.path, f"{model.name} version {model.version}")
        return _files(place.storage, place.path)

    def code_files(self, job: str) -> Iterator[StoredFile] | None:
        """See :meth:`aml_train.models.catalogue.PassportStore.code_files`."""
        what = f"Looking for the code of the job {job}"
        found = self._rest.find_job(job)
        code = None if found is None else found.optional_text("properties.codeId")
        if not code:
            return None
        version = self._rest.read(f"{self._rest.cloud.arm}{quote(code)}", what, params=_API)
        if version is None:
            return iter(())
        uri = version.text("properties.codeUri")
        storage, path = self._data.storage_of(uri, f"The code of the job {job}")
        return _files(storage, path)

    def read(self, model: str, version: str, name: str) -> bytes:
        """See :meth:`aml_train.models.catalogue.PassportStore.read`."""
        storage = self._storage()
        entry = storage.find(_name(model, version, name))
        # One byte more than a document may have is enough to refuse it.
        return b"" if entry is None else storage.read(entry, 0, min(entry.size, MOST_BYTES + 1))

    def write(self, model: str, version: str, name: str, content: bytes) -> None:
        """See :meth:`aml_train.models.catalogue.PassportStore.write`."""
        md5 = hashlib.md5(content, usedforsecurity=False).digest()
        self._storage().put(_name(model, version, name), content, md5=md5)

    def _storage(self) -> Storage:
        return self._data.storage(self._data.default_datastore())


def _files(storage: Storage, path: str) -> Iterator[StoredFile]:
    """Yield the files at *path*: a blob of that name, and all below it.

    The path is taken literally: as a pattern, it could leave out what a client reads. Files below a single file count, too:
    clients that download by prefix get them.
    """
    name = path.strip("/")
    leaf = name.rpartition("/")[2]
    single = storage.find(name) if name else None
    if single is not None:
        yield _stored(storage, leaf, single)
    folder = f"{name}/" if name else ""
    for entry in storage.walk(folder):
        relative = entry.name[len(folder) :]
        yield _stored(storage, relative if single is None else f"{leaf}/{relative}", entry)


def _stored(storage: Storage, path: str, entry: Entry) -> StoredFile:
    return StoredFile(path=path, size=entry.size, read=partial(_chunks, storage, entry))


def _chunks(storage: Storage, entry: Entry) -> Iterator[bytes]:
    """Yield a blob's contents; the storage refuses if it changes meanwhile."""
    for offset in range(0, entry.size, _CHUNK):
        yield storage.read(entry, offset, min(_CHUNK, entry.size - offset))


def _name(model: str, version: str, name: str) -> str:
    return f"{_FOLDER}/{model}/{version}/{name}"
