"""The inputs of an image: its base, files of the build context, own Dockerfile."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib import resources
from typing import Final

from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef

REQUIREMENTS: Final = "requirements.txt"
LARGE_PINS: Final = "requirements-large.txt"
CONSTRAINTS: Final = "constraints.txt"
ENVIRONMENT: Final = "environment.yml"
PROTECT: Final = "protect.py"
SOLVE: Final = "solve.py"
SOLVED: Final = "aml-train-solved.json"


@dataclass(frozen=True, kw_only=True)
class BaseImage:
    """The image to build FROM, resolved by :func:`aml_train.image.base.resolve_base`.

    Attributes:
        reference: the reference as the user wrote it.
        digest: the manifest's (or index's) digest in its registry; None for an image that is in no registry.
        image_id: the engine's image id, where the engine has the image.
    """

    reference: ImageRef
    digest: str | None = None
    image_id: str | None = None

    @property
    def local_only(self) -> bool:
        """Whether the image is in the engine only.

        ``FROM`` then names its tag, and the build verifies that the tag did not move meanwhile.
        """
        return self.digest is None

    @property
    def pinned(self) -> str:
        """The name for ``FROM``: pinned, or the tag of an image that only the engine has."""
        if self.digest is not None:
            return self.reference.with_digest(self.digest).familiar
        return self.reference.familiar

    @property
    def identity(self) -> str:
        """The base in the content address: the manifest's digest, else the image id."""
        return str(self.digest or self.image_id)


@dataclass(frozen=True, kw_only=True)
class OwnDockerfile:
    """The user's Dockerfile with every image that it names pinned.

    Attributes:
        text: what is built.
        images: references as they were written → what they are, those of all stages.
        pinned: the names in *text*.
    """

    text: str
    images: Mapping[str, str]
    pinned: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class ImageInputs:
    """The inputs of an image; made by :func:`collect_inputs`.

    Attributes:
        files: path in the build context → contents. Their mode is always 0644.
        trees: path in the build context → files below it, with modes and links.
        requirements: path in the context of the requirements file; None for none.
        os: distribution of the base in NVIDIA's words, where the drivers need it.
        drivers: the InfiniBand drivers that the base brings, where ``ofed: auto`` depends on them; None for none.
        micromamba: pinned reference of the image that has ``/bin/micromamba``, where a conda environment is made.
        refreshed: the day since which nothing that apt and pip installed is kept, ``2026-11-16``; None for no bound.
        own: the user's Dockerfile, where there is one.
        places: normalised name of a package → ``file:line`` of the project that requires it.
    """

    files: Mapping[str, bytes] = field(default_factory=dict)
    trees: Mapping[str, FileSet] = field(default_factory=dict)
    requirements: str | None = None
    os: str | None = None
    drivers: str | None = None
    micromamba: str | None = None
    refreshed: str | None = None
    own: OwnDockerfile | None = None
    places: Mapping[str, str] = field(default_factory=dict)

    def digests(self) -> dict[str, list[str]]:
        """Read the trees; return what the address covers: path → mode and SHA-256."""
        return {
            **{name: ["100644", hashlib.sha256(content).hexdigest()] for name, content in self.files.items()},
            **{name: ["tree", tree.digest()] for name, tree in self.trees.items()},
        }


def build_script(name: str) -> bytes:
    """Return a script that runs in a build: :data:`PROTECT` or :data:`SOLVE`."""
    return resources.files("aml_train.image.dockerfile.in_build").joinpath(name).read_bytes()
