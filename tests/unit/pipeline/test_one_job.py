"""Runs of one commit that build its image at the same time share one job, which is trained in one tested digest."""

from __future__ import annotations

import json
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from aml_train.config.sections.targets import ClusterConfig
from aml_train.core.clock import Clock
from aml_train.core.events import Broadcast, Event, ImageReady, TestsFinished
from aml_train.core.tags import Tag
from aml_train.image.builder import Builder, Verified
from aml_train.image.context import ImageContext
from aml_train.image.ensure import ensure_image, find_build, find_image
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.registry.manifest import OCI_MANIFEST, Manifest, sha256_digest
from aml_train.image.spec import ImageSpec, Tested, TestSpec
from aml_train.jobs.pace import Pace
from aml_train.pipeline.branch_verdicts import Recorded
from aml_train.pipeline.context import RunContext
from aml_train.pipeline.plan import PlannedImage
from aml_train.pipeline.result import RunOptions, RunResult
from aml_train.pipeline.run import run
from tests.support.fake_workspace import FakeClock, FakeService
from tests.unit.image.registry.fake_registry import FakeRegistry
from tests.unit.image.test_ensure import FACTS, LAYERS, World
from tests.unit.pipeline.test_run import good_service, make_plan

RUNS = 6


class Builds:
    """A builder whose builds of one image have different digests, and whose tests pass."""

    def __init__(self, number: int) -> None:
        self._number = number

    def build(self, ctx: ImageContext, *_args: object, **_options: object) -> Verified:
        for one in LAYERS:
            ctx.registry.upload_blob(ctx.candidates, one)
        listed = [{"digest": sha256_digest(one), "size": len(one)} for one in LAYERS]
        content = json.dumps({"config": listed[0], "layers": listed[1:], "build": self._number}).encode()
        manifest = Manifest(digest=sha256_digest(content), media_type=OCI_MANIFEST, content=content)
        ctx.registry.put_manifest(ctx.candidates, manifest.digest, content, OCI_MANIFEST)
        results = TestsFinished(passed=2, failed=0, skipped=0, seconds=1.0, cached=False)
        return Verified(manifest=manifest, results=results, facts=FACTS)

    def identity(self, _ctx: ImageContext) -> str:
        return "nothing 1"

    def discard(self, *_args: object) -> None:
        return


class Together(FakeRegistry):
    """A registry that lets no run store its image before all of them are about to."""

    def __init__(self) -> None:
        super().__init__()
        self._all = threading.Barrier(RUNS)
        self._one = threading.RLock()

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        if request.method == "PUT" and "/manifests/dig-" in str(request.url):
            self._all.wait(timeout=30)
        with self._one:
            return super().send(request, *args, **options)


@dataclass
class Target:
    """A target with a registry of its own, and the builder of one run."""

    service: FakeService
    location: RegistryLocation
    emit: Broadcast
    builder: Builds
    pace: Pace = field(default_factory=Pace)

    def ensure_image(self, spec: ImageSpec, tests: TestSpec | None, *, force: bool, commit: str | None) -> Tested:
        def built() -> Builder:
            return cast("Builder", self.builder)

        return ensure_image(
            spec,
            tests,
            engine=None,
            location=self.location,
            listener=self.emit,
            builder=built,
            force=force,
            commit=commit,
        )

    def ensure_compute(self, cluster: ClusterConfig, clock: Clock) -> None:
        return

    def find_image(self, spec: ImageSpec) -> Tested | None:
        return find_image(spec, location=self.location)

    def find_build(self, spec: ImageSpec, tests: TestSpec | None, known: Tested, digest: str) -> Tested | None:
        return find_build(spec, tests, known, digest, location=self.location, listener=self.emit)

    def image_registry(self) -> RegistryLocation:
        return self.location

    def registry(self, host: str) -> Any:
        return None


@dataclass
class Shared:
    """What the runs share: the registry, the workspace, and the image with its tests."""

    world: World
    service: FakeService

    def run(self, number: int, **options: Any) -> tuple[RunResult, Sequence[Event]]:
        spec = replace(self.world.spec, release=replace(self.world.spec.release, tags=("git-1",)))
        images = (PlannedImage(spec=spec, tests=self.world.tests),)
        plan = replace(make_plan({"acc": [">= 0.95"]}), images=images)
        clock, events = FakeClock(), list[Event]()
        emit = Broadcast(events.append)
        target = Target(self.service, self.world.location, emit, Builds(number))
        context = RunContext(
            plan=plan,
            open_target=lambda: target,
            options=RunOptions(**options),
            clock=Clock(now=clock.now, sleep=clock.sleep),
            emit=emit,
            prover=lambda _target: Recorded(origin=plan.origin),
        )
        return run(context), events


@pytest.fixture
def shared(tmp_path: Path) -> Shared:
    world = World(tmp_path)
    return Shared(world, good_service())


def test_six_runs_of_a_new_commit_at_once_have_one_job_and_one_model_version(shared: Shared) -> None:
    world, service = shared.world, shared.service
    object.__setattr__(world.location, "transport", Together())
    with ThreadPoolExecutor(RUNS) as pool:
        ended = list(pool.map(shared.run, range(RUNS)))
    assert {result.status for result, _ in ended} == {"passed"}, [result.message for result, _ in ended]
    (job,) = service.jobs.values()
    (model,) = service.registered
    digest = job.tags[Tag.DIGEST]
    assert service.submitted[0].document["environment"]["image"].endswith(f"@{digest}")
    assert model.tags[Tag.DIGEST] == digest
    builds = {event.digest for _, events in ended for event in events if isinstance(event, ImageReady)}
    assert len(builds) == RUNS, "each has released its own build"
    for result, events in ended:
        assert isinstance(result.image, Tested)
        assert result.image.digest == digest
        assert result.image.record is not None
        assert result.image.record.digest == digest
        assert [event for event in events if isinstance(event, ImageReady)][-1].digest == digest


def test_a_job_in_an_untested_build_of_the_address_is_another_one(shared: Shared) -> None:
    world, service = shared.world, shared.service
    world.registry.manifests.clear()
    first, _ = shared.run(1)
    assert isinstance(first.image, Tested)
    repository = world.spec.repository
    del world.registry.manifests[repository, world.spec.address_tag]
    record = next(tag for _, tag in world.registry.manifests if tag.startswith(f"test-{first.image.digest[7:47]}"))
    del world.registry.manifests[repository, record]
    second, _ = shared.run(2)
    assert isinstance(second.image, Tested)
    assert second.image.digest != first.image.digest
    assert [job.tags[Tag.DIGEST] for job in service.jobs.values()] == [first.image.digest, second.image.digest]


def test_a_forced_build_trains_in_its_own_digest_and_the_next_run_shares_that_job(shared: Shared) -> None:
    shared.world.registry.manifests.clear()
    first, _ = shared.run(1)
    forced, _ = shared.run(2, force_build=True)
    third, _ = shared.run(3)
    digests = [result.image.digest for result in (first, forced, third) if isinstance(result.image, Tested)]
    assert digests[0] != digests[1] == digests[2]
    assert len(shared.service.jobs) == 2
