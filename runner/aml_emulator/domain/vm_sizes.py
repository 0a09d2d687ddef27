"""VM sizes of clusters, and the quotas of their families. Pure.

Figures are those of https://learn.microsoft.com/azure/virtual-machines/sizes; which of them AzureML takes for clusters is in
https://learn.microsoft.com/azure/machine-learning/concept-compute-target#supported-vm-series-and-sizes. Of a size a
job gets the memory at most, and everything else that there is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Final

from aml_emulator.reading import whole

DEFAULT_QUOTA: Final = 300
"""vCPUs of a family, where nothing else is said: what Azure gives a pay-as-you-go subscription at most
(https://learn.microsoft.com/azure/machine-learning/how-to-manage-quotas)."""

LOW_PRIORITY_FAMILY: Final = "lowPriorityCores"
"""The quota that all families share for nodes of low priority."""

_TABLE: Final = """
standardDv2Family       D1_v2:1:3.5:50 D2_v2:2:7:100 D3_v2:4:14:200 D4_v2:8:28:400 D5_v2:16:56:800
standardDv2Family       D11_v2:2:14:100 D12_v2:4:28:200 D13_v2:8:56:400 D14_v2:16:112:800
standardDSv2Family      DS1_v2:1:3.5:7 DS2_v2:2:7:14 DS3_v2:4:14:28 DS4_v2:8:28:56 DS5_v2:16:56:112
standardDSv2Family      DS11_v2:2:14:28 DS12_v2:4:28:56 DS13_v2:8:56:112 DS14_v2:16:112:224 DS15_v2:20:140:280
standardDSv3Family      D2s_v3:2:8:16 D4s_v3:4:16:32 D8s_v3:8:32:64 D16s_v3:16:64:128 D32s_v3:32:128:256
standardDSv3Family      D48s_v3:48:192:384 D64s_v3:64:256:512
standardDDSv4Family     D2ds_v4:2:8:75 D4ds_v4:4:16:150 D8ds_v4:8:32:300 D16ds_v4:16:64:600 D32ds_v4:32:128:1200
standardDDSv4Family     D48ds_v4:48:192:1800 D64ds_v4:64:256:2400
standardDDSv5Family     D2ds_v5:2:8:75 D4ds_v5:4:16:150 D8ds_v5:8:32:300 D16ds_v5:16:64:600 D32ds_v5:32:128:1200
standardDDSv5Family     D48ds_v5:48:192:1800 D64ds_v5:64:256:2400 D96ds_v5:96:384:3600
standardDADSv5Family    D2ads_v5:2:8:75 D4ads_v5:4:16:150 D8ads_v5:8:32:300 D16ads_v5:16:64:600 D32ads_v5:32:128:1200
standardDADSv5Family    D48ads_v5:48:192:1800 D64ads_v5:64:256:2400 D96ads_v5:96:384:3600
standardESv3Family      E2s_v3:2:16:32 E4s_v3:4:32:64 E8s_v3:8:64:128 E16s_v3:16:128:256 E32s_v3:32:256:512
standardESv3Family      E48s_v3:48:384:768 E64s_v3:64:432:864
standardEDSv4Family     E2ds_v4:2:16:75 E4ds_v4:4:32:150 E8ds_v4:8:64:300 E16ds_v4:16:128:600 E20ds_v4:20:160:750
standardEDSv4Family     E32ds_v4:32:256:1200 E48ds_v4:48:384:1800 E64ds_v4:64:504:2400
standardEDSv5Family     E2ds_v5:2:16:75 E4ds_v5:4:32:150 E8ds_v5:8:64:300 E16ds_v5:16:128:600 E32ds_v5:32:256:1200
standardEDSv5Family     E48ds_v5:48:384:1800 E64ds_v5:64:512:2400 E96ds_v5:96:672:3600
standardFSv2Family      F2s_v2:2:4:16 F4s_v2:4:8:32 F8s_v2:8:16:64 F16s_v2:16:32:128 F32s_v2:32:64:256
standardFSv2Family      F48s_v2:48:96:384 F64s_v2:64:128:512 F72s_v2:72:144:576
standardHBrsv2Family    HB120rs_v2:120:456:960:0:rdma
standardHBrsv3Family    HB120rs_v3:120:448:1920:0:rdma HB120-96rs_v3:96:448:1920:0:rdma HB120-64rs_v3:64:448:1920:0:rdma
standardHBrsv3Family    HB120-32rs_v3:32:448:1920:0:rdma HB120-16rs_v3:16:448:1920:0:rdma
standardHBrsv4Family    HB176rs_v4:176:768:3600:0:rdma HB176-96rs_v4:96:768:3600:0:rdma
standardHCSFamily       HC44rs:44:352:700:0:rdma HC44-32rs:32:352:700:0:rdma HC44-16rs:16:352:700:0:rdma
standardNCFamily        NC6:6:56:340:1 NC12:12:112:680:2 NC24:24:224:1440:4 NC24r:24:224:1440:4:rdma
standardNCSv2Family     NC6s_v2:6:112:736:1 NC12s_v2:12:224:1474:2 NC24s_v2:24:448:2948:4 NC24rs_v2:24:448:2948:4:rdma
standardNCSv3Family     NC6s_v3:6:112:736:1 NC12s_v3:12:224:1474:2 NC24s_v3:24:448:2948:4 NC24rs_v3:24:448:2948:4:rdma
standardNCASv3_T4Family NC4as_T4_v3:4:28:176:1 NC8as_T4_v3:8:56:352:1 NC16as_T4_v3:16:110:352:1 NC64as_T4_v3:64:440:2816:4
standardNCADSA100v4Family NC24ads_A100_v4:24:220:64:1 NC48ads_A100_v4:48:440:128:2 NC96ads_A100_v4:96:880:256:4
standardNCADSH100v5Family NC40ads_H100_v5:40:320:3576:1 NC80adis_H100_v5:80:640:7152:2
standardNDSv2Family     ND40rs_v2:40:672:2948:8:rdma
standardNDASv4_A100Family ND96asr_v4:96:900:6500:8:rdma
standardNDAMSv4_A100Family ND96amsr_A100_v4:96:1924:6400:8:rdma
standardNDSH100v5Family ND96isr_H100_v5:96:1900:28000:8:rdma
standardNDSH200v5Family ND96isr_H200_v5:96:1850:28000:8:rdma
standardNVSv3Family     NV12s_v3:12:112:320:1 NV24s_v3:24:224:640:2 NV48s_v3:48:448:1280:4
standardNVADSA10v5Family NV36ads_A10_v5:36:440:1440:1 NV36adms_A10_v5:36:880:2880:1 NV72ads_A10_v5:72:880:2880:2
"""
"""A family, and its sizes: name without ``Standard_``, vCPUs, memory in GiB, temporary disk in GiB, GPUs, InfiniBand."""


@dataclass(frozen=True, kw_only=True)
class VmSize:
    """A VM size; *memory_gb* and *disk_gb* are GiB, *infiniband* is RDMA of nodes."""

    name: str
    family: str
    cores: int
    memory_gb: float
    disk_gb: int
    gpus: int = 0
    infiniband: bool = False


@cache
def sizes() -> Mapping[str, VmSize]:
    """Return all sizes by their name in lower case, in the order of the table."""
    found = {}
    for line in _TABLE.strip().splitlines():
        family, *entries = line.split()
        for entry in entries:
            name, cores, memory, disk, gpus, rdma = (*entry.split(":"), "0", "")[:6]
            size = VmSize(
                name=f"Standard_{name}",
                family=family,
                cores=int(cores),
                memory_gb=float(memory),
                disk_gb=int(disk),
                gpus=int(gpus),
                infiniband=rdma == "rdma",
            )
            found[size.name.lower()] = size
    return found


def size_named(name: str) -> VmSize | None:
    """Return the size of that name, whose case does not matter, or None."""
    return sizes().get(name.lower())


@dataclass(frozen=True, kw_only=True)
class Quotas:
    """The vCPU quotas of families: *limits* in lower case, *default* for the others."""

    limits: Mapping[str, int]
    default: int = DEFAULT_QUOTA

    def limit(self, size: VmSize, *, low_priority: bool) -> int:
        """Return the limit that nodes of *size* count against."""
        return self.limits.get((LOW_PRIORITY_FAMILY if low_priority else size.family).lower(), self.default)


def parse_quotas(text: str) -> Quotas:
    """Return the quotas of ``FAMILY=VCPUS,…``; the family ``*`` is the default.

    Raises:
        ValueError: something else, or a family that does not exist.
    """
    known = {size.family.lower() for size in sizes().values()} | {LOW_PRIORITY_FAMILY.lower(), "*"}
    limits = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        family, _, number = part.partition("=")
        if family.strip().lower() not in known:
            raise ValueError(f"there is no family of sizes called '{family.strip()}'")
        limit = whole(number.strip())
        if limit is None:
            raise ValueError(f"'{part}' is not FAMILY=VCPUS")
        limits[family.strip().lower()] = limit
    return Quotas(limits=limits, default=limits.pop("*", DEFAULT_QUOTA))


DEFAULT_QUOTAS: Final = Quotas(limits={})
"""The quotas where nothing is said."""
