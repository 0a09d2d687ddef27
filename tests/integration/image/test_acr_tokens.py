"""Tokens of Azure Container Registry that end in the middle of a push and of a release."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
import requests

from aml_emulator.identity.tokens import REGISTRY_ACCESS_SECONDS, REGISTRY_REFRESH_SECONDS
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
ENGINE_RENEWS_AFTER = 60.0
"""Seconds for which the engine takes a token for good that does not say how long it is (moby, as the distribution project's client)."""


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


def test_our_own_requests_survive_the_end_of_tokens(
    image: ImageSpec,
    served: Served,
    session: requests.Session,
    engine: DockerClient,
    cli: BuildCli,
    registry: Registry,
    recorder: Recorder,
) -> None:
    """At each mount and each tag the access token has ended; at some of them the refresh token as well."""
    jumped: dict[str, float] = {}

    def jump(what: str) -> None:
        ours = f"/v2/{image.repository}/manifests/" in what and what.startswith("PUT")
        ours = ours or (what.startswith("POST") and "?mount=" in what)
        if ours and what not in jumped:
            jumped[what] = (REGISTRY_ACCESS_SECONDS, REGISTRY_REFRESH_SECONDS)[len(jumped) % 2]
            served.clock.ahead += jumped[what]

    served.front.before = jump
    done = ensure(image, served, session, engine, cli, recorder)
    check(registry, image, done)
    put = {what.rpartition("/")[2] for what in jumped if what.startswith("PUT")}
    assert {image.address_tag, f"dig-{done.digest[7:]}", "v1"} <= put
    assert len(jumped) > 5
    refused = [what for what, _, status in served.front.log if status == 401 and what in jumped]
    assert set(refused) == set(jumped)
    assert not recorder.of(Notice)


def test_the_engine_renews_its_token_in_a_long_push(
    image: ImageSpec,
    served: Served,
    session: requests.Session,
    engine: DockerClient,
    cli: BuildCli,
    registry: Registry,
    recorder: Recorder,
) -> None:
    """A layer takes longer than its token lives; the engine finishes it with a new one, and nobody notices."""
    held: list[str] = []

    def hurry(what: str) -> None:
        """While the layer is held, its token ends; before and after that no other does, however long things take."""
        upload = what.partition(" ")[2].partition("?")[0]
        if what.startswith("PATCH ") and not held:
            held.append(upload)
            served.clock.run(REGISTRY_ACCESS_SECONDS / (ENGINE_RENEWS_AFTER + 2))
        elif what.startswith("PUT ") and upload in held:
            served.clock.run(1.0)

    served.front.before = hurry
    served.front.hold = ENGINE_RENEWS_AFTER + 5
    done = ensure(image, served, session, engine, cli, recorder)
    check(registry, image, done)
    assert not recorder.of(Notice)
    patch = next((what, token) for what, token, _ in served.front.log if what.startswith("PATCH"))
    upload = patch[0].removeprefix("PATCH ").partition("?")[0]
    (put,) = [
        (token, status)
        for what, token, status in served.front.log
        if what.startswith(f"PUT {upload}") and status == 0
    ]
    assert put[0] != patch[1]
