"""A container's use of its machine, as the engine and nvidia-smi report it. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aml_emulator.reading import whole

_NVIDIA_SMI: Final = (
    "nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total --format=csv,noheader,nounits"
)
GPU_COMMAND: Final = (
    "/bin/sh",
    "-c",
    f"if command -v timeout >/dev/null; then exec timeout 20 {_NVIDIA_SMI}; fi; exec {_NVIDIA_SMI}",
)
"""Prints a line for each GPU that the container sees; memory is in MiB (``nvidia-smi --help-query-gpu``).

With a broken GPU, nvidia-smi may never end.
"""

_TIME: Final = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?(?:Z|\+00:00)")


@dataclass(frozen=True, kw_only=True)
class GpuReading:
    """A GPU at one moment: memory in MiB, and None for what it does not report."""

    device: str
    percentage: float | None
    used: float | None
    capacity: float | None


@dataclass(frozen=True, kw_only=True)
class Reading:
    """A node's container at one moment. Counters count from its start.

    Attributes:
        at: seconds since the epoch, by the engine's clock, as *started*.
        cores: how many it may use.
        memory: bytes, without files that the kernel could drop at once.
        disk_read: bytes, as *disk_written*, *received* and *sent*; None if they are not counted.
    """

    node: int
    at: float
    started: float
    cpu_seconds: float
    cores: float
    memory: int
    memory_limit: int
    disk_read: int | None
    disk_written: int | None
    received: int | None
    sent: int | None
    gpus: tuple[GpuReading, ...] = ()


def read_stats(
    stats: Mapping[str, Any],
    *,
    node: int,
    started: float,
    cores: float | None = None,
    gpus: tuple[GpuReading, ...] = (),
) -> Reading | None:
    """Return a reading of the engine's answer, None if the container does not run.

    The fields are those of https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerStats.

    Args:
        started: when the container was started, in seconds since the epoch.
        cores: the limit of its processors, None for all of the machine's.

    Raises:
        ValueError: a number is no number.
    """
    at = moment(str(stats.get("read") or ""))
    cpu, memory = _object(stats, "cpu_stats"), _object(stats, "memory_stats")
    used = _object(cpu, "cpu_usage").get("total_usage")
    if at is None or at <= started or not used:
        # A container that does not run has the time 0001-01-01 and no numbers.
        return None
    details = _object(memory, "stats")
    # As `docker stats` counts: https://docs.docker.com/reference/cli/docker/container/stats/.
    cache = details.get("total_inactive_file", details.get("inactive_file"))
    blocks = _object(stats, "blkio_stats").get("io_service_bytes_recursive") or ()
    networks = [one for one in _object(stats, "networks").values() if isinstance(one, Mapping)]
    return Reading(
        node=node,
        at=at,
        started=started,
        cpu_seconds=_whole(used) / 1e9,
        cores=_cores(cpu, cores),
        memory=max(0, _whole(memory.get("usage")) - _whole(cache)),
        memory_limit=_whole(memory.get("limit")),
        disk_read=_blocks(blocks, "read"),
        disk_written=_blocks(blocks, "write"),
        received=sum(_whole(one.get("rx_bytes")) for one in networks) if networks else None,
        sent=sum(_whole(one.get("tx_bytes")) for one in networks) if networks else None,
        gpus=gpus,
    )


def read_gpus(output: str) -> tuple[GpuReading, ...]:
    """Return the GPUs of nvidia-smi's output; lines of another form are none."""
    found = []
    for line in output.splitlines():
        cells = [cell.strip() for cell in line.split(",")]
        if len(cells) != 4 or whole(cells[0]) is None:
            continue
        # "[N/A]" and "[Not Supported]" stand for what a GPU does not report.
        percentage, used, capacity = (_number(cell) for cell in cells[1:])
        found.append(GpuReading(device=cells[0], percentage=percentage, used=used, capacity=capacity))
    return tuple(found)


def cores_of(options: Mapping[str, Any]) -> float | None:
    """Return the limit of processors in a container's options, None for no limit."""
    limits = []
    if nano := options.get("nano_cpus"):
        limits.append(int(nano) / 1e9)
    if (quota := options.get("cpu_quota")) and int(quota) > 0:
        limits.append(int(quota) / int(options.get("cpu_period") or 100_000))
    if chosen := options.get("cpuset_cpus"):
        limits.append(float(_chosen(str(chosen))))
    return min(limits) if limits else None


def moment(text: str) -> float | None:
    """Return a time of the engine in seconds since the epoch, None for none.

    The engine writes nanoseconds, which ``fromisoformat`` refuses, and the year 1 for no time.
    """
    found = _TIME.fullmatch(text)
    if found is None or text.startswith("0001-"):
        return None
    return datetime.fromisoformat(found[1]).replace(tzinfo=UTC).timestamp() + float(found[2] or 0)


def _chosen(cpus: str) -> int:
    """Return how many processors a list such as ``0-3,8`` has."""
    count = 0
    for part in cpus.split(","):
        first, _, last = part.partition("-")
        count += int(last or first) - int(first) + 1
    return count


def _cores(cpu: Mapping[str, Any], limit: float | None) -> float:
    each = _object(cpu, "cpu_usage").get("percpu_usage") or ()
    online = float(_whole(cpu.get("online_cpus")) or len(each) or 1)
    return online if limit is None else min(online, limit)


def _blocks(entries: Any, operation: str) -> int | None:
    """Return the bytes of an operation, whose case control groups 1 and 2 differ in.

    Without entries nothing was counted: not every kernel counts, and some do from the first byte on.
    """
    if not entries:
        return None
    return sum(
        _whole(one.get("value"))
        for one in entries
        if isinstance(one, Mapping) and str(one.get("op", "")).lower() == operation
    )


def _object(value: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    found = value.get(key)
    return found if isinstance(found, Mapping) else {}


def _whole(value: Any) -> int:
    return int(value or 0)


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None
