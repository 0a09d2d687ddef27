"""Bring a model's version into another workspace: image, files, lineage and passport; nothing is built or trained again.

Each step is addressed by a digest or by facts that cannot be changed, so that an interrupted copy is continued by the same call,
and finds what it made before. What arrived is looked up, by the lineage of the copy, before it counts.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from aml_train.core.errors import GateFailedError, ImageError
from aml_train.core.references import ImageRef
from aml_train.core.tags import Tag
from aml_train.image.records import record_tag
from aml_train.image.registry.copy import ImageCopy
from aml_train.jobs.workspace import ModelView, NewModel
from aml_train.models.passport.issue import PASSPORT_FILE
from aml_train.models.passport.manifest import SIGNATURE_FILE, hash_files
from aml_train.models.passport.observe import Evidence
from aml_train.models.promotion.change import title
from aml_train.models.register import FIXED, next_version, register_once

#: Where the files of copies are in the other workspace's default datastore, each model's below the digest of its files.
FOLDER: Final = "aml-train/copies"
#: What changes after a registration, and is about the workspace that the version is in.
_OF_STAGES: Final = (Tag.STAGE, "aml-train.promot", "aml-train.archived", "aml-train.replaced")


@dataclass(frozen=True, kw_only=True)
class Crossing:
    """The way from the workspace of models to another one.

    Attributes:
        workspace: the other workspace's name.
        origin: the resource id of the workspace that models come from.
        source, target: the services of the two.
        image_host: returns the registry of the other workspace's images.
        copy_files: copies the files of a version into a folder of the other workspace's default datastore; returns their path.
    """

    workspace: str
    origin: str
    source: Evidence
    target: Evidence
    image_host: Callable[[], str]
    copy_files: Callable[[ModelView, str], str]

    def id_of(self, model: ModelView) -> str:
        """Return the resource id of a version of the first workspace."""
        return f"{self.origin}/models/{model.name}/versions/{model.version}"

    def original(self, copy: ModelView, versions: Sequence[ModelView]) -> ModelView | None:
        """Return which of *versions* the *copy* is of, by the facts of its registration; None for none of them."""
        for one in versions:
            if copy.properties.get(Tag.COPY_OF) == self.id_of(one) and copy.origin == one.origin:
                return one
        return None

    def find(self, model: ModelView, copies: Sequence[ModelView]) -> ModelView | None:
        """Return the copy of *model* among the versions of the other workspace; None for none.

        Raises:
            ServiceError: the storage does not answer.
        """
        claimed = [one for one in copies if one.properties.get(Tag.COPY_OF) == self.id_of(model)]
        return _matching(claimed, self._facts(model)) if claimed else None

    def planned(self, model: ModelView, copies: Sequence[ModelView]) -> ModelView:
        """Return how the next version of the other workspace looks as the copy of *model*."""
        version = next_version([one.version for one in copies])
        return dataclasses.replace(model, version=version, path="", tags=self._tags(model), stage=None)

    def bring(self, model: ModelView) -> ModelView:
        """Copy *model* with all that belongs to it, unless it is there; return the copy.

        Raises:
            GateFailedError: what arrived is not what was sent.
            ImageError: a registry refuses or does not answer, or an image has another digest.
            ServiceError: a workspace or its storage refuses or does not answer.
        """
        facts = self._facts(model)
        self._copy_image(model)
        path = self.copy_files(model, f"{FOLDER}/{model.name}/{facts[Tag.FILES]}")
        copy = self._register(model, path, facts)
        self._copy_passport(model, copy)
        self.check(copy)
        return copy

    def check(self, copy: ModelView) -> None:
        """Look up the lineage of a copy.

        Raises:
            GateFailedError: it is broken, or its files cannot be read.
        """
        steps = list(self.target.trace(copy).walk())
        faults = [one for one in steps if one.state == "broken" or (one.kind == "files" and one.state != "verified")]
        if faults:
            told = "; ".join(f"{one.kind} {one.name}: {one.detail}" for one in faults)
            raise GateFailedError(
                f"{title(copy)} in the workspace {self.workspace} is not what was copied: {told}",
                hint="Its stage is as it was. Archive that version there, and run this again: it is copied anew.",
            )

    def _facts(self, model: ModelView) -> dict[str, str]:
        """Return the properties by which the copy is known."""
        files = hash_files(self.source.store.model_files(model))
        if files.fault is not None:
            raise GateFailedError(f"The files of {title(model)} cannot be copied: {files.fault}.")
        fixed = {name: model.tags[name] for name in FIXED if name in model.tags}
        return {Tag.JOB: model.origin or "", **fixed, Tag.COPY_OF: self.id_of(model), Tag.FILES: files.listing}

    def _tags(self, model: ModelView) -> dict[str, str]:
        """Return the tags of the copy: those of *model*, with the image in the other registry."""
        kept = {name: value for name, value in model.tags.items() if not name.startswith(_OF_STAGES)}
        image = _image_of(model)
        moved = {} if image is None else {Tag.IMAGE: str(dataclasses.replace(image, registry=self.image_host()))}
        return {Tag.JOB: model.origin or "", **kept, **moved}

    def _copy_image(self, model: ModelView) -> None:
        """Copy the image of the job with its test records and other referrers; a job's own environment stays where it is."""
        image = _image_of(model)
        host = self.image_host()
        if image is None or image.digest is None or image.registry == host:
            return
        key = model.tags.get(Tag.TESTED, "")
        records = [record_tag(image.digest, key)] if key and " " not in key else []
        with self.source.open(image.registry) as source, self.target.open(host) as target:
            copy = ImageCopy(source=source, target=target, repository=image.repository)
            copy.copy(image.digest, tags=[f"dig-{image.digest.removeprefix('sha256:')}"], documents=records)
            if (there := target.head_manifest(image.repository, image.digest)) != image.digest:
                raise ImageError(f"{host} has {there} as {image.repository}@{image.digest}: the image is another one")

    def _register(self, model: ModelView, path: str, facts: Mapping[str, str]) -> ModelView:
        """Register the copy, unless it is registered."""
        service = self.target.service
        versions = service.models(model.name)
        if (found := _matching(versions, facts)) is not None:
            return found
        new = NewModel(
            name=model.name,
            version="",
            path=path,
            type=model.type,
            description=model.description,
            tags=self._tags(model),
            properties=facts,
        )
        return register_once(service, new, versions, lambda present: _matching(present, facts))

    def _copy_passport(self, model: ModelView, copy: ModelView) -> None:
        named = model.tags.get(Tag.PASSPORT)
        if named is None:
            return
        found = {
            name: self.source.store.read(model.name, model.version, name) for name in (SIGNATURE_FILE, PASSPORT_FILE)
        }
        if named != f"sha256:{hashlib.sha256(found[PASSPORT_FILE]).hexdigest()}":
            raise GateFailedError(
                f"{title(model)} names the passport {named}, and its storage has another one, or none.",
                hint=f"Nothing was changed. See: aml-train verify {model.name}:{model.version}",
            )
        for name, content in found.items():
            if self.target.store.read(copy.name, copy.version, name) != content:
                self.target.store.write(copy.name, copy.version, name, content)


def _matching(versions: Sequence[ModelView], facts: Mapping[str, str]) -> ModelView | None:
    """Return the oldest version that was registered with all of these facts."""
    found = [one for one in versions if all(one.properties.get(name) == value for name, value in facts.items())]
    return found[-1] if found else None


def _image_of(model: ModelView) -> ImageRef | None:
    """Return the image of the version's job, by its digest; None for a job with its own environment."""
    image, digest = model.tags.get(Tag.IMAGE), model.tags.get(Tag.DIGEST)
    return None if image is None or digest is None else ImageRef.parse(image).with_digest(digest)
