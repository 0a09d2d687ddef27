"""A look-up of base images that finds them by a function, and never looks into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Self

from aml_train.config.sections.image import ImageConfig
from aml_train.core.references import ImageRef
from aml_train.image.base import BaseImages
from aml_train.image.inputs import BaseImage


class Bases(BaseImages):
    """Finds bases by *find*."""

    def __init__(self, find: Callable[[ImageRef, str], BaseImage]) -> None:
        object.__setattr__(self, "find", find)

    def resolve(self, reference: ImageRef, platform: str) -> BaseImage:
        found: BaseImage = self.find(reference, platform)  # type: ignore[attr-defined]
        return found

    def distribution(self, base: BaseImage, platform: str) -> str:
        raise AssertionError("no base is looked into")

    def drivers(self, base: BaseImage, platform: str) -> str | None:
        raise AssertionError("no base is looked into")

    def for_image(self, image: ImageConfig) -> Self:
        return self
