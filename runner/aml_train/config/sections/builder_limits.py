"""Keys that a service which builds images cannot obey, found in the file."""

from __future__ import annotations

from typing import Final

from aml_train.config.section import CheckedTree
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.tests import TestsConfig

_REMEDY: Final = "use the builder `local` or `remote`"


def check_builder(checked: CheckedTree, image: ImageConfig | None, tests: TestsConfig | None) -> None:
    """Report the keys that the builder of *image* cannot obey."""
    if image is None or not image.builder.is_service:
        return
    if image.secrets:
        checked.fault(
            "`image.secrets` and the builder `acr` exclude each other",
            "image",
            "secrets",
            why="ACR Tasks would take a secret as a part of the request",
            remedy=f"{_REMEDY}, or build without secrets",
        )
    if image.sbom is not None:
        checked.fault(
            "`image.sbom` and the builder `acr` exclude each other",
            "image",
            "sbom",
            why="the list is made in an engine, and ACR Tasks keeps no image in one",
            remedy=_REMEDY,
        )
    if tests is not None and tests.limits.gpus == "all":
        checked.fault(
            "`tests.gpus: all` and the builder `acr` exclude each other",
            "tests",
            "gpus",
            why="ACR Tasks tests on machines without GPUs",
            remedy=f"{_REMEDY}, or write `gpus: auto`",
        )
