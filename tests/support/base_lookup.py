"""A look-up of base images that finds them by a function, and never looks into one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

from aml_train.config.sections.image import ImageConfig
from aml_train.core.references import ImageRef
from aml_train.image.inputs import BaseImage


@dataclass
class Bases:
    """See :class:`aml_train.pipeline.resolve.ImageLookup`."""

    find: Callable[[ImageRef, str], BaseImage]

    def resolve(self, reference: ImageRef, platform: str) -> BaseImage:
        return self.find(reference, platform)

    def distribution(self, base: BaseImage, platform: str) -> str:
        raise AssertionError("no base is looked into")

    def drivers(self, base: BaseImage, platform: str) -> str | None:
        raise AssertionError("no base is looked into")

    def for_image(self, image: ImageConfig) -> Self:
        return self
