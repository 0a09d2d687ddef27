"""System metrics of jobs: from readings of the engine to Azure's names.

Azure keeps what a job uses of its nodes as metrics of the workspace in Azure Monitor, with the dimensions ``RunId``, ``InstanceId`` and,
for GPUs, ``DeviceId`` (category Resource of
https://learn.microsoft.com/azure/azure-monitor/reference/supported-metrics/microsoft-machinelearningservices-workspaces-metrics); the
studio shows them under Monitoring, addressed as ``NAME/node-0/DEVICE``. They are no metrics of the run: neither SDK nor MLflow lists
them (https://github.com/Azure/azure-sdk-for-python/issues/33633). A script that calls
``mlflow.enable_system_metrics_logging()`` logs metrics of its run, named ``system/…``, on Azure as here.

Azure does not say whether its megabytes have 10^6 or 2^20 bytes: here they have 2^20, as those of nvidia-smi and the engine.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict
from enum import StrEnum
from typing import Final

from aml_emulator.executor import Reading
from aml_emulator.store import Measure, Store

MEGABYTE: Final = 2**20


class SystemMetric(StrEnum):
    """The names of system metrics in Azure Monitor."""

    CPU = "CpuUtilizationPercentage"
    CPU_USED = "CpuUtilizationMillicores"
    CPU_CAPACITY = "CpuCapacityMillicores"
    MEMORY = "CpuMemoryUtilizationPercentage"
    MEMORY_USED = "CpuMemoryUtilizationMegabytes"
    MEMORY_CAPACITY = "CpuMemoryCapacityMegabytes"
    DISK_READ = "DiskReadMegabytes"
    DISK_WRITTEN = "DiskWriteMegabytes"
    RECEIVED = "NetworkInputMegabytes"
    SENT = "NetworkOutputMegabytes"
    GPU = "GpuUtilizationPercentage"
    GPU_MEMORY = "GpuMemoryUtilizationPercentage"
    GPU_MEMORY_USED = "GpuMemoryUtilizationMegabytes"
    GPU_MEMORY_CAPACITY = "GpuMemoryCapacityMegabytes"


AMOUNTS: Final = frozenset(
    {SystemMetric.DISK_READ, SystemMetric.DISK_WRITTEN, SystemMetric.RECEIVED, SystemMetric.SENT}
)
"""Metrics that are sums: they are kept per second, and an interval's is the value times its seconds."""


def record_usage(store: Store, run_id: str, reading: Reading) -> None:
    """Add what a node used since its reading before, or since its start.

    The reading before is in the database, so that nothing is missing or counted twice after a restart of the emulator: the counters
    of the engine include what was used meanwhile.
    """
    before = _before(store.usage.last(run_id, reading.node), reading)
    since = reading.started if before is None else before.at
    if reading.at <= since:
        return
    last = json.dumps({name: value for name, value in asdict(reading).items() if name != "gpus"})
    store.usage.add(run_id, reading.node, tuple(measures(before, reading)), since=since, until=reading.at, last=last)


def measures(before: Reading | None, now: Reading) -> Iterator[Measure]:
    """Yield the system metrics between two readings, or since a container's start."""
    seconds = now.at - (now.started if before is None else before.at)

    def per_second(counter: str) -> float:
        used: float = getattr(now, counter) - (getattr(before, counter, None) or 0)
        return max(0.0, used) / seconds

    cpu = per_second("cpu_seconds")
    yield Measure(key=SystemMetric.CPU, value=100 * cpu / now.cores)
    yield Measure(key=SystemMetric.CPU_USED, value=1000 * cpu)
    yield Measure(key=SystemMetric.CPU_CAPACITY, value=1000 * now.cores)
    yield Measure(key=SystemMetric.MEMORY_USED, value=now.memory / MEGABYTE)
    if now.memory_limit:
        yield Measure(key=SystemMetric.MEMORY, value=100 * now.memory / now.memory_limit)
        yield Measure(key=SystemMetric.MEMORY_CAPACITY, value=now.memory_limit / MEGABYTE)
    for key, counter in (
        (SystemMetric.DISK_READ, "disk_read"),
        (SystemMetric.DISK_WRITTEN, "disk_written"),
        (SystemMetric.RECEIVED, "received"),
        (SystemMetric.SENT, "sent"),
    ):
        if getattr(now, counter) is not None:
            yield Measure(key=key, value=per_second(counter) / MEGABYTE)
    for gpu in now.gpus:
        if gpu.percentage is not None:
            yield Measure(key=SystemMetric.GPU, device=gpu.device, value=gpu.percentage)
        if gpu.used is not None:
            yield Measure(key=SystemMetric.GPU_MEMORY_USED, device=gpu.device, value=gpu.used)
        if gpu.capacity:
            yield Measure(key=SystemMetric.GPU_MEMORY_CAPACITY, device=gpu.device, value=gpu.capacity)
            if gpu.used is not None:
                yield Measure(key=SystemMetric.GPU_MEMORY, device=gpu.device, value=100 * gpu.used / gpu.capacity)


def _before(text: str | None, now: Reading) -> Reading | None:
    """Return the reading before, None if it is of an earlier container."""
    if text is None:
        return None
    before = Reading(**json.loads(text))
    return before if before.started == now.started else None
