"""An image that the registry has: what is read of it, and when it is built all the same."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest

from aml_train.core.checks import CHECKS
from aml_train.core.errors import DamagedError, ImageError
from aml_train.core.events import Event, ImageChecked, ImageReady, StageFinished, StageStarted, TestsFinished
from aml_train.core.files import FileSet
from aml_train.image.builder import Builder, Verified
from aml_train.image.context import ImageContext
from aml_train.image.ensure import ensure_image, find_build
from aml_train.image.readiness.check import store_facts
from aml_train.image.records import record_tag, store_record
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import OCI_MANIFEST, Manifest, sha256_digest
from aml_train.image.spec import ImageSpec, Release, Tested, TestRecord, TestSpec
from tests.support.image_configs import plan
from tests.unit.image.registry.fake_registry import FakeRegistry

FACTS = {"format": 1, "bash": None, "python": None, "image": {"size": 1, "entrypoint": [], "user": ""}}
LAYERS = (b"one", b"two", b"three")


class Location(RegistryLocation):
    """A location of a registry in memory."""

    transport: FakeRegistry

    def client(self) -> Registry:
        return Registry(self.url, transport=self.transport, attempts=1)


class World:
    """A registry with the image, its facts and the record of its tests; a builder that only counts."""

    def __init__(self, folder: Path) -> None:
        spec = plan()
        checks = dataclasses.replace(spec.checks, ignore=tuple(CHECKS))
        self.spec: ImageSpec = dataclasses.replace(spec, checks=checks)
        self.tests = TestSpec(files=FileSet.collect(folder), command="pytest")
        self.registry = FakeRegistry()
        self.location = Location(push_name="localhost:1", job_name="r.test", url="https://r.test")
        object.__setattr__(self.location, "transport", self.registry)
        listed = [{"digest": sha256_digest(one), "size": len(one)} for one in LAYERS]
        content = json.dumps({"config": listed[0], "layers": listed[1:]}).encode()
        self.image = Manifest(digest=sha256_digest(content), media_type=OCI_MANIFEST, content=content)
        self.registry.blobs.update({(spec.repository, sha256_digest(one)): one for one in LAYERS})
        client, repository, digest = self.location.client(), spec.repository, self.image.digest
        client.put_tag(repository, spec.address_tag, self.image)
        store_facts(client, repository, digest, FACTS)
        record = TestRecord(
            digest=digest,
            key=self.tests.key(digest),
            command="pytest",
            passed=1,
            failed=0,
            skipped=0,
            seconds=1.0,
            at="2026-11-23T00:00:00+00:00",
            commit=None,
        )
        store_record(client, repository, record)
        self.registry.log.clear()
        self.events: list[Event] = []

    def ensure(self, builder: Callable[[], Builder] | None = None, **options: Any) -> Tested:
        def unused() -> Any:
            raise AssertionError("nothing is built or tested")

        return ensure_image(
            self.spec,
            self.tests,
            engine=None,
            location=self.location,
            listener=self.events.append,
            builder=builder or unused,
            **options,
        )

    def of(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


class BuildingError(Exception):
    """The image is being built."""


class Builds:
    """A builder that pushes the image as a candidate, and says that the tests passed."""

    def __init__(self, world: World) -> None:
        self._world = world

    def build(self, ctx: ImageContext, *_args: object, **_options: object) -> Verified:
        world = self._world
        world.registry.blobs.update({(ctx.candidates, sha256_digest(one)): one for one in LAYERS})
        ctx.registry.put_manifest(ctx.candidates, world.image.digest, world.image.content, world.image.media_type)
        results = TestsFinished(passed=2, failed=0, skipped=0, seconds=1.0, cached=False)
        return Verified(manifest=world.image, results=results, facts=FACTS)

    def identity(self, _ctx: ImageContext) -> str:
        return "nothing 1"

    def discard(self, *_args: object) -> None:
        return


class Quicker:
    """A builder that has another run release the same image meanwhile."""

    def __init__(self, world: World) -> None:
        self._world = world

    def build(self, *_args: object, **_options: object) -> Verified:
        world = self._world
        client, repository = world.location.client(), world.spec.repository
        client.put_tag(repository, world.spec.address_tag, world.image)
        ours = Manifest(digest=sha256_digest(b"{}"), media_type=OCI_MANIFEST, content=b"{}")
        return Verified(manifest=ours, results=None, facts=FACTS)

    def discard(self, *_args: object) -> None:
        return


class Never:
    """A builder that says that it was called."""

    def build(self, *_args: object, **_options: object) -> Any:
        raise BuildingError

    def discard(self, *_args: object) -> None:
        return

    def verify(self, *_args: object, check: bool, test: bool) -> Any:
        raise BuildingError(f"check={check} test={test}")


def never() -> Builder:
    return cast("Builder", Never())


def test_events_name_the_image_that_they_are_of(world: World) -> None:
    world.ensure()
    assert {
        event.image_name for event in (*world.of(ImageReady), *world.of(ImageChecked), *world.of(TestsFinished))
    } == {""}
    world.events.clear()
    world.spec = dataclasses.replace(world.spec, name="prep")
    world.ensure()
    named = [*world.of(ImageReady), *world.of(ImageChecked), *world.of(TestsFinished)]
    assert [event.image_name for event in named] == ["prep"] * 3


def test_an_image_with_its_record_is_found(world: World) -> None:
    world.spec = dataclasses.replace(world.spec, release=Release(tags=("git-1",)))
    found = world.ensure()
    assert (found.how, found.digest) == ("found", world.image.digest)
    assert found.record is not None
    assert [type(event) for event in world.events] == [
        StageStarted,
        StageFinished,
        StageStarted,
        ImageChecked,
        StageFinished,
        StageStarted,
        TestsFinished,
        StageFinished,
        ImageReady,
    ]
    repository = world.spec.repository
    assert world.registry.manifests[repository, "git-1"][0] == world.image.content


def test_an_image_without_a_record_is_tested(world: World) -> None:
    tag = record_tag(world.image.digest, world.tests.key(world.image.digest))
    del world.registry.manifests[world.spec.repository, tag]
    with pytest.raises(BuildingError, match="check=False test=True"):
        world.ensure(never)
    assert not world.of(ImageReady)


def test_a_damaged_record_is_none(world: World) -> None:
    tag = record_tag(world.image.digest, world.tests.key(world.image.digest))
    content = world.registry.manifests[world.spec.repository, tag][0]
    blob = json.loads(content)["layers"][0]["digest"]
    world.registry.blobs[world.spec.repository, blob] = b"{}"
    with pytest.raises(DamagedError):
        world.ensure(never)
    assert not world.of(ImageReady)


def test_a_missing_image_is_built(world: World) -> None:
    del world.registry.manifests[world.spec.repository, world.spec.address_tag]
    with pytest.raises(BuildingError):
        world.ensure(never)


def test_a_built_image_is_released_and_found_by_the_next_run(world: World) -> None:
    world.registry.manifests.clear()
    world.registry.blobs.clear()
    world.spec = dataclasses.replace(world.spec, release=Release(tags=("git-1",)))
    built = world.ensure(lambda: cast("Builder", Builds(world)))
    assert (built.how, built.digest) == ("built", world.image.digest)
    assert built.record is not None
    assert built.record.passed == 2
    repository = world.spec.repository
    puts = [
        line.rpartition("/")[2] for line in world.registry.log if line.startswith(f"PUT /v2/{repository}/manifests/")
    ]
    assert {f"dig-{world.image.digest[7:]}", "git-1", world.spec.address_tag} <= set(puts)
    assert puts[-2:] == [world.spec.address_tag, "cache"], "the address, by which readers find all, is last"
    assert world.ensure().record == built.record


def test_if_another_run_is_quicker_its_image_is_verified_and_used(world: World) -> None:
    del world.registry.manifests[world.spec.repository, world.spec.address_tag]
    found = world.ensure(lambda: cast("Builder", Quicker(world)))
    assert (found.how, found.digest) == ("found", world.image.digest)
    assert found.record is not None
    assert [event.cached for event in world.of(TestsFinished)] == [True]


def test_force_asks_for_nothing(world: World) -> None:
    with pytest.raises(BuildingError):
        world.ensure(never, force=True)
    assert world.registry.log == []


def test_a_registry_that_does_not_answer_ends_it(world: World) -> None:
    world.registry.fail_first = [500]
    with pytest.raises(ImageError, match="HTTP 500"):
        world.ensure(never)


def another(world: World) -> Manifest:
    """Put another build of the image into the registry, with all that belongs to it."""
    content = world.image.content + b" "
    manifest = Manifest(digest=sha256_digest(content), media_type=OCI_MANIFEST, content=content)
    client, repository = world.location.client(), world.spec.repository
    for tag in (f"dig-{manifest.digest[7:]}", world.spec.build_tag(manifest.digest)):
        client.put_tag(repository, tag, manifest)
    record = read_test_record(world)
    store_record(
        client,
        repository,
        dataclasses.replace(record, digest=manifest.digest, key=world.tests.key(manifest.digest)),
    )
    store_facts(client, repository, manifest.digest, FACTS)
    return manifest


def read_test_record(world: World) -> TestRecord:
    record = world.ensure().record
    assert record is not None
    world.events.clear()
    return record


def tag_of(world: World, tag: str) -> str:
    return sha256_digest(world.registry.manifests[world.spec.repository, tag][0])


def test_an_image_in_the_place_of_another_one_has_a_new_address(world: World) -> None:
    theirs = another(world)
    repository = world.spec.repository
    world.location.client().put_tag(repository, world.spec.address_tag, theirs)
    built = world.ensure(lambda: cast("Builder", Builds(world)), force=True)
    assert (built.how, built.digest) == ("built", world.image.digest)
    assert built.address == world.spec.rebuilt(built.digest).address != world.spec.address
    assert tag_of(world, world.spec.address_tag) == built.digest
    found = world.ensure()
    assert (found.how, found.digest, found.address) == ("found", built.digest, built.address)
    assert find_build(world.spec, world.tests, built, theirs.digest, location=world.location, listener=print) is None


def test_another_tested_build_of_the_address_is_found_by_its_digest(world: World) -> None:
    theirs, known = another(world), world.ensure()
    spec = dataclasses.replace(world.spec, release=Release(tags=("git-1",)))

    def build(digest: str, tests: TestSpec | None = world.tests, known: Tested = known) -> Tested | None:
        return find_build(spec, tests, known, digest, location=world.location, listener=world.events.append)

    found = build(theirs.digest)
    assert found is not None
    assert (found.digest, found.address) == (theirs.digest, known.address)
    assert found.record is not None
    assert found.record.digest == theirs.digest
    assert tag_of(world, "git-1") == theirs.digest
    assert build(theirs.digest, dataclasses.replace(world.tests, command="pytest -x")) is None, "no such record"
    assert build(theirs.digest, known=dataclasses.replace(known, address="b" * 64)) is None, "of another address"
    assert build(f"sha256:{'0' * 64}") is None
    other = world.spec.build_tag(theirs.digest)
    world.registry.manifests[world.spec.repository, other] = (world.image.content, OCI_MANIFEST)
    assert build(theirs.digest) is None, "the tag names another image"
