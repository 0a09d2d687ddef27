"""The image to work in: the tested one, or that of an environment."""

from __future__ import annotations

import json
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import pytest

import aml_train.dev_image
from aml_train.core.errors import ImageError
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.dev_image import find_dev_image
from aml_train.image.base_files import ImageSettings
from aml_train.image.inputs import BaseImage
from aml_train.image.records import store_record
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.manifest import sha256_digest
from aml_train.image.spec import TestRecord, TestSpec
from aml_train.jobs.spec import TargetNames
from aml_train.pipeline.prepare import PreparedRun
from tests.support.image_configs import plan as plan_image
from tests.unit.image.registry.fake_registry import FakeRegistry

SPEC = plan_image()


class Place(RegistryLocation):
    """A registry in memory."""

    server = FakeRegistry()

    def client(self) -> Registry:
        return Registry("https://r.test", transport=self.server, attempts=1)


class World:
    """A plan, and a target with a registry."""

    def __init__(self, tests: TestSpec | None, environment: Any = None) -> None:
        self.server = Place.server = FakeRegistry()
        self.location = Place(push_name="localhost:7381", job_name="amllocal.azurecr.io", url="https://r.test")
        names = TargetNames(
            target="local", description="", scope="s", registry_for_jobs="amllocal.azurecr.io",
            registry_for_engine="localhost:7381", compute=None,
        )  # fmt: skip
        plan = SimpleNamespace(image=SPEC, tests=tests, environment=environment, names=names)
        self.prepared = PreparedRun(plan=cast("Any", plan), host=cast("Any", None))

    def image_registry(self) -> RegistryLocation:
        return self.location

    def release(self) -> str:
        """Put the image into the registry; return its digest."""
        config = json.dumps({"config": {"User": "azureml:azureml", "Env": ["A=b=c"]}}).encode()
        place = sha256_digest(config)
        entry = {"digest": place, "size": len(config)}
        self.server.blobs[SPEC.repository, place] = config
        content = json.dumps({"config": entry, "layers": []}).encode()
        kind = "application/vnd.oci.image.manifest.v1+json"
        digest = sha256_digest(content)
        for name in (digest, SPEC.address_tag):
            self.server.manifests[SPEC.repository, name] = (content, kind)
        return digest


@pytest.fixture
def tests(tmp_path: Any) -> TestSpec:
    (tmp_path / "test_a.py").touch()
    return TestSpec(command="pytest", files=FileSet.collect(tmp_path))


def opened(world: World, monkeypatch: pytest.MonkeyPatch) -> PreparedRun:
    monkeypatch.setattr(aml_train.dev_image, "open_target", lambda *_: world)
    return world.prepared


def test_the_tested_image_by_its_digest(tests: TestSpec, monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(tests)
    prepared = opened(world, monkeypatch)
    with pytest.raises(ImageError, match=r"is not in amllocal\.azurecr\.io yet") as caught:
        find_dev_image(prepared, lambda _event: None)
    assert caught.value.hint == "Build and test it: aml-train image build"

    digest = world.release()
    with pytest.raises(ImageError, match=f"these tests have not passed in amllocal.azurecr.io/digits@{digest} yet"):
        find_dev_image(prepared, lambda _event: None)

    record = TestRecord(
        digest=digest, key=tests.key(digest), command="pytest", passed=3, failed=0, skipped=0, seconds=1.0,
        at="2026-11-20T10:00:00+00:00", commit=None,
    )  # fmt: skip
    with world.location.client() as registry:
        store_record(registry, SPEC.repository, record)
    found = find_dev_image(prepared, lambda _event: None)
    assert found.reference == f"localhost:7381/digits@{digest}"
    assert found.settings == ImageSettings(user="azureml", variables={"A": "b=c"})
    assert found.record == record
    assert found.origin() == {"address": SPEC.address_tag}


def test_an_image_without_tests_has_no_record(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(None)
    world.release()
    assert find_dev_image(opened(world, monkeypatch), lambda _event: None).record is None


class Lookup:
    """Resolves every image to a digest, but those that only the engine has."""

    def resolve(self, reference: ImageRef, _platform: str) -> BaseImage:
        if reference.repository.endswith("only-here"):
            return BaseImage(reference=reference, image_id="sha256:" + "1" * 64)
        return BaseImage(reference=reference, digest="sha256:" + "2" * 64)

    def settings(self, _base: BaseImage, _platform: str) -> ImageSettings:
        return ImageSettings(user="root", variables={})


@pytest.mark.parametrize(
    ("given", "reference", "environment"),
    [
        ("sklearn:3", "ours.azurecr.io/azureml/x@sha256:" + "2" * 64, {"environment": "sklearn:3"}),
        ("sklearn", "ours.azurecr.io/azureml/x@sha256:" + "2" * 64, {"environment": "sklearn:9"}),
        ("ours:2", "localhost:7381/digits@sha256:" + "2" * 64, {"environment": "ours:2"}),
        ("here:1", "team/only-here:1", {"environment": "here:1"}),
    ],
)
def test_the_image_of_an_environment(
    given: str, reference: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = type("Place", (), {"platform": lambda _self: "linux/amd64"})()
    host = type("Host", (), {"place": lambda _self, _builder: place})()
    config = type("Config", (), {"target": None, "directory": None, "builder": None})()
    monkeypatch.setattr(aml_train.dev_image, "image_lookup", lambda *_: Lookup())
    monkeypatch.setattr(aml_train.dev_image, "open_workspace", lambda *_: type("C", (), {"service": None})())
    images = {
        "sklearn": "ours.azurecr.io/azureml/x:1",
        "here": "team/only-here:1",
        "ours": "amllocal.azurecr.io/digits:7",
    }
    monkeypatch.setattr(
        "aml_train.dev_image.find_environment_image",
        lambda _rest, name, version: (version or "9", images[name]),
    )
    prepared = replace(World(None).prepared, host=cast("Any", host))
    cast("Any", prepared.plan).config = config
    found = find_dev_image(prepared, lambda _event: None, given)
    assert (found.reference, found.origin()) == (reference, environment)
