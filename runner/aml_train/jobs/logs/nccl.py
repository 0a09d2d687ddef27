"""VM sizes with InfiniBand, and the network that NCCL reports. Pure."""

from __future__ import annotations

import re
from typing import Final

#: The RDMA-capable sizes carry an ``r`` behind their number of vCPUs: https://learn.microsoft.com/azure/virtual-machines/sizes-hpc and
#: https://learn.microsoft.com/azure/virtual-machines/setup-infiniband; sizes by series at https://learn.microsoft.com/azure/virtual-machines/sizes.
#: Series and what their sizes look like behind ``Standard_``, today and retired:
_SERIES: Final = (
    ("H", r"H\d+m?r(_Promo)?"),  # H16r, H16mr
    ("HB", r"HB\d+(-\d+)?rs(_v\d)?"),  # HB60rs, HB120rs_v2, HB120-96rs_v3, HB176rs_v4, HB368rs_v5
    ("HC", r"HC\d+(-\d+)?rs"),  # HC44rs, HC44-16rs
    ("HX", r"HX\d+(-\d+)?rs"),  # HX176rs, HX176-24rs
    ("NC", r"NC24rs?(_v[23])?(_Promo)?"),  # NC24r, NC24rs_v2, NC24rs_v3; later NC series have none
    (
        "ND",
        r"ND\d+[a-z]*r[a-z]*(_NDR)?(_[A-Z0-9]+)?(_v\d)?",
    ),  # ND24rs, ND40rs_v2, ND96asr_v4, ND96amsr_A100_v4, ND96isr_H100_v5
)
_SIZE: Final = re.compile("Standard_(?:" + "|".join(pattern for _, pattern in _SERIES) + ")", re.I)

# "host:38:38 [0] NCCL INFO NET/Socket : Using [0]eth0:10.0.0.4<0>", "… NET/IB : No device found.", "… Using network Socket" with
# NCCL_DEBUG=INFO; with InfiniBand "… NET/IB : Using [0]mlx5_ib0:1/IB …", "… Using network IB" or "IBext" (NVIDIA/nccl, src/transport/net_*.cc).
_MARK: Final = "NCCL INFO "
_SOCKETS: Final = re.compile(r"NCCL INFO (?:NET/IB ?: No device found|NET/Socket ?: Using|Using network Socket)")
_INFINIBAND: Final = re.compile(r"NCCL INFO (?:NET/IB(?:ext\w*)? ?: Using|Using network IB)")
_DISABLED: Final = re.compile(r"NCCL INFO NCCL_IB_DISABLE set by environment to 1")
_NO_LIBRARY: Final = re.compile(r"NCCL INFO Failed to open libibverbs")


def has_infiniband(vm_size: str) -> bool:
    """Return whether nodes of *vm_size* (``Standard_ND96asr_v4``) have InfiniBand."""
    return _SIZE.fullmatch(vm_size) is not None


class NcclWatch:
    """Reads logs for the network that NCCL chose.

    Text without NCCL's words costs one search for a fixed string.
    """

    def __init__(self) -> None:
        self._sockets = False
        self._infiniband = False
        self._reason = ""

    def feed(self, text: str) -> None:
        """Read lines."""
        if _MARK not in text:
            return
        self._sockets = self._sockets or _SOCKETS.search(text) is not None
        self._infiniband = self._infiniband or _INFINIBAND.search(text) is not None
        if _DISABLED.search(text):
            self._reason = "disabled"
        elif not self._reason and _NO_LIBRARY.search(text):
            self._reason = "library"

    @property
    def on_sockets(self) -> bool:
        """Whether NCCL said that it uses sockets, and no rank that it uses InfiniBand."""
        return self._sockets and not self._infiniband

    def warning(self, vm_size: str, nodes: int) -> str:
        """Return the warning for a job whose nodes have *vm_size*."""
        cost = (
            "the ranks of different nodes exchange their gradients many times slower"
            if nodes > 1
            else "as soon as the job has several nodes, they would exchange their gradients many times slower"
        )
        remedy = {
            "disabled": "NCCL_IB_DISABLE=1 is set: take it out of the job's environment_variables and of the image",
            "library": "libibverbs is not in the image: add its drivers with `image.ofed`",
        }.get(self._reason, "see that the image has the drivers (`image.ofed`, `aml-train image check --infiniband`)")
        return (
            f"NCCL uses sockets, although nodes of {vm_size} have InfiniBand: {cost}. "
            f"Remedy: {remedy}. See docs/output.md#nccl-on-sockets."
        )
