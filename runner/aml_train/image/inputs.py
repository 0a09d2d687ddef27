"""What an image is made of beside its configuration: files, the base's distribution, other images. Values only."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from aml_train.core.files import FileSet

REQUIREMENTS: Final = "requirements.txt"
LARGE_PINS: Final = "requirements-large.txt"
CONSTRAINTS: Final = "constraints.txt"
ENVIRONMENT: Final = "environment.yml"
PROTECT: Final = "protect.py"


@dataclass(frozen=True, kw_only=True)
class OwnDockerfile:
    """The user's Dockerfile with every image that it names pinned.

    Attributes:
        text: what is built.
        images: references as they were written → as they are pinned, those of all stages.
    """

    text: str
    images: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ImageInputs:
    """What the world said; made by :func:`aml_train.image.collect.collect_inputs`.

    Attributes:
        files: path in the build context → contents. Their mode is always 0644.
        trees: path in the build context → files below it, with modes and links.
        requirements: path in the context of the requirements file; None for none.
        os: distribution of the base in NVIDIA's words, where the drivers need it.
        micromamba: pinned reference of the image that has ``/bin/micromamba``, where a conda environment is made.
        refreshed: the day since which nothing that apt and pip installed is kept, ``2026-11-16``; None for no bound.
        own: the user's Dockerfile, where there is one.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    trees: Mapping[str, FileSet] = field(default_factory=dict)
    requirements: str | None = None
    os: str | None = None
    micromamba: str | None = None
    refreshed: str | None = None
    own: OwnDockerfile | None = None

    def digests(self) -> dict[str, list[str]]:
        """Return what the content address covers of the files: path → mode and SHA-256. Reads the trees."""
        return {
            **{name: ["100644", hashlib.sha256(content).hexdigest()] for name, content in self.files.items()},
            **{name: ["tree", tree.digest()] for name, tree in self.trees.items()},
        }
