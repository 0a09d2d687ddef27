"""System metrics: from counters to bounded intervals, without a gap and apart from the run's own metrics."""

from __future__ import annotations

import dataclasses
import itertools
import sqlite3
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_emulator.domain.usage import AMOUNTS, MEGABYTE, SystemMetric, measures, record_usage
from aml_emulator.executor.usage import GpuReading, Reading
from aml_emulator.store.store import Store
from aml_emulator.store.usage import MOST, STEPS, spread, step_for
from tests.unit.emulator.memory_service import TRACKING
from tests.unit.emulator.parts import IDENTITY, WS, Service, idle_reading

STARTED = 1_800_000_000.25
BASE = idle_reading(STARTED)


def after(seconds: float, **changed: object) -> Reading:
    return dataclasses.replace(BASE, at=STARTED + seconds, **changed)  # type: ignore[arg-type]


def found(store: Store, run: str = "j") -> dict[tuple[str, int, str], tuple[float, float]]:
    return {(one.key, one.node, one.device): (one.mean, one.peak) for one in store.usage.summaries(run)}


def test_rates_are_of_the_time_between_readings() -> None:
    before = after(10, cpu_seconds=5.0, disk_read=3 * MEGABYTE, sent=7)
    gpu = GpuReading(device="0", percentage=50.0, used=10.0, capacity=40.0)
    odd = GpuReading(device="1", percentage=None, used=None, capacity=None)
    now = after(14, cpu_seconds=9.0, memory=250 * MEGABYTE, disk_read=11 * MEGABYTE, sent=5, gpus=(gpu, odd))
    values = {(one.key, one.device): one.value for one in measures(before, now)}
    assert values[SystemMetric.CPU, ""] == 50.0
    assert (values[SystemMetric.CPU_USED, ""], values[SystemMetric.CPU_CAPACITY, ""]) == (1000.0, 2000.0)
    assert (values[SystemMetric.MEMORY, ""], values[SystemMetric.MEMORY_USED, ""]) == (25.0, 250.0)
    assert values[SystemMetric.DISK_READ, ""] == 2.0
    assert values[SystemMetric.SENT, ""] == 0.0, "a counter that falls counts nothing"
    assert (values[SystemMetric.GPU, "0"], values[SystemMetric.GPU_MEMORY, "0"]) == (50.0, 25.0)
    assert not any(device == "1" for _, device in values)
    since_start = {one.key: one.value for one in measures(None, after(4, cpu_seconds=2.0))}
    assert since_start[SystemMetric.CPU] == 25.0


def test_counters_that_the_engine_does_not_have_are_unknown() -> None:
    now = after(4, disk_read=None, disk_written=8 * MEGABYTE, received=None)
    values = {one.key: one.value for one in measures(after(2, disk_written=None), now)}
    assert SystemMetric.DISK_READ not in values
    assert SystemMetric.RECEIVED not in values
    assert values[SystemMetric.DISK_WRITTEN] == 4.0


def test_nothing_is_known_of_memory_without_a_limit() -> None:
    keys = {one.key for one in measures(None, after(1, memory=5, memory_limit=0))}
    assert SystemMetric.MEMORY_USED in keys
    assert SystemMetric.MEMORY not in keys


def test_a_restart_leaves_no_gap_and_counts_nothing_twice(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    store = Store(path)
    store.runs.create(
        run_id="j", experiment_id=store.runs.ensure_experiment("e").id, display_name="j", status="Running"
    )
    record_usage(store, "j", after(2, cpu_seconds=4.0, received=10 * MEGABYTE))
    record_usage(store, "j", after(2, cpu_seconds=4.0, received=10 * MEGABYTE))
    store.close()
    store = Store(path)
    record_usage(store, "j", after(1, cpu_seconds=1.0))
    record_usage(store, "j", after(100, cpu_seconds=4.0, received=40 * MEGABYTE))
    totals = {one.key: [one.total, one.seconds] for one in store.usage.summaries("j")}
    assert totals[SystemMetric.RECEIVED] == pytest.approx([40.0, 100.0])
    assert totals[SystemMetric.CPU_USED] == pytest.approx([4000.0, 100.0])
    (curve,) = store.usage.curves("j", [SystemMetric.CPU], nodes=1)
    assert len(curve.points) == 101, "an interval for each second, the one of the start and of the end in part"
    assert [round(value) for _, value in curve.points[:4]] == [100, 100, 25, 0]
    store.close()


def test_another_container_counts_from_its_own_start(service: Service) -> None:
    assert service.submit("j").status == 201
    record_usage(service.store, "j", after(10, cpu_seconds=10.0))
    again = dataclasses.replace(BASE, started=STARTED + 20, at=STARTED + 22, cpu_seconds=4.0)
    record_usage(service.store, "j", again)
    assert found(service.store)[SystemMetric.CPU_USED, 0, ""] == pytest.approx(((10 + 4) / 12 * 1000, 2000.0))


def test_long_jobs_keep_a_bounded_number_of_intervals(service: Service) -> None:
    assert service.submit("j").status == 201
    store, cpu, seconds = service.store, 0.0, 0.0
    while seconds < 12 * 3600 - 60:
        seconds += 120
        cpu += 120 * (2.0 if seconds == 1200 else 0.5)
        record_usage(store, "j", after(seconds, cpu_seconds=cpu, memory=100 * MEGABYTE))
    (curve,) = store.usage.curves("j", [SystemMetric.CPU], nodes=1)
    assert 600 < len(curve.points) <= MOST
    lengths = {round(b - a) for (a, _), (b, _) in itertools.pairwise(curve.points)}
    assert lengths == {60}, "Azure's own interval after twelve hours"
    (thin,) = store.usage.curves("j", [SystemMetric.CPU], nodes=1, points=100)
    assert 80 < len(thin.points) <= 101
    assert thin.points[0][0] > curve.points[0][0]
    assert max(value for _, value in thin.points) < max(value for _, value in curve.points)
    mean, peak = found(store)[SystemMetric.CPU, 0, ""]
    assert (mean, peak) == pytest.approx((100 * cpu / seconds / 2, 100.0))
    assert found(store)[SystemMetric.MEMORY_USED, 0, ""] == pytest.approx((100.0, 100.0))


def test_a_first_reading_after_a_long_time_makes_no_more(service: Service) -> None:
    assert service.submit("j").status == 201
    record_usage(service.store, "j", after(30 * 86400, cpu_seconds=86400.0))
    (curve,) = service.store.usage.curves("j", [SystemMetric.CPU], nodes=1)
    assert len(curve.points) <= MOST


def test_nodes_and_devices_are_apart(service: Service) -> None:
    assert service.submit("j").status == 201
    gpus = tuple(
        GpuReading(device=str(number), percentage=float(number), used=1.0, capacity=2.0) for number in (10, 9)
    )
    for node in (0, 1):
        reading = dataclasses.replace(after(5, cpu_seconds=5.0 * node, gpus=gpus), node=node)
        record_usage(service.store, "j", reading)
    values = found(service.store)
    assert (values[SystemMetric.CPU, 0, ""][0], values[SystemMetric.CPU, 1, ""][0]) == (0.0, 50.0)
    assert [(one.node, one.device) for one in service.store.usage.curves("j", [SystemMetric.GPU], nodes=1)] == [
        (0, "9"),
        (0, "10"),
    ]


def test_they_are_no_metrics_of_the_run(service: Service) -> None:
    assert service.submit("j").status == 201
    record_usage(service.store, "j", after(5, cpu_seconds=5.0))
    service.store.metrics.log("j", [])
    assert service.store.metrics.latest("j") == []
    assert service.store.browse.metrics("j") == []
    run = service.call("GET", f"{TRACKING}/runs/get?run_id=j", host=IDENTITY.api_host).json["run"]
    assert not run["data"].get("metrics")
    names = service.call("POST", f"/metric/v2.0{WS}/runs/j/list", {"metricNamespace": ""}, host=IDENTITY.api_host)
    assert SystemMetric.CPU not in names.body.decode()


def test_they_go_with_their_run(service: Service) -> None:
    assert service.submit("j").status == 201
    record_usage(service.store, "j", after(5, cpu_seconds=5.0))
    service.store.runs.finish("j", "Completed")
    service.store.runs.delete("j")
    assert found(service.store) == {}
    with pytest.raises(sqlite3.IntegrityError):
        record_usage(service.store, "j", after(6, cpu_seconds=5.0))


@given(
    since=st.floats(0, 1e9),
    seconds=st.floats(0.001, 10_000),
    step=st.sampled_from([step for step in STEPS if step >= 15]),
)
def test_intervals_cover_the_time_once(since: float, seconds: float, step: int) -> None:
    parts = list(spread(since, since + seconds, step))
    assert sum(part for _, part in parts) == pytest.approx(seconds, rel=1e-3)
    assert all(at % step == 0 and 0 < part <= step for at, part in parts)
    assert len({at for at, _ in parts}) == len(parts)


@given(seconds=st.floats(0, 60 * 86400), least=st.sampled_from(STEPS))
def test_the_length_of_intervals_only_grows(seconds: float, least: int) -> None:
    step = step_for(0, seconds, least=least)
    assert step in STEPS
    assert step >= least
    assert seconds / step < MOST
    assert all(longer % shorter == 0 for shorter, longer in itertools.pairwise(STEPS))
    assert {SystemMetric.DISK_READ, SystemMetric.RECEIVED} <= AMOUNTS
