"""The user-space InfiniBand drivers: which source serves which base. Pure.

Sources of facts: file names and the options of ``mlnxofedinstall`` are those of NVIDIA's MLNX_OFED documentation and of the NAG
tutorial; the layout of DOCA's apt repository and its meta-package ``doca-ofed-userspace`` those of NVIDIA's "DOCA Installation
Guide for Linux" (2.9 and later) and of NVIDIA/hpc-container-maker (``doca_ofed.py``); the name of ``doca-host`` packages and their
address those of NVIDIA's "Installing Repo Package on Host Side" (BlueField BSP 4.7) and of Azure/azhpc-images (``versions.json``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Literal

from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.core.errors import Fault, InvalidError
from aml_train.image.dockerfile import ofed_releases

DISTRO_PACKAGES: Final = ("ibverbs-providers", "infiniband-diags", "libibverbs1", "librdmacm1", "rdma-core")
"""Packages of ``distro``: the verbs library with its providers (mlx5 among them), the connection manager, the tools."""

DOCA_PACKAGE: Final = "doca-ofed-userspace"

_LAST_MLNX_OFED: Final = (24, 10)
"""The last separate series: NVIDIA, "MLNX_OFED: transition to DOCA-OFED", October 2024."""

_FIRST_DOCA: Final = (2, 9)
"""The first release whose installation guide has :data:`DOCA_PACKAGE`: docs.nvidia.com/doca/archive/2-9-0-cx8."""

MLNX_OFED_FIRST: Final = {"ubuntu18.04": (4, 4), "ubuntu20.04": (4, 9), "ubuntu22.04": (5, 6), "ubuntu24.04": (24, 4)}
"""Distribution → the first series of MLNX_OFED that came out after it."""

DOCA_DISTRIBUTIONS: Final = ("ubuntu22.04", "ubuntu24.04")


@dataclass(frozen=True, kw_only=True)
class OfedPlan:
    """The drivers to install.

    Attributes:
        kind: an MLNX_OFED tarball; a ``doca-host`` package, which holds an apt repository; or the distribution's own packages.
        url, sha256: where the file is, and what it must be; empty for the distribution's packages.
    """

    kind: Literal["tarball", "package", "distro"]
    url: str = ""
    sha256: str = ""


def needs_base(config: OfedConfig) -> bool:
    """Return whether the base has to be looked at to know what is installed."""
    return config.source == "auto" or (config.source != "distro" and config.os is None)


def plan_ofed(config: OfedConfig, os: str | None, platform: str, brings: str | None = None) -> OfedPlan | None:
    """Return what to install on a base, None for nothing; refuse what cannot work.

    Args:
        config: what the user wants.
        os: distribution and version of the base in NVIDIA's words, such as ``ubuntu22.04``; not needed for ``distro`` and ``auto``.
        platform: ``linux/amd64`` or ``linux/arm64``.
        brings: the drivers that the base brings, for ``auto``; None for none.

    Raises:
        InvalidError: if source, version, distribution and machine do not go together, or a SHA-256 is unknown.
    """
    if config.source == "auto" and brings is not None:
        return None
    if config.source in ("distro", "auto"):
        return OfedPlan(kind="distro")
    architecture = {"linux/amd64": "amd64", "linux/arm64": "arm64"}.get(platform)
    if architecture is None:
        raise _refusal(config, f"there are no drivers for {platform}", "build for linux/amd64 or linux/arm64")
    os, version = config.os or os, config.version or ""
    if os is None:
        raise ValueError("the distribution of the base must be known")
    kind: Literal["tarball", "package"] = "tarball" if config.source == "mlnx_ofed" else "package"
    if config.url is None:
        check = _check_mlnx_ofed if kind == "tarball" else _check_doca
        check(config, os, _series(version))
    if kind == "tarball":
        name = f"MLNX_OFED_LINUX-{version}-{os}-{'x86_64' if architecture == 'amd64' else 'aarch64'}.tgz"
        place = f"https://content.mellanox.com/ofed/MLNX_OFED-{version}"
        known = ofed_releases.MLNX_OFED.get((version, os)) if architecture == "amd64" else None
    else:
        # A build, such as 3.2.1-044000-25.10, or a release whose build is known.
        builds = (one for one, *base in ofed_releases.DOCA if base == [os, architecture] and _names(version, one))
        build = next(builds, version)
        if "-" not in build and config.url is None:
            what = f"`{version}` is no release of doca-host whose packages are known for {os}"
            raise _refusal(config, what, "give the whole build, such as 3.2.1-044000-25.10, or the package's `url`")
        name = f"doca-host_{build}-{os.replace('.', '')}_{architecture}.deb"
        place = f"https://www.mellanox.com/downloads/DOCA/DOCA_v{build.partition('-')[0]}/host"
        known = ofed_releases.DOCA.get((build, os, architecture))
    url = config.url or f"{place}/{name}"
    sha256 = config.sha256 or (known.sha256 if known is not None else None)
    if sha256 is None:
        raise _refusal(
            config,
            f"the SHA-256 of {url.rpartition('/')[2]} is not known",
            f"get it once on a machine that you trust, `curl -fsSL {url} | sha256sum`, and give it as `sha256`",
        )
    return OfedPlan(kind=kind, url=url, sha256=sha256)


def _names(version: str, build: str) -> bool:
    """Return whether *version* is a build, or the release that it is of."""
    return version in (build, build.partition("-")[0])


def _check_mlnx_ofed(config: OfedConfig, os: str, series: tuple[int, int]) -> None:
    version = config.version
    if series > _LAST_MLNX_OFED:
        raise _refusal(config, f"there is no MLNX_OFED {version}: the last series is 24.10", "use the source `doca`")
    _check_debian(config, os)
    first = MLNX_OFED_FIRST.get(os)
    if first is None and not os.startswith("debian"):
        known = ", ".join(MLNX_OFED_FIRST)
        raise _refusal(
            config,
            f"MLNX_OFED has no packages for {os}",
            f"it has them for {known}, and for Debian; use the source `doca` or `distro`",
        )
    if first is not None and series < first:
        raise _refusal(
            config,
            f"MLNX_OFED {version} is older than {os}",
            f"take {first[0]}.{first[1]:0{2 if first[0] > 20 else 1}} or later, or an older base",
        )


def _check_doca(config: OfedConfig, os: str, series: tuple[int, int]) -> None:
    if series < _FIRST_DOCA:
        what = f"DOCA {config.version} has no {DOCA_PACKAGE}: the first release with it is 2.9"
        raise _refusal(config, what, "take 2.9 or later, or the source `mlnx_ofed`")
    _check_debian(config, os)
    if os not in DOCA_DISTRIBUTIONS and not os.startswith("debian"):
        known = ", ".join(DOCA_DISTRIBUTIONS)
        remedy = f"it has one for {known}, and for Debian; use the source `mlnx_ofed` or `distro`"
        raise _refusal(config, f"DOCA has no repository for {os} that is known to work", remedy)


def _check_debian(config: OfedConfig, os: str) -> None:
    """NVIDIA names Debian by its point release, which os-release lacks."""
    if re.fullmatch(r"debian\d+", os):
        what = f"NVIDIA names its files for {os} by the point release they were made on, which the base does not name"
        raise _refusal(
            config, what, f"look which there is and give it, such as `os: {os}.5`; or use the source `distro`"
        )


def _series(version: str) -> tuple[int, int]:
    """Return the first two numbers of a version: ``5.8-2.0.3.0`` → (5, 8)."""
    numbers = [int(part) for part in version.partition("-")[0].split(".")]
    return numbers[0], numbers[1] if len(numbers) > 1 else 0


def _refusal(config: OfedConfig, what: str, remedy: str) -> InvalidError:
    return InvalidError([Fault(where=config.where, what=f"`image.ofed` cannot be installed: {what}", remedy=remedy)])
