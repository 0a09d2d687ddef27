"""A small project to build and test."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.config.sections.image import ImageConfig
from aml_train.config.sections.image_packages import PipConfig
from aml_train.core.docker import BuildCli, engine_platform
from aml_train.core.files import FileSet
from aml_train.core.references import ImageRef
from aml_train.image.base import BaseImages, docker_registries
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.ensure import ensure_image
from aml_train.image.registry.client import RegistryLocation
from aml_train.image.spec import ImageSpec, Tested, TestSpec, plan_image
from tests.integration.conftest import BASE, Recorder
from tests.support.engine_images import forget

if TYPE_CHECKING:
    from docker import DockerClient

Ensure = Callable[..., Tested]


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait to its end for work that was told to end: on a busy machine that takes longer than a run has time for."""
    monkeypatch.setattr("aml_train.core.threads.JOIN_SECONDS", 120.0)


@pytest.fixture
def repository(engine: DockerClient, registry_location: RegistryLocation) -> Iterator[str]:
    """A repository of the test's own; what the engine has of it is removed."""
    name = f"aml-train-test/{secrets.token_hex(6)}"
    yield name
    forget(engine, f"{registry_location.push_name}/{name}")


@pytest.fixture
def spec(engine: DockerClient, repository: str) -> ImageSpec:
    """An image with pytest in it."""
    reference = ImageRef.parse(BASE)
    platform = engine_platform(engine)
    base = BaseImages(engine=lambda: engine, registries=docker_registries({})).resolve(reference, platform)
    # A variable of its own makes each test's image its own, while the layer with pytest comes from the build cache.
    config = ImageConfig(
        base=reference,
        pip=PipConfig(packages=("pytest==9.0.1",)),
        env={"TEST_REPOSITORY": repository},
        repository=repository,
        where="aml-train.yml:2",
    )
    return plan_image(config, base, None, platform)


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A project with one passing test."""
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_one.py").write_text("def test_one():\n    print('inside')\n    assert 1 + 1 == 2\n")
    return tmp_path


@pytest.fixture
def tests(project: Path) -> Callable[..., TestSpec]:
    """Make a test spec of the project as it is now."""

    def make(**settings: Any) -> TestSpec:
        settings = {"command": "python -m pytest -q tests", "timeout": 600.0, **settings}
        return TestSpec(files=FileSet.collect(project), **settings)

    return make


@pytest.fixture
def ensure(engine: DockerClient, cli: BuildCli, registry_location: RegistryLocation, recorder: Recorder) -> Ensure:
    """The stage, with the real engine and registry."""

    def call(spec: ImageSpec, tests: TestSpec | None, **options: Any) -> Tested:
        options = {"builder": lambda: EngineBuilder(lambda: cli), "listener": recorder, **options}
        return ensure_image(spec, tests, engine=engine, location=registry_location, **options)

    return call
