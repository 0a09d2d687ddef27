"""Keys that a service which builds images cannot obey, found in the file."""

from __future__ import annotations

from typing import Final

from aml_train.config.section import CheckedTree
from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.tests import TestsConfig

_TITLES: Final = {"acr": "ACR Tasks", "azureml": "AzureML's build of environments"}
_REMEDY: Final = "use the builder `local` or `remote`"


def check_builder(checked: CheckedTree, image: ImageConfig | None, tests: TestsConfig | None) -> None:
    """Report the keys that the builder of *image* cannot obey."""
    if image is None or not image.builder.is_service:
        return
    title = _TITLES[image.builder.kind]
    if image.secrets:
        checked.fault(
            f"`image.secrets` and the builder `{image.builder.kind}` exclude each other",
            "image",
            "secrets",
            why=f"{title} would take a secret as a part of the request",
            remedy=f"{_REMEDY}, or build without secrets",
        )
    if image.sbom is not None:
        checked.fault(
            f"`image.sbom` and the builder `{image.builder.kind}` exclude each other",
            "image",
            "sbom",
            why=f"the list is made in an engine, and {title} keeps no image in one",
            remedy=_REMEDY,
        )
    if image.builder.kind == "azureml" and image.dockerfile is not None:
        checked.fault(
            "`image.dockerfile` and the builder `azureml` exclude each other",
            "image",
            "dockerfile",
            why=f"{title} has no BuildKit, no arguments and no target: only a rendered Dockerfile is known to build there",
            remedy="use the builder `acr`, `local` or `remote`",
        )
    if tests is not None and tests.limits.gpus == "all":
        checked.fault(
            f"`tests.gpus: all` and the builder `{image.builder.kind}` exclude each other",
            "tests",
            "gpus",
            why=f"{title} tests on machines without GPUs",
            remedy=f"{_REMEDY}, or write `gpus: auto`",
        )
