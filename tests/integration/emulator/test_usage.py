"""What jobs use, sampled from the real Docker engine."""

from __future__ import annotations

import threading
from collections.abc import Callable

import docker
import pytest

from aml_emulator.executor.spec import Folder
from tests.integration.emulator.executor_bench import STORE, Bench, assert_clean, put_on_each_node, until

MIB = 2**20
BUSY = f"""
import os, pathlib
held = bytearray(80 * {MIB})
while not pathlib.Path('/tmp/end').exists():
    with open('/root/written', 'wb') as file:
        file.write(os.urandom({MIB}))
        file.flush()
        os.fsync(file.fileno())
print(len(held))
"""
"""Holds memory, and uses the processor and the disk until it may end."""


def monitors(run_id: str) -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == f"monitor-{run_id}"]


def test_a_job_is_sampled_while_it_runs(bench: Bench, engine: docker.DockerClient) -> None:
    bench.blobs.put(STORE, "busy/busy.py", BUSY.encode())
    spec, sink = bench.submit(
        "exec python busy.py",
        code=Folder(container=STORE, prefix="busy"),
        host_options={"nano_cpus": 500_000_000, "mem_limit": 512 * MIB},
    )
    until(lambda: len(sink.readings) >= 3 and sink.readings[-1].memory > 80 * MIB, sink)
    assert len(monitors(spec.run_id)) == 1
    put_on_each_node(engine, spec, "end")
    assert sink.wait() == "Completed", sink.error
    first, *_, last = sink.readings
    assert first.at > first.started
    assert [one.at for one in sink.readings] == sorted({one.at for one in sink.readings})
    assert {(one.node, one.started, one.cores, one.memory_limit, one.gpus) for one in sink.readings} == {
        (0, first.started, 0.5, 512 * MIB, ())
    }
    used = (last.cpu_seconds - first.cpu_seconds) / (last.at - first.at)
    assert 0.02 < used < 0.6, "half a processor at most, however busy the machine is"
    assert last.memory < 512 * MIB
    # Not every kernel counts what containers write.
    assert last.disk_written is None or last.disk_written >= MIB
    assert last.received is not None
    assert last.received > 0
    assert_clean(engine, bench)
    for thread in threading.enumerate():
        if thread.name in monitors(spec.run_id):
            thread.join(timeout=60)
    assert monitors(spec.run_id) == []


@pytest.mark.full
def test_each_node_is_sampled_and_a_restart_continues(
    make_bench: Callable[..., Bench], engine: docker.DockerClient
) -> None:
    before = make_bench()
    before.runner.start()
    spec, sink = before.submit("until [ -e /tmp/end ]; do sleep 0.1; done", launcher="pytorch", nodes=2, processes=1)
    until(lambda: {one.node for one in sink.readings} == {0, 1}, sink)
    before.runner.close()
    count = len(sink.readings)
    after = make_bench(of=before)
    taken = after.sink_for(spec.run_id)
    after.runner.adopt((spec,))
    after.runner.start()
    until(lambda: {one.node for one in taken.readings} == {0, 1}, taken)
    put_on_each_node(engine, spec, "end")
    assert taken.wait() == "Completed", taken.error
    assert len(sink.readings) <= count + 1, "one that was on its way"
    for node in (0, 1):
        (started,) = {one.started for one in (*sink.readings, *taken.readings) if one.node == node}
        earlier = max(one.cpu_seconds for one in sink.readings if one.node == node)
        assert all(one.cpu_seconds >= earlier for one in taken.readings if one.node == node), started
