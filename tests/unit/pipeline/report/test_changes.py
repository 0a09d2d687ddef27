"""The packages that differ between the images of two jobs."""

from __future__ import annotations

from typing import Any

import pytest

from aml_train.core.errors import ImageError, ServiceError
from aml_train.core.masking import Masker
from aml_train.pipeline.report import PackageChange, images
from aml_train.pipeline.report.changes import image_changes
from tests.support.passport_world import JOB
from tests.unit.pipeline.report.test_collect import sources, world


def test_packages_that_differ_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    packages = iter(
        ({"pip:torch": "2.6", "pip:numpy": "2"}, {"pip:torch": "2.5", "pip:numpy": "2", "deb:bash": "5-secret"})
    )
    monkeypatch.setattr(images, "read_packages_of", lambda *_args: next(packages))
    found = image_changes(sources(world(), masker=Masker({"5-secret"})), JOB, JOB)
    assert found.changes == (
        PackageChange(name="bash", kind="deb", before="***"),
        PackageChange(name="torch", kind="pip", before="2.5", after="2.6"),
    )
    assert found.more_changes == 0


def test_equal_images_have_no_differences() -> None:
    assert image_changes(sources(world()), JOB, JOB).changes == ()


def test_a_job_that_is_gone_is_named() -> None:
    with pytest.raises(ServiceError, match="The packages of the image of gone are not known: the job does not exist"):
        image_changes(sources(world()), JOB, "gone")


def test_packages_that_are_not_known_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any) -> dict[str, str]:
        raise ImageError("The packages are not known.")

    monkeypatch.setattr(images, "read_packages_of", refuse)
    with pytest.raises(ImageError, match="are not known"):
        image_changes(sources(world()), JOB, JOB)
