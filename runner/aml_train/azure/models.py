"""Models, environments, data assets and passports of a workspace, for promotion and lineage."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Final
from urllib.parse import quote

from aml_train.azure.blob.datastores import DataWorkspace
from aml_train.azure.blob.operations import model_place
from aml_train.azure.blob.storage import AzureBlobs, Entry
from aml_train.azure.composed import node_environments
from aml_train.azure.http import JOBS_API, error_for
from aml_train.azure.workspace import AzureRest, model_view
from aml_train.core.answers import MOST_BYTES
from aml_train.core.clock import Clock
from aml_train.core.errors import ServiceError
from aml_train.jobs.workspace import ModelView
from aml_train.models.catalogue import StoredFile

_API: Final = {"api-version": "2023-08-01-preview"}
#: What a PUT of a model's version holds (azure-ai-ml 1.34.1, ``_restclient/v2023_08_01_preview``, ModelVersionProperties),
#: without ``provisioningState``, which is read-only.
_WRITTEN: Final = (
    "description",
    "properties",
    "tags",
    "autoDeleteSetting",
    "isAnonymous",
    "isArchived",
    "flavors",
    "intellectualProperty",
    "jobName",
    "modelType",
    "modelUri",
    "stage",
)
_ATTEMPTS: Final = 5
_ENVIRONMENT: Final = re.compile(r"/subscriptions/.+/environments/[^/]+/versions/[^/]+", re.IGNORECASE)


class AzureCatalogue:
    """See :class:`aml_train.models.catalogue.Catalogue`."""

    def __init__(self, rest: AzureRest, clock: Clock) -> None:
        self._rest = rest
        self._clock = clock

    def names(self) -> Iterator[str]:
        for item in self._rest.items(self._rest.arm("/models"), "Listing the models", params=_API):
            yield item.text("name")

    def version(self, name: str, version: str) -> ModelView | None:
        found = self._rest.read(self._address(name, version), f"Looking for the model {name}:{version}", params=_API)
        return None if found is None else model_view(name, found)

    def change_tags(
        self, name: str, version: str, changes: Mapping[str, str | None], *, guard: Callable[[], None]
    ) -> None:
        """See :meth:`aml_train.models.catalogue.Catalogue.change_tags`.

        The version is written back as it was read, but for its tags: azure-ai-ml's own update does the same, and forgets what its
        entity does not know.
        """
        what = f"Changing the tags of the model {name}:{version}"
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return self._change(name, version, changes, guard, what)
            except ServiceError as error:
                if not error.transient or attempt == _ATTEMPTS:
                    raise
            self._clock.sleep(min(0.2 * 2**attempt, 3.0))
        return None

    def _change(
        self, name: str, version: str, changes: Mapping[str, str | None], guard: Callable[[], None], what: str
    ) -> None:
        found = self._rest.read(self._address(name, version), what, params=_API)
        if found is None:
            raise ServiceError(f"{what}: there is no such version any more.")
        properties = found.mapping("properties")
        before = found.texts("properties.tags")
        merged = {**before, **changes}
        tags = {key: value for key, value in merged.items() if value is not None}
        if tags == before:
            return
        kept = {key: properties[key] for key in _WRITTEN if properties.get(key) not in (None, {})}
        guard()
        response = self._rest.once(
            "PUT", self._address(name, version), what, params=_API, body={"properties": {**kept, "tags": tags}}
        )
        if not response.ok:
            raise error_for(response, what)

    def environment_image(self, job: str, node: str = "") -> str | None:
        what = f"Looking for the environment of the job {job}"
        found = self._rest.read(self._rest.arm(f"/jobs/{quote(job)}"), what, params={"api-version": JOBS_API})
        if found is None:
            return None
        properties = found.at("properties")
        if (properties.optional_text("jobType") or "").lower() == "pipeline":
            environments = dict(node_environments(self._rest, properties.members("jobs"), what))
            chosen = set(environments.values()) if not node else {environments.get(node)}
        else:
            place = "environmentId" if properties.has("environmentId") else "trial.environmentId"
            chosen = {properties.optional_text(place)}
        images = {self._image_of(environment or "", what) for environment in chosen}
        return images.pop() if len(images) == 1 else None

    def _image_of(self, environment: str, what: str) -> str | None:
        environment = environment.removeprefix("azureml:")
        if not _ENVIRONMENT.fullmatch(environment):
            return None
        known = self._rest.read(f"{self._rest.cloud.arm}{environment}", what, params=_API)
        return None if known is None else known.optional_text("properties.image") or None

    def has_data(self, name: str, version: str) -> bool:
        url = self._rest.arm(f"/data/{quote(name)}/versions/{quote(version)}")
        return self._rest.read(url, f"Looking for the data asset {name}:{version}", params=_API) is not None

    def _address(self, name: str, version: str) -> str:
        return self._rest.arm(f"/models/{quote(name)}/versions/{quote(version)}")


_VERSIONS_API: Final = {"api-version": "2023-04-01"}
_FOLDER: Final = "aml-train/passport"


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
        version = self._rest.read(f"{self._rest.cloud.arm}{quote(code)}", what, params=_VERSIONS_API)
        if version is None:
            return iter(())
        uri = version.text("properties.codeUri")
        storage, path = self._data.storage_of(uri, f"The code of the job {job}")
        return _files(storage, path)

    def read(self, model: str, version: str, name: str) -> bytes:
        """See :meth:`aml_train.models.catalogue.PassportStore.read`."""
        storage = self._storage()
        entry = storage.find(_name(model, version, name))
        content = bytearray()
        for data in storage.chunks(entry) if entry is not None else ():
            content += data
            if len(content) > MOST_BYTES:
                break  # one byte more than a document may have is enough to refuse it
        return bytes(content[: MOST_BYTES + 1])

    def write(self, model: str, version: str, name: str, content: bytes) -> None:
        """See :meth:`aml_train.models.catalogue.PassportStore.write`."""
        md5 = hashlib.md5(content, usedforsecurity=False).digest()
        self._storage().upload(_name(model, version, name), iter([content]), len(content), md5=md5)

    def _storage(self) -> AzureBlobs:
        return self._data.storage(self._data.default_datastore())


def _files(storage: AzureBlobs, path: str) -> Iterator[StoredFile]:
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


def _stored(storage: AzureBlobs, path: str, entry: Entry) -> StoredFile:
    return StoredFile(path=path, size=entry.size, read=partial(storage.chunks, entry))


def _name(model: str, version: str, name: str) -> str:
    return f"{_FOLDER}/{model}/{version}/{name}"
