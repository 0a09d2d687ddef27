"""A runner of jobs on the real Docker engine; Blob storage and the service's side are in memory."""

from __future__ import annotations

import dataclasses
import io
import secrets
import tarfile
import time
from collections.abc import Callable, Iterator
from typing import Any

import docker
import pytest
from docker.models.containers import Container

from aml_emulator.executor.queue import JobQueue
from aml_emulator.executor.shared import INSTANCE_LABEL, RUN_LABEL, Shared
from aml_emulator.executor.spec import LOG_PATH, ExecutorSettings, Folder, RunSpec
from tests.support.fake_executor import HANGING_SECONDS, MemoryBlobs, RecordingSink

IMAGE = "python:3.11-slim-bookworm"
STORE = "store"


@dataclasses.dataclass
class Bench:
    """A runner, and what it works with."""

    runner: JobQueue
    settings: ExecutorSettings
    blobs: MemoryBlobs
    sinks: dict[str, RecordingSink]

    def sink_for(self, run_id: str) -> RecordingSink:
        return self.sinks.setdefault(run_id, RecordingSink())

    def spec(self, command: str, **changes: Any) -> RunSpec:
        run_id = f"run-{secrets.token_hex(4)}"
        base = RunSpec(
            run_id=run_id,
            experiment="test",
            display_name="test",
            command=command,
            image=IMAGE,
            artifacts=Folder(container="artifacts", prefix=f"ExperimentRun/dcid.{run_id}"),
        )
        return dataclasses.replace(base, **changes)

    def submit(self, command: str, **changes: Any) -> tuple[RunSpec, RecordingSink]:
        spec = self.spec(command, **changes)
        sink = self.sink_for(spec.run_id)
        self.runner.submit(spec)
        return spec, sink

    def log(self, spec: RunSpec, path: str = LOG_PATH) -> bytes:
        return self.blobs.content.get((spec.artifacts.container, spec.artifacts.name_of(path)), b"")

    def rank_log(self, spec: RunSpec, rank: int) -> str:
        return self.log(spec, f"user_logs/std_log_process_{rank}.txt").decode()

    def artifact(self, spec: RunSpec, path: str) -> bytes:
        return self.blobs.content[spec.artifacts.container, spec.artifacts.name_of(path)]


@pytest.fixture
def make_bench(engine: docker.DockerClient) -> Iterator[Callable[..., Bench]]:
    instances: list[str] = []
    benches: list[Bench] = []

    def make(*, max_jobs: int = 2, of: Bench | None = None, **more: Any) -> Bench:
        settings = (
            dataclasses.replace(of.settings, shared=Shared(max_jobs))
            if of
            else ExecutorSettings(
                max_jobs=max_jobs,
                proxy_port=7380,
                ca_bundle=b"-----BEGIN CERTIFICATE-----\n",
                registry_login_server="amllocal.azurecr.io",
                registry_engine_name="localhost:7381",
                instance=secrets.token_hex(8),
                shared=Shared(max_jobs),
                **more,
            )
        )
        instances.append(settings.instance)
        blobs = of.blobs if of else MemoryBlobs()
        sinks: dict[str, RecordingSink] = {}
        runner = JobQueue(
            blobs=blobs, settings=settings, sink_for=lambda run_id: sinks.setdefault(run_id, RecordingSink())
        )
        bench = Bench(runner=runner, settings=settings, blobs=blobs, sinks=sinks)
        benches.append(bench)
        return bench

    yield make
    for bench in benches:
        if all(sink.ending for sink in bench.sinks.values()):
            wait_idle(bench)
        bench.runner.close()
    for instance in instances:
        for container in engine.containers.list(all=True, filters=own(instance), sparse=True):
            container.remove(force=True)
        for network in engine.networks.list(filters=own(instance)):
            network.remove()


@pytest.fixture
def bench(make_bench: Callable[..., Bench]) -> Bench:
    made = make_bench()
    made.runner.start()
    return made


def own(instance: str) -> dict[str, str | list[str] | bool]:
    return {"label": f"{INSTANCE_LABEL}={instance}"}


def wait_idle(bench: Bench) -> None:
    deadline = time.monotonic() + HANGING_SECONDS
    while bench.runner.active() and time.monotonic() < deadline:
        time.sleep(0.05)


def until(condition: Callable[[], bool], sink: RecordingSink) -> None:
    """Wait until *condition* holds; a run that ends meanwhile fails the test."""
    deadline = time.monotonic() + HANGING_SECONDS
    while not condition():
        assert sink.ending is None, (sink.ending, sink.error)
        assert time.monotonic() < deadline, sink.statuses
        time.sleep(0.05)


def nodes(engine: docker.DockerClient, spec: RunSpec) -> list[Container]:
    """Return the containers of a run, in whatever state."""
    found: list[Container] = engine.containers.list(
        all=True, filters={"label": f"{RUN_LABEL}={spec.run_id}"}, sparse=True
    )
    return found


def put_on_each_node(engine: docker.DockerClient, spec: RunSpec, name: str) -> None:
    """Put an empty file into /tmp of the containers of a run. One request each: a command's end would be asked for in another."""
    data = io.BytesIO()
    with tarfile.open(fileobj=data, mode="w") as archive:
        archive.addfile(tarfile.TarInfo(name))
    for node in nodes(engine, spec):
        assert node.put_archive("/tmp", data.getvalue())


def assert_clean(engine: docker.DockerClient, bench: Bench) -> None:
    """Nothing of the emulator is left on the engine, soon after its runs have ended."""
    wait_idle(bench)
    assert engine.containers.list(all=True, filters=own(bench.settings.instance), sparse=True) == []
    assert engine.networks.list(filters=own(bench.settings.instance)) == []
