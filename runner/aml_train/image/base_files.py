"""The files of a base image that a build depends on, read without running it.

They are its distribution, and the InfiniBand drivers that it brings.
"""

from __future__ import annotations

import re
import shlex
import tarfile
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from aml_train.core.docker import open_chunks

OS_RELEASE: Final = ("/usr/lib/os-release", "/etc/os-release")
DPKG: Final = ("/var/lib/dpkg/status",)
LIMIT: Final = 64 * 1024
DPKG_LIMIT: Final = 32 << 20

_DRIVER_PACKAGES: Final = ("libibverbs1", "ibverbs-providers")
"""The verbs library and its providers, mlx5 among them: the packages without which there are no drivers."""


def parse_os_release(text: str) -> str | None:
    """Return the distribution, such as ``ubuntu22.04``, in NVIDIA's words; or None."""
    fields: dict[str, str] = {}
    for line in text.splitlines():
        name, equals, value = line.strip().partition("=")
        if equals and not name.startswith("#"):
            try:
                fields[name] = "".join(shlex.split(value))
            except ValueError:  # an unbalanced quote: not a line of this format
                continue
    identity, version = fields.get("ID", "").lower(), fields.get("VERSION_ID", "")
    return f"{identity}{version}" if identity and version else None


def named_drivers(environment: Mapping[str, str]) -> str | None:
    """Return the drivers that an image's variables name, such as ``rdma-core 56.0``.

    NVIDIA's images name rdma-core in RDMACORE_VERSION, and in MOFED_VERSION in such as ``5.4-rdmacore56.0``.
    """
    if release := environment.get("RDMACORE_VERSION"):
        return f"rdma-core {release} (RDMACORE_VERSION)"
    if found := re.search(r"rdmacore(\d[\d.]*)", environment.get("MOFED_VERSION", "")):
        return f"rdma-core {found[1]} (MOFED_VERSION)"
    if re.match(r"\d", environment.get("MOFED_VERSION", "")):
        return f"MLNX_OFED {environment['MOFED_VERSION']} (MOFED_VERSION)"
    return None


def installed_drivers(status: str) -> str | None:
    """Return the driver packages in dpkg's list, or None if one is missing."""
    versions = {}
    for paragraph in status.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in paragraph.splitlines() if ": " in line and line[0] != " ")
        if fields.get("Package") in _DRIVER_PACKAGES and fields.get("Status", "").endswith(" installed"):
            versions[fields["Package"]] = fields.get("Version", "")
    if len(versions) < len(_DRIVER_PACKAGES):
        return None
    return f"{' and '.join(_DRIVER_PACKAGES)} {versions[_DRIVER_PACKAGES[0]]} (dpkg)"


@dataclass(frozen=True, kw_only=True)
class ImageSettings:
    """The settings in an image's configuration.

    Attributes:
        user: the user that its processes run as; root if it names none.
        variables: its environment variables.
    """

    user: str
    variables: Mapping[str, str]

    @classmethod
    def of(cls, user: str | None, environment: Iterable[str]) -> ImageSettings:
        """Make them of an image's configuration; a group behind the user is left out."""
        variables = {name: value for name, _, value in (line.partition("=") for line in environment)}
        return cls(user=(user or "").partition(":")[0] or "root", variables=variables)


def find_in_layer(chunks: Iterable[bytes], paths: Collection[str] = OS_RELEASE, limit: int = LIMIT) -> str | None:
    """Return the text of the first of *paths* in a layer (tar, perhaps gzip), or None."""
    wanted = {path.lstrip("/") for path in paths}
    try:
        with tarfile.open(fileobj=open_chunks(iter(chunks)), mode="r|*") as archive:
            for member in archive:
                if member.isfile() and member.name.removeprefix("./") in wanted:
                    file = archive.extractfile(member)
                    return file.read(limit).decode(errors="replace") if file is not None else None
    except (tarfile.TarError, EOFError, TypeError):
        # zstd, or no layer at all: then nothing is known. TypeError is Python's own of one that ends within the header of gzip.
        return None
    return None
