"""Tokens of Azure Container Registry that end in the middle of a push and of a release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import requests

from aml_emulator.identity.tokens import REGISTRY_REFRESH_SECONDS
from aml_train.azure.acr import AcrLogin
from aml_train.core.docker import BuildCli
from aml_train.core.events import Notice
from aml_train.image.ensure import ensure_image
from aml_train.image.registry.client import Registry, RegistryLocation
from aml_train.image.spec import ImageSpec, Tested
from tests.integration.conftest import Recorder
from tests.integration.image.front import Served, serve
from tests.support.engine_images import forget

if TYPE_CHECKING:
    from docker import DockerClient

pytestmark = pytest.mark.full

LAYER_BYTES = 8 << 20


@pytest.fixture(scope="module")
def served(registry_location: RegistryLocation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """One for all tests: the engine then knows that the base's layers are there, and does not send them again."""
    port = int(registry_location.push_name.rpartition(":")[2])
    with serve(port, tmp_path_factory.mktemp("front")) as front:
        yield front


@pytest.fixture
def session(served: Served) -> Iterator[requests.Session]:
    with requests.Session() as session:
        session.trust_env = False
        session.verify = served.ca_file
        yield session


@pytest.fixture
def image(spec: ImageSpec, served: Served, engine: DockerClient) -> Iterator[ImageSpec]:
    """An image with a layer of its own."""
    served.clock.run(1.0)
    served.front.before, served.front.hold = lambda _what: None, 0.0
    served.front.log.clear()
    step = f"RUN head -c {LAYER_BYTES} /dev/urandom > /one # {spec.repository}"
    yield replace(spec, dockerfile=f"FROM {spec.base.pinned}\n{step}\n")
    forget(engine, f"{served.name}/{spec.repository}")


def ensure(
    image: ImageSpec,
    served: Served,
    session: requests.Session,
    engine: DockerClient,
    cli: BuildCli,
    recorder: Recorder,
) -> Tested:
    """Build, push and release, signed in with tokens of Entra ID."""
    location = RegistryLocation(
        push_name=served.name,
        job_name="amltest.azurecr.io",
        url=f"https://{served.name}",
        auth=AcrLogin(
            served.name, lambda: served.tokens.issue(audience="https://containerregistry.azure.net"), session=session
        ),
        verify=served.ca_file,
    )
    return ensure_image(
        image, None, engine=engine, cli=lambda: cli, location=location, listener=recorder, release_tags=["v1"]
    )


def check(registry: Registry, image: ImageSpec, done: Tested) -> None:
    for tag in (image.address_tag, f"dig-{done.digest[7:]}", "v1"):
        manifest = registry.get_manifest(image.repository, tag)
        assert manifest is not None
        assert manifest.digest == done.digest
        assert all(registry.has_blob(image.repository, blob) for blob in manifest.blobs)


def test_credentials_that_end_in_mid_push_are_renewed(
    image: ImageSpec,
    served: Served,
    session: requests.Session,
    engine: DockerClient,
    cli: BuildCli,
    registry: Registry,
    recorder: Recorder,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Both tokens end while the engine sends a layer, before their time. It gives up, and gets new ones."""
    monkeypatch.setattr("aml_train.core.retry.PAUSES", (0.1, 0.1))
    jumped: list[str] = []

    def jump(what: str) -> None:
        if what.startswith("PUT ") and "-candidate/blobs/uploads/" in what and not jumped:
            jumped.append(what)
            served.clock.ahead += REGISTRY_REFRESH_SECONDS

    served.front.before = jump
    done = ensure(image, served, session, engine, cli, recorder)
    check(registry, image, done)
    assert jumped
    (notice,) = recorder.of(Notice)
    assert "unauthorized" in notice.text or "authentication required" in notice.text or "expiry" in notice.text
    assert sum(what == "POST /oauth2/exchange" for what, _, _ in served.front.log) == 2
