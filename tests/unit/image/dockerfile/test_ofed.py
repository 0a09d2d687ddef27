from __future__ import annotations

from typing import Any

import pytest

from aml_train.config.sections.image_ofed import OfedConfig
from aml_train.core.errors import InvalidError
from aml_train.image.dockerfile.ofed import (
    DOCA_DISTRIBUTIONS,
    MLNX_OFED_FIRST,
    OfedPlan,
    plan_ofed,
)
from aml_train.image.dockerfile.ofed_releases import DOCA, MLNX_OFED


def ofed(**values: Any) -> OfedConfig:
    return OfedConfig(**{"source": "mlnx_ofed", "version": "5.8-2.0.3.0", "where": "aml-train.yml:4", **values})


def test_what_is_given_wins() -> None:
    config = ofed(version="5.0-2.1.8.0", sha256="1" * 64, url="http://mirror/o.tgz", os="ubuntu22.04")
    assert plan_ofed(config, "debian12", "linux/arm64") == OfedPlan(
        kind="tarball", url="http://mirror/o.tgz", sha256="1" * 64
    )


DOWNLOADS = "https://www.mellanox.com/downloads/DOCA"


def test_a_package_can_be_given() -> None:
    digest = "1" * 64
    build = ofed(source="doca", version="2.9.1-018000-24.10", sha256=digest)
    name = "doca-host_2.9.1-018000-24.10-ubuntu2404_arm64.deb"
    assert plan_ofed(build, "ubuntu24.04", "linux/arm64") == OfedPlan(
        kind="package", url=f"{DOWNLOADS}/DOCA_v2.9.1/host/{name}", sha256=digest
    )
    mirror = ofed(source="doca", version="2.9.1", sha256=digest, url="http://mirror/latest/doca.deb")
    assert plan_ofed(mirror, "debian12", "linux/amd64") == OfedPlan(
        kind="package", url="http://mirror/latest/doca.deb", sha256=digest
    )


def test_auto_installs_the_distributions_only_where_the_base_has_none() -> None:
    config = ofed(source="auto", version=None)
    assert plan_ofed(config, None, "linux/amd64", "rdma-core 56.0 (RDMACORE_VERSION)") is None
    assert plan_ofed(config, None, "linux/amd64") == OfedPlan(kind="distro")


def test_the_distributions_own_needs_to_know_nothing() -> None:
    config = ofed(source="distro", version=None)
    assert plan_ofed(config, None, "linux/amd64") == OfedPlan(kind="distro")


@pytest.mark.parametrize(
    ("values", "os", "platform", "message"),
    [
        ({}, "ubuntu22.04", "linux/arm64", "the SHA-256 of MLNX_OFED_LINUX-5.8-2.0.3.0-ubuntu22.04-aarch64.tgz is not known: get it once"),
        ({"version": "5.0-2.1.8.0"}, "ubuntu20.04", "linux/amd64", "the SHA-256 of .* is not known"),
        ({"version": "5.4-3.0.0.0"}, "ubuntu22.04", "linux/amd64", "MLNX_OFED 5.4-3.0.0.0 is older than ubuntu22.04: take 5.6 or later"),
        ({}, "ubuntu24.04", "linux/amd64", "is older than ubuntu24.04: take 24.04 or later, or an older base"),
        ({"version": "25.01-0.6.0.0"}, "ubuntu24.04", "linux/amd64", "there is no MLNX_OFED 25.01.*: use the source `doca`"),
        ({}, "ubuntu26.04", "linux/amd64", "MLNX_OFED has no packages for ubuntu26.04: it has them for ubuntu18.04,"),
        ({}, "rhel9.4", "linux/amd64", "MLNX_OFED has no packages for rhel9.4"),
        ({}, "debian12", "linux/amd64", "by the point release they were made on.*os: debian12.5`; or use the source `distro`"),
        ({}, "ubuntu22.04", "linux/s390x", "there are no drivers for linux/s390x"),
        ({"source": "doca", "version": "2.7.0"}, "ubuntu22.04", "linux/amd64", "DOCA 2.7.0 has no doca-ofed-userspace"),
        ({"source": "doca", "version": "2.9.1"}, "ubuntu18.04", "linux/amd64", "DOCA has no repository for ubuntu18.04"),
        ({"source": "doca", "version": "2.9.1-018000-24.10"}, "ubuntu22.04", "linux/amd64", r"the SHA-256 of doca-host_2.9.1-018000-24.10-ubuntu2204_amd64.deb is not known: get it once .*DOCA_v2.9.1/host/doca-host"),
        ({"source": "doca", "version": "3.2.3-019000-25.10"}, "ubuntu22.04", "linux/amd64", "the SHA-256 of doca-host_3.2.3-019000-25.10-ubuntu2204_amd64.deb is not known"),
        ({"source": "doca", "version": "2.9.1", "url": "https://m/d.deb"}, "ubuntu22.04", "linux/amd64", "the SHA-256 of d.deb is not known"),
        ({"source": "doca", "version": "2.9.1", "sha256": "1" * 64}, "ubuntu22.04", "linux/amd64", "`2.9.1` is no release of doca-host whose packages are known for ubuntu22.04: give the whole build"),
        ({"source": "doca", "version": "2.9.1"}, "debian12", "linux/amd64", "NVIDIA names its files for debian12"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_refused_with_the_reason(
    values: dict[str, Any], os: str, platform: str, message: str
) -> None:
    with pytest.raises(InvalidError, match=rf"aml-train.yml:4: `image.ofed` cannot be installed: .*{message}"):
        plan_ofed(ofed(**values), os, platform)


def matrix() -> list[str]:
    """The rows of the matrix in docs/image.md."""
    rows = []
    for os in sorted({*MLNX_OFED_FIRST, *DOCA_DISTRIBUTIONS}):
        first = MLNX_OFED_FIRST.get(os)
        known = ", ".join(version for version, of in MLNX_OFED if of == os) or "none"
        oldest = f"{first[0]}.{first[1]:0{2 if first[0] > 20 else 1}} to 24.10" if first else "no"
        builds = (
            (build.partition("-")[0], " (arm64)" if machine == "arm64" else "")
            for build, of, machine in DOCA
            if of == os
        )
        doca = ", ".join(release + machine for release, machine in builds) or "none"
        since = "2.9 and later" if os in DOCA_DISTRIBUTIONS else "no"
        rows.append(f"| {os} | {oldest} | {known} | {since} | {doca} | yes |")
    return rows
