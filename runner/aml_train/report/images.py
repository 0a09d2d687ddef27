"""Read the images of a report: packages, tests, and differences of packages."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Final

from aml_train.core.errors import ImageError
from aml_train.core.references import ImageRef, is_digest
from aml_train.core.tags import TAG_ADDRESS, TAG_DIGEST, TAG_IMAGE, TAG_IMAGES, TAG_TESTED
from aml_train.image.readiness.check import installed_packages, load_facts
from aml_train.image.records import any_record, proposals_of
from aml_train.jobs.workspace import JobView
from aml_train.models.catalogue import Catalogue
from aml_train.report import values

if TYPE_CHECKING:
    from aml_train.image.registry.client import Registry

_MOST_PACKAGES: Final = 2_000
_MOST_CHANGES: Final = 200


def image_of(view: JobView, catalogue: Catalogue) -> values.Image | None:
    """Return the image that a job ran in, by its tags, else by its environment.

    Raises:
        ServiceError: the service does not answer.
    """
    name, digest = view.tags.get(TAG_IMAGE, ""), view.tags.get(TAG_DIGEST, "")
    if name and digest:
        return values.Image(reference=name, digest=digest, address=view.tags.get(TAG_ADDRESS, ""), how="")
    found = catalogue.environment_image(view.name)
    if found is None:
        return None
    return values.Image(reference=found, digest=_digest(found), how="given")


def further_images(tags: Mapping[str, str]) -> Iterator[values.Image]:
    """Yield the further images of a pipeline, by the job's tags. Pure."""
    for tag, text in sorted(tags.items()):
        if tag.startswith(TAG_IMAGES):
            try:
                reference = str(json.loads(text)["image"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue  # tags can be changed by hand: what is no image of ours is none
            name = tag.removeprefix(TAG_IMAGES)
            yield values.Image(name=name, reference=reference, digest=_digest(reference))


def _digest(reference: str) -> str:
    return reference.partition("@")[2]


def pinned(image: values.Image) -> ImageRef | None:
    """Return the name of an image with its digest; None if it has none. Pure."""
    if not is_digest(image.digest):
        return None
    try:
        return ImageRef.parse(image.reference).with_digest(image.digest)
    except ValueError:
        return None


def read_packages_of(registry: Callable[[str], Registry | None], image: values.Image) -> Mapping[str, str]:
    """Return the packages of a job's image by the facts of its readiness checks: ``pip:numpy`` → version.

    Raises:
        ImageError: they are not known, and the message says why; the registry refuses, or the facts are damaged.
    """
    reference = pinned(image)
    if reference is None:
        raise ImageError(f"The packages of {image.reference} are not known: it has no digest.")
    opened = registry(reference.registry)
    if opened is None:
        raise ImageError(
            f"The packages of the image are not known: the registry {reference.registry} is not reached from here."
        )
    with opened:
        for place in dict.fromkeys((reference.repository, proposals_of(reference.repository))):
            if (facts := load_facts(opened, place, image.digest)) is not None:
                return installed_packages(facts)
    raise ImageError(
        f"The packages of {reference.familiar} are not known: its registry has no facts of this version's readiness checks."
    )


def read_tests(registry: Callable[[str], Registry | None], image: values.Image, view: JobView) -> values.Tests | None:
    """Return the record of the tests that passed in a job's image; None without one.

    Raises:
        ImageError: the registry refuses, or the record is damaged.
    """
    reference, key = pinned(image), view.tags.get(TAG_TESTED, "")
    opened = registry(reference.registry) if reference is not None and key and " " not in key else None
    if opened is None or reference is None:
        return None
    with opened:
        record = any_record(opened, reference.repository, image.digest, key)
    if record is None:
        return None
    return values.Tests(
        passed=record.passed, failed=record.failed, skipped=record.skipped, seconds=record.seconds, cached=True
    )


def packages_of(packages: Mapping[str, str]) -> tuple[values.Package, ...]:
    """Return packages as values: ``pip:numpy`` → version. Pure."""
    found = []
    for name, version in itertools.islice(sorted(packages.items()), _MOST_PACKAGES):
        kind, colon, rest = name.partition(":")
        found.append(values.Package(name=rest if colon else name, version=version, kind=kind if colon else "pip"))
    return tuple(found)


def changed_packages(
    before: Mapping[str, str], after: Mapping[str, str]
) -> tuple[tuple[values.PackageChange, ...], int]:
    """Return the packages that differ, and how many more do. Pure."""
    names = [name for name in sorted({*before, *after}) if before.get(name) != after.get(name)]
    changes = []
    for name in names[:_MOST_CHANGES]:
        (one,) = packages_of({name: ""})
        changes.append(
            values.PackageChange(name=one.name, kind=one.kind, before=before.get(name, ""), after=after.get(name, ""))
        )
    return tuple(changes), len(names) - len(changes)
