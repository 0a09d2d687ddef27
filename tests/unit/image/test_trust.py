"""What a run of the protected branch and one of a proposal read and write of each other."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import cast

import pytest

from aml_train.core.errors import InvalidError
from aml_train.core.events import Notice, TestsFinished
from aml_train.core.references import ImageRef
from aml_train.core.trust import PROTECTED, Trust, proposal
from aml_train.image.builder import Builder
from aml_train.image.ensure import find_build, find_image
from aml_train.image.records import record_tag
from aml_train.image.spec import ImageSpec, Release
from tests.support.image_configs import plan
from tests.unit.image.test_ensure import BuildingError, Builds, World, another, never

PULL, OTHER = proposal(pull="7"), proposal(pull="8")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def as_run(world: World, trust: Trust, *tags: str) -> None:
    """Have *world* run as one of *trust*, with the release tags."""
    base = world.spec if world.spec.released is None else world.spec.released
    base = dataclasses.replace(base, trust=PROTECTED, release=dataclasses.replace(base.release, tags=tags))
    world.spec = base.trusted(trust)
    world.tests = dataclasses.replace(world.tests, group=trust.group or "")
    world.events.clear()
    world.registry.log.clear()


def places_written(world: World) -> set[str]:
    """Return the repositories and tags that were written."""
    puts = [line.removeprefix("PUT /v2/") for line in world.registry.log if line.startswith("PUT ")]
    return {line for line in puts if "/manifests/" in line}


def test_a_proposal_writes_into_its_own_repository_alone(world: World) -> None:
    world.registry.manifests.clear()
    name = world.spec.repository
    as_run(world, PULL, "branch-pull-7")
    built = world.ensure(lambda: cast("Builder", Builds(world)))
    assert (built.how, built.reference.repository) == ("built", f"{name}-proposals")
    assert {line.partition("/manifests/")[0] for line in places_written(world)} == {
        f"{name}-proposals",
        f"{name}-proposals-candidate",
    }
    assert (f"{name}-proposals", "branch-pull-7") in world.registry.manifests


def test_the_protected_branch_reads_nothing_of_a_proposal(world: World) -> None:
    """Neither the image under the address, nor the record of its tests, however it is forged."""
    world.registry.manifests.clear()
    as_run(world, PULL)
    built = world.ensure(lambda: cast("Builder", Builds(world)))
    own = world.spec.repository
    group = dataclasses.replace(world.tests, group="")
    forged = record_tag(built.digest, group.key(built.digest))
    given = record_tag(built.digest, world.tests.key(built.digest))
    world.registry.manifests[own, forged] = world.registry.manifests[own, given]
    as_run(world, PROTECTED)
    with pytest.raises(BuildingError):
        world.ensure(never)
    assert not [line for line in world.registry.log if "-proposals" in line]
    assert find_image(world.spec, location=world.location) is None


def test_a_proposal_uses_the_released_image_and_the_record_of_its_tests(world: World) -> None:
    name = world.spec.repository
    as_run(world, PULL, "branch-pull-7")
    found = world.ensure()
    assert (found.how, found.reference.repository, found.digest) == ("found", name, world.image.digest)
    assert [event.cached for event in world.of(TestsFinished)] == [True]
    assert {line.partition("/manifests/")[0] for line in places_written(world)} == {f"{name}-proposals"}
    assert world.registry.manifests[f"{name}-proposals", "branch-pull-7"][0] == world.image.content
    located = find_image(world.spec, location=world.location)
    assert located is not None
    assert located.reference.repository == name


def test_a_record_of_a_proposal_counts_for_its_group_alone(world: World) -> None:
    """The tests differ from the released ones, so that a proposal's run tests the released image."""

    class Tests:
        def verify(self, *_args: object, check: bool, test: bool) -> tuple[TestsFinished, None]:
            assert (check, test) == (False, True)
            return TestsFinished(passed=3, failed=0, skipped=0, seconds=1.0, cached=False), None

    world.tests = dataclasses.replace(world.tests, command="pytest --of-the-proposal")
    as_run(world, PULL)
    world.ensure(lambda: cast("Builder", Tests()))
    again = world.ensure()
    assert again.record is not None
    assert again.record.passed == 3
    for trust in (OTHER, PROTECTED):
        as_run(world, trust)
        with pytest.raises(BuildingError, match="check=False test=True"):
            world.ensure(never)


def test_the_tag_of_a_commit_does_not_move(world: World) -> None:
    other = another(world)
    client, name = world.location.client(), world.spec.repository
    client.put_tag(name, "git-1", other)
    client.put_tag(name, "branch-main", other)
    world.spec = dataclasses.replace(world.spec, release=Release(tags=("git-1", "branch-main")))
    world.ensure()
    assert world.registry.manifests[name, "git-1"][0] == other.content
    assert world.registry.manifests[name, "branch-main"][0] == world.image.content
    second = f"git-1-{world.image.digest[7:19]}"
    assert world.registry.manifests[name, second][0] == world.image.content
    (notice,) = (event.text for event in world.of(Notice))
    assert notice.endswith(f"as the tag of a commit does not move: this image is {second}.")


def test_a_build_of_a_proposal_is_none_of_the_protected_branch(world: World) -> None:
    known = world.ensure()
    base = world.spec
    as_run(world, PULL)
    del world.registry.manifests[base.repository, base.address_tag]
    built = world.ensure(lambda: cast("Builder", Builds(world)))
    assert built.reference.repository == f"{base.repository}-proposals"
    digest, tests = built.digest, world.tests
    for repository, found in ((built.reference.repository, True), (base.repository, False)):
        world.registry.manifests.pop((base.repository, base.build_tag(digest)), None)
        reference = ImageRef.parse(f"r.test/{repository}@{known.digest}")
        place = dataclasses.replace(known, reference=reference)
        build = find_build(world.spec, tests, place, digest, location=world.location, listener=print)
        assert (build is not None) is found


@pytest.mark.parametrize("first", [PROTECTED, PULL, OTHER])
def test_caches_of_builds_carry_trust_and_project(first: Trust) -> None:
    spec = dataclasses.replace(plan(), build_args={"BUILDKIT_CACHE_MOUNT_NS": "mine", "CUDA": "12"})
    args = spec.trusted(first).builder_args
    assert args["CUDA"] == "12"
    level = "protected/digits" if first.protected else "proposal/digits-proposals"
    assert args["BUILDKIT_CACHE_MOUNT_NS"] == f"aml-train/{level}"
    assert (args["BUILDKIT_SANDBOX_HOSTNAME"] == "aml-train-protected") is first.protected
    assert spec.trusted(first).address == spec.address


def with_line(line: str) -> ImageSpec:
    return dataclasses.replace(plan(), dockerfile=f"{line}\nFROM python:3.11\n")


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("# syntax=docker/dockerfile:1", ""),
        ("#syntax = docker.io/docker/dockerfile:1.7@sha256:aa", ""),
        ("# comment", ""),
        ("# syntax=mine/frontend:1", "mine/frontend:1"),
        ("# escape=`\n# SYNTAX=registry.test/docker/dockerfile:1", "registry.test/docker/dockerfile:1"),
        ("// syntax=mine/frontend", "mine/frontend"),
        ("# syntax=docker/dockerfile-mine:1", "docker/dockerfile-mine:1"),
    ],
)
def test_a_proposal_chooses_no_frontend(line: str, refused: str) -> None:
    """A frontend could name the caches of the protected branch."""
    spec = with_line(line)
    assert spec.trusted(PROTECTED).dockerfile == spec.dockerfile
    if not refused:
        assert spec.trusted(PULL).repository == "digits-proposals"
        return
    with pytest.raises(InvalidError) as caught:
        spec.trusted(PULL)
    assert f"the frontend {refused} " in caught.value.message
    argument = dataclasses.replace(plan(), build_args={"BUILDKIT_SYNTAX": "mine/frontend"})
    with pytest.raises(InvalidError, match="mine/frontend"):
        argument.trusted(PULL)


@pytest.mark.parametrize("name", ["digits-proposals", "digits-proposals-candidate"])
def test_no_image_is_named_like_those_of_proposals(name: str) -> None:
    spec = dataclasses.replace(plan(), repository=name)
    for trust in (PROTECTED, PULL):
        with pytest.raises(InvalidError, match="proposed commits"):
            spec.trusted(trust)
