"""The packages that differ between the images of a job and of its baseline."""

from __future__ import annotations

from collections.abc import Mapping

from aml_train.core.errors import ImageError, ServiceError
from aml_train.pipeline.report import images, values
from aml_train.pipeline.report.convert import ReportSources
from aml_train.pipeline.report.tidying import tidy


def image_changes(sources: ReportSources, job: str, baseline: str) -> values.Image:
    """Return the image of *job*, with the packages that differ from the baseline's.

    Raises:
        ImageError: the packages of one of them are not known, and the message says why.
        ServiceError: a job does not exist, or the service does not answer.
    """
    (ours, after), (theirs, before) = (_image(sources, name) for name in (job, baseline))
    changes, more = images.changed_packages(before, after)
    changed = values.Image(
        reference=ours.reference, digest=ours.digest, against=theirs.digest, changes=changes, more_changes=more
    )
    return tidy(changed, sources.masker.mask)


def _image(sources: ReportSources, job: str) -> tuple[values.Image, Mapping[str, str]]:
    view = sources.service.find(job)
    if view is None:
        raise ServiceError(f"The packages of the image of {job} are not known: the job does not exist any more.")
    image = images.image_of(view, sources.catalogue)
    if image is None:
        raise ImageError(f"The packages of the image of {job} are not known: the job names no image.")
    return image, images.read_packages_of(sources.registry, image, view)
