"""What is read of the engine's and nvidia-smi's answers, and when."""

from __future__ import annotations

from typing import Any

import pytest
from docker.errors import APIError

from aml_emulator.executor.monitor import Monitor, interval
from aml_emulator.executor.spec import Folder, RunSpec
from aml_emulator.executor.usage import GPU_COMMAND, GpuReading, Reading, cores_of, moment, read_gpus, read_stats
from tests.support.fake_executor import RecordingSink

STARTED = 1_795_000_000.0
SPEC = RunSpec(
    run_id="r",
    experiment="e",
    display_name="r",
    command="true",
    image="i",
    artifacts=Folder(container="c", prefix="p"),
    host_options={"nano_cpus": 1_500_000_000},
)

STATS: dict[str, Any] = {
    "read": "2026-11-18T16:46:45.250000000Z",
    "cpu_stats": {
        "cpu_usage": {"total_usage": 3_500_000_000, "percpu_usage": [1, 2]},
        "online_cpus": 4,
    },
    "memory_stats": {"usage": 300, "limit": 1000, "stats": {"total_inactive_file": 100, "inactive_file": 7}},
    "blkio_stats": {
        "io_service_bytes_recursive": [
            {"op": "Read", "value": 10},
            {"op": "Write", "value": 20},
            {"op": "Total", "value": 30},
            {"op": "read", "value": 1},
        ]
    },
    "networks": {"eth0": {"rx_bytes": 5, "tx_bytes": 6}, "eth1": {"rx_bytes": 1, "tx_bytes": 2}},
}
"""An answer of engine 20.10 on control groups 1, in short."""


def test_a_reading() -> None:
    started = moment("2026-11-18T16:46:40.000000000Z")
    assert started is not None
    reading = read_stats(STATS, node=1, started=started)
    assert reading == Reading(
        node=1,
        at=started + 5.25,
        started=started,
        cpu_seconds=3.5,
        cores=4.0,
        memory=200,
        memory_limit=1000,
        disk_read=11,
        disk_written=20,
        received=6,
        sent=8,
    )


def test_control_groups_2_and_containers_without_a_network() -> None:
    given = {**STATS, "memory_stats": {"usage": 5, "limit": 9, "stats": {"inactive_file": 9}}}
    given["blkio_stats"] = {"io_service_bytes_recursive": None}
    del given["networks"]
    reading = read_stats(given, node=0, started=1.0, cores=0.5)
    assert reading is not None
    assert (reading.memory, reading.disk_read, reading.received, reading.cores) == (0, None, None, 0.5)


@pytest.mark.parametrize(
    "changed",
    [
        {"read": "0001-01-01T00:00:00Z"},
        {"read": None},
        {"read": 5},
        {"cpu_stats": {}},
        {"cpu_stats": None},
        {"cpu_stats": {"cpu_usage": {"total_usage": 0}}},
    ],
)
def test_a_container_that_does_not_run_has_no_reading(changed: dict[str, Any]) -> None:
    assert read_stats({**STATS, **changed}, node=0, started=1.0) is None
    assert read_stats(STATS, node=0, started=9e9) is None


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1970-01-01T00:00:10Z", 10.0),
        ("1970-01-01T00:00:10.123456789Z", 10.123456789),
        ("1970-01-01T00:00:10.5+00:00", 10.5),
        ("0001-01-01T00:00:00Z", None),
        ("", None),
        ("yesterday", None),
    ],
)
def test_times_of_the_engine(text: str, expected: float | None) -> None:
    assert moment(text) == expected


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, None),
        ({"nano_cpus": 1_500_000_000}, 1.5),
        ({"cpu_quota": 50_000}, 0.5),
        ({"cpu_quota": 50_000, "cpu_period": 10_000}, 5.0),
        ({"cpu_quota": -1}, None),
        ({"cpuset_cpus": "0-2,5"}, 4.0),
        ({"cpuset_cpus": "0-2,5", "nano_cpus": 2e9}, 2.0),
    ],
)
def test_limits_of_processors(options: dict[str, Any], expected: float | None) -> None:
    assert cores_of(options) == expected


def test_the_command_of_nvidia_smi_is_bounded() -> None:
    *shell, script = GPU_COMMAND
    assert shell == ["/bin/sh", "-c"]
    assert script.count("nvidia-smi --query-gpu=index,utilization.gpu,memory.used,memory.total") == 2
    assert "timeout 20 nvidia-smi" in script


def test_the_output_of_nvidia_smi() -> None:
    output = "0, 97, 40536, 143771\n1, [N/A], 12, [Not Supported]\nNVIDIA-SMI has failed\n\n2, 0, 0\nx, 1, 2, 3\n\u00b2, 1, 2, 3\n3, nan, 1, 2\n"
    assert read_gpus(output) == (
        GpuReading(device="0", percentage=97.0, used=40536.0, capacity=143771.0),
        GpuReading(device="1", percentage=None, used=12.0, capacity=None),
        GpuReading(device="3", percentage=None, used=1.0, capacity=2.0),
    )


@pytest.mark.parametrize(
    ("elapsed", "gpus", "expected"),
    [(0, False, 1.0), (60, False, 1.0), (300, False, 5.0), (86_400, False, 15.0), (0, True, 5.0), (1e6, True, 15.0)],
)
def test_samples_become_rarer(elapsed: float, gpus: bool, expected: float) -> None:
    assert interval(elapsed, gpus=gpus) == expected


class Engine:
    """Gives a reading for each node, or fails."""

    def __init__(self, *answers: Reading | Exception | None) -> None:
        self.answers = answers
        self.asked: list[tuple[str, int, float | None]] = []

    def reading(self, container_id: str, *, node: int, cores: float | None) -> Reading | None:
        self.asked.append((container_id, node, cores))
        answer = self.answers[node]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def has_gpus(self) -> bool:
        raise APIError("the engine is gone")


def reading(node: int = 0) -> Reading:
    found = read_stats(STATS, node=node, started=STARTED - 1e6)
    assert found is not None
    return found


def test_each_node_is_sampled_and_a_failure_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    sink = RecordingSink()
    engine = Engine(APIError("no such container"), reading(1), None, ValueError("no number"))
    monitor = Monitor(SPEC, engine, ["a", "b", "c", "d"], sink)
    monitor.sample()
    monitor.sample()
    assert engine.asked[:4] == [("a", 0, 1.5), ("b", 1, 1.5), ("c", 2, 1.5), ("d", 3, 1.5)]
    assert sink.readings == [reading(1), reading(1)]
    assert [record.getMessage() for record in caplog.records] == [
        "Run r: its use of the machine could not be sampled: no such container"
    ]


def test_a_sink_that_fails_fails_nothing(caplog: pytest.LogCaptureFixture) -> None:
    class Full(RecordingSink):
        def usage(self, reading: Reading, /) -> None:
            raise OSError("the disk is full")

    Monitor(SPEC, Engine(reading()), ["a"], Full()).sample()
    assert "the disk is full" in caplog.text


def test_after_the_stop_nothing_is_reported() -> None:
    sink = RecordingSink()
    monitor = Monitor(SPEC, Engine(reading()), ["a"], sink)
    monitor.stop()
    monitor.sample()
    assert sink.readings == []
