"""The user-space InfiniBand drivers: which source serves which base. Pure.

Sources of facts: file names and the options of ``mlnxofedinstall`` are those of NVIDIA's MLNX_OFED documentation and of the NAG
tutorial; the layout of DOCA's apt repository and its meta-package ``doca-ofed-userspace`` those of NVIDIA's "DOCA Installation
Guide for Linux" (2.9 and later) and of NVIDIA/hpc-container-maker (``doca_ofed.py``).
"""

from __future__ import annotations

import re
from typing import Final

from aml_train.config import OfedConfig
from aml_train.core.errors import Fault, InvalidError
from aml_train.core.values import dataclass

MLNX_OFED_SERVER: Final = "https://content.mellanox.com/ofed"
DOCA_SERVER: Final = "https://linux.mellanox.com/public/repo/doca"

DISTRO_PACKAGES: Final = ("ibverbs-providers", "infiniband-diags", "libibverbs1", "librdmacm1", "rdma-core")
"""Packages of ``distro``: the verbs library with its providers (mlx5 among them), the connection manager, the tools."""

DOCA_PACKAGE: Final = "doca-ofed-userspace"

DOCA_KEY: Final = "70454E6BF5D9C2D3B78709E8DC726C5E41B9CC50"
"""Fingerprint of the key in ``doca_keyring.gpg`` of DOCA's repositories since January 2026. Read in the public documentation of a
cluster that checks it too; its last 16 digits are in several others. Not taken from NVIDIA itself, and a wrong one only refuses."""

_LAST_MLNX_OFED: Final = (24, 10)
"""The last separate series: NVIDIA, "MLNX_OFED: transition to DOCA-OFED", October 2024."""

_FIRST_DOCA: Final = (2, 9)
"""The first release whose installation guide has :data:`DOCA_PACKAGE`."""

MLNX_OFED_FIRST: Final = {"ubuntu18.04": (4, 4), "ubuntu20.04": (4, 9), "ubuntu22.04": (5, 6), "ubuntu24.04": (24, 4)}
"""Distribution → the first series of MLNX_OFED that came out after it."""

DOCA_DISTRIBUTIONS: Final = ("ubuntu22.04", "ubuntu24.04")

_MACHINES: Final = {"linux/amd64": "x86_64", "linux/arm64": "aarch64"}
_DOCA_MACHINES: Final = {"x86_64": "x86_64", "aarch64": "arm64-sbsa"}

# Files for x86_64, as the history of github.com/Azure/azhpc-images has checked them at each of its builds
# (install_mellanoxofed.sh of the Ubuntu images, 2020 to 2023, read at commit 8e9d055f).
KNOWN_SHA256: Final = {
    ("4.9-3.1.5.0", "ubuntu18.04"): "29bb4655ed1f1f23d7195539b8d89c4466e824ec7c3e796246e8df149b09bfa5",
    ("4.9-6.0.6.0", "ubuntu18.04"): "ca56ddf53a22192d2c91d1c410db686a8f8faf339020cfe44ab0c664e63c8b99",
    ("4.9-6.0.6.0", "ubuntu20.04"): "5cafde8a345a1694f4fc93ba78c6206f30ead005807bf3ba8a4f5c4f388616a9",
    ("5.0-1.0.0.0", "ubuntu18.04"): "3a198e1114d22fe31338003ef6b8c0e7b082ce719a764b5165727eac63d2b5db",
    ("5.1-2.4.6.0", "ubuntu18.04"): "26fb818ed225e6a7eb0621fa0b28cc633e04db0b8ee2ea70a5d0152bee4bcbe4",
    ("5.2-1.0.4.0", "ubuntu18.04"): "5fbc3aeaa777b2e7d86616e429f367cf5b21870c13fa4e4c775bed32d9330b8c",
    ("5.2-1.0.4.0", "ubuntu20.04"): "02c7085a9a79de358eedf2a4530a5bc6af2eee198f0e09f0c6ac3d6cb54ca474",
    ("5.2-2.2.0.0", "ubuntu18.04"): "7752410503a40e5fc9d31c77241413459242751d683265b8a6bde4471ebff5e7",
    ("5.2-2.2.3.0", "ubuntu18.04"): "e6a188a0089558e32f2493a52e7ed36d838fc03476a59391b5d537c321aa8a44",
    ("5.2-2.2.3.0", "ubuntu20.04"): "72d38888489ba15784d5500fef9ff09c9ef338a5cdd44bfd916a63b06af28ef0",
    ("5.4-1.0.3.0", "ubuntu18.04"): "6883710af0929e75d3254b2ffaea6fc1148e6997e28833eef751f4851cf42d30",
    ("5.4-1.0.3.0", "ubuntu20.04"): "3ab949727b2e55ebf08fa4a858431a9951455cc2f213ff6c6f8fd94c7070e3ac",
    ("5.4-3.0.0.0", "ubuntu18.04"): "547ffc00da06bc4e2a3c6bc4a49879b6b63b2a1b3d7c8013871f2937c1e17e55",
    ("5.4-3.0.0.0", "ubuntu20.04"): "4a553572286f37cf649d68d70ffecd3d9acf5ba61a0935bb44d7b194782fdd39",
    ("5.6-1.0.3.3", "ubuntu18.04"): "8d114c3e2aef757ecf8f42a8845f1d4406bfe87865faf9406b36b50a2b45b9c2",
    ("5.6-1.0.3.3", "ubuntu20.04"): "047c0aa106718e88062c7e65c14435291f534428f150f3173000ec07c40d943e",
    ("5.8-1.0.1.1", "ubuntu18.04"): "6f9da70efa8af3b95df99cb0a6dcfba91a3ddddaf3b8f2a57522e1c7105aac30",
    ("5.8-1.0.1.1", "ubuntu20.04"): "1259c867ee1805872bb2838ab12d45685f99d4a3f355def5dd9f610801a8d4b5",
    ("5.8-2.0.3.0", "ubuntu18.04"): "37b3f86e0172c80e79428ef09e5f45108044e428780273d7dc18b9f54f8d4a2d",
    ("5.8-2.0.3.0", "ubuntu20.04"): "99aa2966ce260f3ca282e24a26c6f5302692f9072117626107aa599868208d8f",
    ("5.8-2.0.3.0", "ubuntu22.04"): "6ec0e1b6a8de6fbcc6d6bceaedf853f801003b0ee854f3b660e53bd2f73ef79a",
    ("5.9-0.5.6.0", "ubuntu18.04"): "c50a3fb7263a2e063d1fbe22f4e81e456807067430e46d0b05086a06b948c236",
    ("5.9-0.5.6.0", "ubuntu20.04"): "7a7a31deecf91d5e864f23114283c77115e363c0577faf6e4b8bac8ad965d96a",
    ("5.9-0.5.6.0", "ubuntu22.04"): "67b9fe26769c196fc9c7482d7453c75a0ffe700f17884a0173c4b8acacc04bcc",
    ("5.9-0.5.6.0.107", "ubuntu20.04"): "3c79370a8ef9548aa8078c1faa9ed832a4bd2cd0c83ebbb0fcc4ac7902ca7f65",
    ("5.9-0.5.6.0.107", "ubuntu22.04"): "064af835071a332e0394ba35267c5aa444613bfdde8f0ea8806e70031dc57381",
    ("5.9-0.5.9.0", "ubuntu18.04"): "2d773d682c4899ca6b9e77ab93886abecf0afb1049cad93d15a1a5dc9cbf0c30",
    ("5.9-0.5.9.0", "ubuntu20.04"): "b36f7c0bba8bd7b743f942a78860e5e5b4984ea1f00a5ef1789a17dc30b8d55f",
    ("5.9-0.5.9.0", "ubuntu22.04"): "70d62106230446ebf47b325077b2c2494c1f3ced2e03ac97fce08469da7d8224",
    ("23.04-0.5.3.3", "ubuntu18.04"): "f7cbd64171650019eae27191895719ed0c0dc79164736db844f867a5a0fa4e02",
    ("23.04-0.5.3.3", "ubuntu20.04"): "dac77f7f65bf04053ee7fd5a4db58c913df9321a9ba9001928ce1681434538e1",
    ("23.04-0.5.3.3", "ubuntu22.04"): "d18058146e1e09fc3f847a80e777533bc3c769c376a9944128668855c1623a23",
    ("23.04-1.1.3.0", "ubuntu18.04"): "634960b96698f845ccc8974987c71dfeced4553ddc5fb0aa1a79071307cbdd45",
    ("23.04-1.1.3.0", "ubuntu20.04"): "a4b35a53100a1bbc806e558838424824039d789062a5a8cdf5589d91d3769ce4",
    ("23.04-1.1.3.0", "ubuntu22.04"): "8e50a0716081e13a7251d14543a0ea40481d0b3d7e82dda1ed1fc789ce6241cc",
    ("23.07-0.5.0.0", "ubuntu20.04"): "600c98b6d02850214d33b55e3c6a8ccd2d8f440c2ae3f8cd1b4dc004db7e99fd",
    ("23.07-0.5.0.0", "ubuntu22.04"): "7db646d6b542fa8e75fca61a87f86b86bf36ea6e73c16b0bc36f9500e6b6f106",
    ("23.07-0.5.1.2", "ubuntu20.04"): "923ddbd48d250b25ba50098ad8852ad6a591df3e975f3e0b9922b752181bdd12",
    ("23.07-0.5.1.2", "ubuntu22.04"): "77e032a48de4c040b2f2dd3bf2edd11921de7caff59c773ac35208514f72eff5",
}
"""(version, distribution) → SHA-256 of ``MLNX_OFED_LINUX-VERSION-DISTRIBUTION-x86_64.tgz``."""


@dataclass(frozen=True, kw_only=True)
class Tarball:
    """An MLNX_OFED tarball: where it is, and what it must be."""

    url: str
    sha256: str


@dataclass(frozen=True, kw_only=True)
class AptRepository:
    """DOCA's repository for a distribution: URL with a last ``/``, key's fingerprint."""

    url: str
    fingerprint: str


@dataclass(frozen=True, kw_only=True)
class DistroPackages:
    """The distribution's own packages."""

    packages: tuple[str, ...] = DISTRO_PACKAGES


OfedPlan = Tarball | AptRepository | DistroPackages


def needs_os(config: OfedConfig | None) -> bool:
    """Return whether rendering needs the base's distribution, and lacks it."""
    return config is not None and config.source != "distro" and config.os is None


def plan_ofed(config: OfedConfig, os: str | None, platform: str) -> OfedPlan:
    """Return what to install on a base, or refuse what cannot work.

    Args:
        config: what the user wants.
        os: distribution and version of the base in NVIDIA's words, such as ``ubuntu22.04``; not needed for ``distro``.
        platform: ``linux/amd64`` or ``linux/arm64``.

    Raises:
        InvalidError: if source, version, distribution and machine do not go together, or the tarball's SHA-256 is unknown.
    """
    if config.source == "distro":
        return DistroPackages()
    machine = _MACHINES.get(platform)
    if machine is None:
        raise _refusal(config, f"there are no drivers for {platform}", "build for linux/amd64 or linux/arm64")
    os = config.os or os
    if os is None:
        raise ValueError("the distribution of the base must be known")
    version = config.version or ""
    series = _series(version)
    if config.source == "mlnx_ofed":
        if config.url is None:
            _check_mlnx_ofed(config, os, series)
        name = f"MLNX_OFED_LINUX-{version}-{os}-{machine}.tgz"
        sha256 = config.sha256 or (KNOWN_SHA256.get((version, os)) if machine == "x86_64" else None)
        url = config.url or f"{MLNX_OFED_SERVER}/MLNX_OFED-{version}/{name}"
        if sha256 is None:
            raise _refusal(
                config,
                f"the SHA-256 of {name} is not known",
                f"get it once on a machine that you trust, `curl -fsSL {url} | sha256sum`, and give it as `sha256`",
            )
        return Tarball(url=url, sha256=sha256)
    if config.url is None:
        _check_doca(config, os, series)
    url = config.url or f"{DOCA_SERVER}/{version}/{os}/{_DOCA_MACHINES[machine]}"
    return AptRepository(url=url.rstrip("/") + "/", fingerprint=config.key_fingerprint or DOCA_KEY)


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
