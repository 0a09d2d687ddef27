"""A registry that is busy, refuses for a while, or breaks connections, in the middle of a push and of a release."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from aml_train.core.docker import BuildCli
from aml_train.core.errors import ImageError
from aml_train.core.events import Notice, StageFinished
from aml_train.image.builders.engine import EngineBuilder
from aml_train.image.ensure import ensure_image
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.registry.referrers import fallback_tag
from aml_train.image.spec import ImageSpec, Tested, TestSpec
from tests.integration.conftest import Recorder
from tests.integration.image.faulty import Fault, FaultyRegistry, serve
from tests.support.engine_images import forget

if TYPE_CHECKING:
    from docker import DockerClient

LAYER_BYTES = 3 << 20
PATCH, MANIFEST = r"^PATCH .*/blobs/uploads/", r"^PUT .*/manifests/"

Ensure = Callable[..., Tested]


@pytest.fixture(scope="module")
def proxy(registry_location: RegistryLocation) -> Iterator[FaultyRegistry]:
    """One for all tests: the engine then knows that the base's layers are there, and does not send them again."""
    with serve(registry_location.push_name) as server:
        yield server


@pytest.fixture
def faulty(proxy: FaultyRegistry) -> FaultyRegistry:
    """The proxy without faults."""
    proxy.faults, proxy.log = [], []
    return proxy


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine's own pauses cannot be shortened; ours can."""
    monkeypatch.setattr("aml_train.core.retry.PAUSES", (0.1, 0.1, 0.1))


@pytest.fixture
def small(spec: ImageSpec, faulty: FaultyRegistry, engine: DockerClient) -> Iterator[ImageSpec]:
    """An image with two layers of its own."""
    steps = [f"RUN head -c {LAYER_BYTES} /dev/urandom > /{name} # {spec.repository}" for name in ("one", "two")]
    yield replace(spec, dockerfile="\n".join([f"FROM {spec.base.pinned}", *steps, ""]))
    forget(engine, f"{faulty.name}/{spec.repository}")


@pytest.fixture
def ensure(engine: DockerClient, cli: BuildCli, faulty: FaultyRegistry, recorder: Recorder) -> Ensure:
    """The stage, through the faulty proxy."""
    location = RegistryLocation(push_name=faulty.name, job_name="amltest.azurecr.io", url=f"http://{faulty.name}")

    def call(spec: ImageSpec, tests: TestSpec | None = None, **options: Any) -> Tested:
        options = {"listener": recorder, **options}
        return ensure_image(
            spec, tests, engine=engine, builder=lambda: EngineBuilder(lambda: cli), location=location, **options
        )

    return call


def released(registry: Registry, spec: ImageSpec, done: Tested, extra: Sequence[str] = ()) -> None:
    """Check that the registry has just what *done* says, whole."""
    tags = {spec.address_tag, f"{spec.address_tag}-{done.digest[7:47]}", f"dig-{done.digest[7:]}", *extra}
    # What the checks saw, where the next build begins, the claim of the run, and the list of what refers to the image.
    kept = ("facts-", "cache", fallback_tag(done.digest))
    assert {tag for tag in registry.tags(spec.repository) if not tag.startswith(kept)} == tags
    for tag in tags:
        manifest = registry.get_manifest(spec.repository, tag)
        assert manifest is not None
        assert manifest.digest == done.digest
        assert all(registry.has_blob(spec.repository, blob) for blob in manifest.blobs)


@pytest.mark.full
@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(Fault(what=PATCH, status=401, after=1), id="401 in a layer"),
        pytest.param(Fault(what=PATCH, status=429, headers={"Retry-After": "1"}), id="429 in a layer"),
        pytest.param(Fault(what=PATCH, status=403, after=1), id="403 in a layer"),
        pytest.param(Fault(what=MANIFEST, status=401), id="401 at the manifest"),
        pytest.param(Fault(what=MANIFEST, status=429), id="429 at the manifest"),
    ],
)
def test_what_the_engine_gives_up_is_taken_up_again(
    small: ImageSpec, ensure: Ensure, registry: Registry, recorder: Recorder, faulty: FaultyRegistry, fault: Fault
) -> None:
    faulty.faults.append(replace(fault))
    released(registry, small, ensure(small))
    assert faulty.faults[0].happened == 1
    (notice,) = recorder.of(Notice)
    assert notice.level == "warning"
    assert "the push of localhost:" in notice.text
    assert notice.text.endswith("Retrying in 0 s: attempt 2 of 4.")
    assert [event.stage for event in recorder.of(StageFinished)].count("push") == 1


def test_a_broken_push_resumes(small: ImageSpec, ensure: Ensure, registry: Registry, faulty: FaultyRegistry) -> None:
    """What has arrived is not sent again: each layer is stored once, though one push broke off at the manifest."""
    faulty.faults.append(Fault(what=MANIFEST, status=401))
    released(registry, small, ensure(small))
    stored = faulty.matches(r"^PUT .*candidate/blobs/uploads/.*digest=(sha256[^&]+)", 201)
    assert len(stored) >= 3, (
        "two layers and the configuration; the base's layers, too, if no other test has stored them"
    )
    assert len(set(stored)) == len(stored)
    assert faulty.count(r"^PUT .*candidate/manifests/candidate-", 201) == 1


@pytest.mark.full
@pytest.mark.parametrize("status", [401, 429])
def test_a_pull_that_breaks_off_is_done_again(
    small: ImageSpec,
    ensure: Ensure,
    tests: Callable[..., TestSpec],
    engine: DockerClient,
    registry: Registry,
    recorder: Recorder,
    faulty: FaultyRegistry,
    status: int,
) -> None:
    """The image is there without a record of these tests, and the engine has lost it."""
    first = ensure(small)
    name = f"{faulty.name}/{small.repository}@{first.digest}"
    for known in engine.api.images():
        if any(f"@{first.digest}" in digest for digest in known["RepoDigests"] or ()):
            engine.images.remove(known["Id"], force=True)
    faulty.faults.append(Fault(what=r"^(GET|HEAD) .*/manifests/sha256", status=status))
    second = ensure(small, tests(command="true", evidence="exit-code"))
    assert (second.how, second.digest) == ("found", first.digest)
    (notice,) = recorder.of(Notice)
    assert f"the pull of {name} failed" in notice.text
    # An engine may remember the manifest of what it pulled before: then it asks for the blobs alone.
    manifest = registry.get_manifest(small.repository, first.digest)
    assert manifest is not None
    # It is gone when the engine pulls.
    gone = rf"^(GET|HEAD) .*/manifests/sha256|^GET .*/blobs/({'|'.join(manifest.blobs)})"
    faulty.faults.append(Fault(what=gone, status=404, times=-1))
    engine.images.remove(name, force=True)
    with pytest.raises(ImageError, match=rf"(?s){faulty.name} no longer has .*\nBefore that, the pull of"):
        ensure(small, tests(command="exit 0"))
