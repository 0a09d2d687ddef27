from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError, TestsFailedError, TimedOutError
from aml_train.core.events import ImageReady, LogLine, Progress, StageFinished, TestsFinished
from aml_train.core.references import ImageRef
from aml_train.image.build import build
from aml_train.image.build.build import build_image, verify_base
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.inputs import BaseImage
from aml_train.image.readiness.check import installed_packages, load_facts
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec, Release, Tested, TestSpec
from tests.integration.conftest import Recorder

if TYPE_CHECKING:
    from docker import DockerClient

Ensure = Callable[..., Tested]
MakeTests = Callable[..., TestSpec]


def _never() -> BuildCli:
    raise AssertionError("nothing may be built")


def test_build_push_test_release_then_find(
    spec: ImageSpec,
    tests: MakeTests,
    ensure: Ensure,
    registry: Registry,
    engine: DockerClient,
    registry_location: RegistryLocation,
    recorder: Recorder,
) -> None:
    first = ensure(replace(spec, release=Release(tags=("git-c0ffee",))), tests(), commit="c0ffee")

    assert first.how == "built"
    assert str(first.reference) == f"amltest.azurecr.io/{spec.repository}@{first.digest}"
    assert next(e.stage for e in recorder.of(StageFinished)) == "image"
    assert {e.stage for e in recorder.of(StageFinished)} == {"image", "push", "check", "tests"}
    assert [(e.passed, e.failed, e.cached) for e in recorder.of(TestsFinished)] == [(1, 0, False)]
    assert any("1 passed" in line.text for line in recorder.of(LogLine) if line.source == "tests")
    assert any(e.unit == "steps" and e.done == e.total for e in recorder.of(Progress))
    assert first.record is not None
    assert first.record.commit == "c0ffee"
    facts = load_facts(registry, spec.repository, first.digest)
    assert facts is not None
    packages = installed_packages(facts)
    assert packages["pip:pytest"] == "9.0.1"
    assert "apt:libc6" in packages

    released = {tag: registry.head_manifest(spec.repository, tag) for tag in registry.tags(spec.repository)}
    assert {spec.address_tag, f"dig-{first.digest[7:]}", "git-c0ffee"} <= released.keys()
    for tag in (spec.address_tag, f"dig-{first.digest[7:]}", "git-c0ffee"):
        assert released[tag] == first.digest

    name = f"{registry_location.push_name}/{spec.repository}@{first.digest}"
    kept = engine.images.get(name)
    manifest = registry.get_manifest(spec.repository, first.digest)
    assert manifest is not None
    assert kept.id in (manifest.config_digest, manifest.digest)
    assert not [tag for tag in kept.tags if "candidate" in tag]

    recorder.events.clear()
    second = ensure(spec, tests(), builder=lambda: EngineBuilder(_never))

    assert (second.how, second.digest, second.record) == ("found", first.digest, first.record)
    assert [(e.passed, e.cached) for e in recorder.of(TestsFinished)] == [(1, True)]
    assert all(e.skipped for e in recorder.of(StageFinished))
    assert [e.how for e in recorder.of(ImageReady)] == ["found"]


def test_changed_tests_run_again_in_the_same_image(
    spec: ImageSpec,
    tests: MakeTests,
    ensure: Ensure,
    project: Path,
    recorder: Recorder,
    engine: DockerClient,
    registry_location: RegistryLocation,
) -> None:
    first = ensure(spec, tests())
    (project / "tests" / "test_two.py").write_text("def test_two():\n    pass\n")
    engine.images.remove(f"{registry_location.push_name}/{spec.repository}@{first.digest}", force=True)
    recorder.events.clear()

    second = ensure(spec, tests(), builder=lambda: EngineBuilder(_never))

    assert (second.how, second.digest) == ("found", first.digest)
    assert [(e.passed, e.cached) for e in recorder.of(TestsFinished)] == [(2, False)]
    assert ensure(spec, tests(), builder=lambda: EngineBuilder(_never)).record == second.record


def test_failing_test_releases_nothing(
    spec: ImageSpec, tests: MakeTests, ensure: Ensure, project: Path, registry: Registry, recorder: Recorder
) -> None:
    (project / "tests" / "test_bad.py").write_text("\n\ndef test_bad():\n    assert 'yes' == 'no'\n")

    with pytest.raises(
        TestsFailedError, match=r"1 of 2 tests failed in the image\n  tests/test_bad\.py:4: test_bad: .*yes"
    ):
        ensure(spec, tests())

    assert registry.tags(spec.repository) == []
    assert [(e.passed, e.failed) for e in recorder.of(TestsFinished)] == [(1, 1)]


def test_failing_instruction_is_named_with_its_last_lines(
    spec: ImageSpec, ensure: Ensure, registry: Registry
) -> None:
    spec = replace(spec, dockerfile=f"FROM {spec.base.pinned}\nRUN echo reason >&2; exit 7\n")

    with pytest.raises(ImageError, match=r"the image's step 'RUN echo reason >&2; exit 7' failed:\n  reason"):
        ensure(spec, None)
    assert registry.tags(f"{spec.repository}-candidate") == []


@pytest.mark.full
def test_build_that_takes_too_long_is_killed(
    spec: ImageSpec, engine: DockerClient, cli: BuildCli, recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever time it has; where that was over before the step began, it gets more, until it is killed in the midst of it."""
    spec = replace(spec, dockerfile=f"FROM {spec.base.pinned}\nRUN sleep 36000 # {spec.repository}\n")
    for seconds in (2, 4, 8, 16, 32, 64, 128, 256):
        monkeypatch.setattr(build, "BUILD_TIMEOUT", float(seconds))
        with pytest.raises(TimedOutError, match=f"the build took longer than {seconds} seconds"):
            build_image(spec, cli=cli, engine=engine, tag="aml-train-test:slow", listener=recorder)
        if any("sleep 36000" in event.text for event in recorder.of(LogLine)):
            break
    else:
        pytest.fail("no build came to its step")


def test_moved_base_is_noticed(
    spec: ImageSpec, engine: DockerClient, cli: BuildCli, recorder: Recorder, registry_location: RegistryLocation
) -> None:
    """The tag names another image when the build reads it than when it was resolved."""
    name = f"aml-train-test-{spec.repository.rpartition('/')[2]}"
    other = replace(spec, dockerfile=f"FROM {spec.base.pinned}\nRUN echo {name} > /other\n", base=spec.base)
    resolved = build_image(other, cli=cli, engine=engine, tag=f"{name}:resolved", listener=recorder)
    try:
        base = BaseImage(reference=ImageRef.parse(f"{name}:base"), image_id=resolved)
        engine.images.get(spec.base.identity).tag(name, "base")
        moved = replace(spec, base=base, dockerfile=f"FROM {base.pinned}\nENV A=b\n")
        with pytest.raises(ImageError, match=f"the base {name}:base was moved to another image during the build"):
            build_image(moved, cli=cli, engine=engine, tag=f"{name}:built", listener=recorder)
        verify_base(engine.images.get(resolved).attrs, spec.base, engine)
    finally:
        for tag in ("resolved", "base", "built"):
            engine.images.remove(f"{name}:{tag}", force=True)
