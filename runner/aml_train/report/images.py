"""Read the images of a report: their packages and tests, and which packages differ."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aml_train.core.comparison import Row
from aml_train.core.errors import ImageError
from aml_train.core.events import ImageReady, TestsFinished
from aml_train.core.references import ImageRef, is_digest
from aml_train.core.tags import Tag
from aml_train.image.readiness.check import installed_packages, load_facts
from aml_train.image.records import any_record, places_of, results_of
from aml_train.jobs.workspace import JobView
from aml_train.models.catalogue import Catalogue
from aml_train.models.lineage import Tracer

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry

_MOST_CHANGES: Final = 200


def image_of(view: JobView, catalogue: Catalogue) -> ImageReady | None:
    """Return the image that a job ran in, by its tags, else by its environment.

    Raises:
        ServiceError: the service does not answer.
    """
    name, digest = view.tags.get(Tag.IMAGE, ""), view.tags.get(Tag.DIGEST, "")
    if name and digest:
        return ImageReady(reference=name, digest=digest, address=view.tags.get(Tag.ADDRESS, ""), how="found")
    found = catalogue.environment_image(view.name)
    if found is None:
        return None
    return ImageReady(reference=found, digest=_digest(found), address="", how="given")


def further_images(tags: Mapping[str, str]) -> Iterator[ImageReady]:
    """Yield the further images of a pipeline, by the job's tags. Pure."""
    for tag, text in sorted(tags.items()):
        if tag.startswith(Tag.IMAGES):
            try:
                reference = str(json.loads(text)["image"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # tags can be changed by hand: what is no image of ours is none
            name = tag.removeprefix(Tag.IMAGES)
            yield ImageReady(image_name=name, reference=reference, digest=_digest(reference), address="", how="found")


def _digest(reference: str) -> str:
    return reference.partition("@")[2]


def _open(sources: Tracer, image: ImageReady) -> tuple[Registry, ImageRef]:
    """Return the registry of an image, and the image's name.

    Raises:
        ImageError: the image has no digest.
        ServiceError: its registry is not reached from here.
    """
    try:
        reference = ImageRef.parse(image.reference)
    except ValueError:
        reference = None
    if reference is None or not is_digest(image.digest):
        raise ImageError(f"The packages of {image.reference} are not known: it has no digest.")
    return sources.open(reference.registry), reference


def read_packages_of(sources: Tracer, image: ImageReady) -> Mapping[str, str]:
    """Return the packages of a job's image by the facts of its readiness checks: ``pip:numpy`` → version.

    Raises:
        ImageError: they are not known, and the message says why; the registry refuses, or the facts are damaged.
    """
    opened, reference = _open(sources, image)
    with opened:
        for place in places_of(reference.repository):
            if (facts := load_facts(opened, place, image.digest)) is not None:
                return installed_packages(facts)
    raise ImageError(
        f"The packages of {reference.familiar} are not known: its registry has no facts of this version's readiness checks."
    )


def read_tests(sources: Tracer, image: ImageReady, view: JobView) -> TestsFinished | None:
    """Return the tests that passed in a job's image, by their record; None without one.

    Raises:
        ImageError: the registry is not reached or refuses, or the record is damaged.
    """
    key = view.tags.get(Tag.TESTED, "")
    if not key or " " in key:  # where nothing was tested, the tag is a sentence
        return None
    opened, reference = _open(sources, image)
    with opened:
        record = any_record(opened, reference.repository, image.digest, key)
    return None if record is None else results_of(record)


def changed_packages(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[Row, ...]:
    """Return the packages of *after* that differ from those of *before*. Pure."""
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    return tuple(
        Row(kind="package", name=name, left=after.get(name, "missing"), right=before.get(name, "missing"))
        for name in names[:_MOST_CHANGES]
    )
