"""The record of a build: what was built, from what, and the digest of each part."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Self

from scripts.release.commands import ReleaseError

RECORD: Final = "release.json"
CHECKSUMS: Final = "checksums.txt"
_OURS: Final = (RECORD, CHECKSUMS, ".oci.tar", ".spdx.json", ".whl", ".tar.gz", ".gitignore")


@dataclass(frozen=True, kw_only=True)
class Image:
    """A container image of the release.

    Attributes:
        name: ``action`` or ``emulator``.
        repository: its path in a registry.
        digest: of its manifest.
        config: digest of its configuration, by which some engines know it.
        archive: the file of its OCI layout.
        sbom: the file of its packages.
        bases: image in a Dockerfile → the digest that was used.
    """

    name: str
    repository: str
    digest: str
    config: str
    archive: str
    sbom: str
    bases: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class Distribution:
    """A file of the Python package."""

    file: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class Record:
    """One build, in a folder with its files.

    Attributes:
        repository: ``OWNER/NAME`` on GitHub.
        version: such as ``1.2.3``.
        commit: the full SHA of the commit that was built.
        epoch: its time in seconds since 1970.
        images, distributions: what was built.
    """

    repository: str
    version: str
    commit: str
    epoch: int
    images: tuple[Image, ...]
    distributions: tuple[Distribution, ...]

    @property
    def wheel(self) -> Distribution:
        """The wheel."""
        (wheel,) = (one for one in self.distributions if one.file.endswith(".whl"))
        return wheel

    def image(self, name: str) -> Image:
        """Return the image *name*."""
        (image,) = (one for one in self.images if one.name == name)
        return image

    def write(self, folder: Path) -> None:
        """Write the record and the checksums of all files of *folder*."""
        (folder / RECORD).write_text(json.dumps(asdict(self), indent=2, sort_keys=True) + "\n", encoding="utf-8")
        (folder / CHECKSUMS).write_text(
            "".join(f"{digest}  {name}\n" for name, digest in _checksums(folder).items()), encoding="utf-8"
        )

    @classmethod
    def read(cls, folder: Path) -> Self:
        """Return the record in *folder*, after all files have agreed with the checksums.

        Raises:
            ReleaseError: there is none, or a file was changed, added or removed.
        """
        try:
            lines = (folder / CHECKSUMS).read_text(encoding="utf-8").splitlines()
            text = (folder / RECORD).read_text(encoding="utf-8")
        except OSError as error:
            raise ReleaseError(
                f"{error.filename} cannot be read. Build the release first: python -m scripts.release build"
            ) from error
        wanted = {name: digest for digest, _, name in (line.partition("  ") for line in lines)}
        found = _checksums(folder)
        if changed := sorted(name for name in wanted.keys() | found.keys() if wanted.get(name) != found.get(name)):
            raise ReleaseError(f"{folder} is not what was built: {', '.join(changed)} changed since.")
        values = json.loads(text)
        values["images"] = tuple(Image(**one) for one in values["images"])
        values["distributions"] = tuple(Distribution(**one) for one in values["distributions"])
        return cls(**values)


def empty_output(folder: Path) -> None:
    """Make *folder*, without the files of an earlier build.

    Raises:
        ReleaseError: it has other files, which are left as they are.
    """
    folder.mkdir(parents=True, exist_ok=True)
    present = sorted(folder.iterdir())
    if others := [file.name for file in present if not file.name.endswith(_OURS) or not file.is_file()]:
        raise ReleaseError(f"--output {folder} has other files: {', '.join(others[:5])}. Name another folder.")
    for file in present:
        file.unlink()


def sha256_of(file: Path) -> str:
    """Return the SHA-256 of a file's contents, in hexadecimal."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _checksums(folder: Path) -> dict[str, str]:
    """Return name → SHA-256 of each file of a build."""
    return {
        file.name: sha256_of(file) for file in sorted(folder.iterdir()) if file.name != CHECKSUMS and file.is_file()
    }
