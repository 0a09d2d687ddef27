"""The registry under its Azure name: the unmodified azure-containerregistry, and the engine with a token of Entra ID."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
import requests

from aml_train.azure.acr import AcrLogin
from aml_train.core.errors import ImageError
from aml_train.image.push import pull_image, push_image, read_back, release
from aml_train.image.registry.auth import RegistryAuth
from aml_train.image.registry.client import RegistryLocation
from tests.integration.conftest import BASE, Recorder
from tests.support import emulator_client
from tests.support.emulator_process import Emulator
from tests.support.engine_images import forget

if TYPE_CHECKING:
    from docker import DockerClient

HOST = "amllocal.azurecr.io"


@pytest.fixture(scope="module")
def session(emulator: Emulator) -> Iterator[requests.Session]:
    """Reaches Azure's host names."""
    environment = emulator.environment()
    with emulator_client.session_for(environment) as session:
        yield session


@pytest.fixture
def location(emulator: Emulator, session: requests.Session) -> RegistryLocation:
    """The registry by both its names, signed in to with a token of Entra ID."""

    def token() -> str:
        return emulator_client.token(session, emulator.environment(), audience="https://containerregistry.azure.net")

    return RegistryLocation(
        push_name=f"localhost:{emulator.registry_tls_port}",
        job_name=HOST,
        url=f"https://{HOST}",
        auth=AcrLogin(HOST, token, session=session),
        verify=str(session.verify),
        proxies=dict(session.proxies),
    )


@pytest.mark.full
def test_the_sdk_stores_and_lists(emulator: Emulator) -> None:
    seen = emulator.client("store", script="registry_steps.py")
    one, two = seen["digests"]
    assert seen["digest"] == one
    assert seen["content"]
    assert seen["repositories"] == ["sdk", "sdk/nested"]
    assert seen["tags"] == ["a", "b", "c", "latest"]
    assert seen["newest"] == ["latest", "c", "b", "a"]
    assert {item[0]: item[1] for item in seen["manifests"]} == {one: ["a", "b", "c"], two: ["latest"]}
    assert {item[0]: item[2] for item in seen["manifests"]} == {one: 5_120_002, two: 5}
    assert (seen["counts"], seen["created"]) == ([2, 4], True)
    assert seen["manifest"] == [two, ["latest"], True, True]
    assert seen["missing"] == [404, 404, 404, 404]


@pytest.mark.full
def test_the_sdk_untags_locks_and_deletes(emulator: Emulator) -> None:
    seen = emulator.client("change", script="registry_steps.py")
    assert seen["after"] == ["b", "locked"]
    assert seen["content"] == seen["digest"]
    assert seen["locked"] == [False, False, True]
    assert seen["refused"] == [["put", 405], ["untag", 405], ["manifest", 405], ["repository", 405], ["read", 405]]
    assert seen["left"] == ["b", "locked"]
    assert seen["listed"] == []
    assert seen["gone"]
    assert seen["again"] == [seen["digest"], "kept"]


@pytest.mark.full
def test_the_engine_pushes_and_pulls_with_a_token_of_entra_id(
    engine: DockerClient, location: RegistryLocation, recorder: Recorder
) -> None:
    repository, tag = f"engine/{secrets.token_hex(4)}", "v1"
    name = f"{location.push_name}/{repository}"
    image = engine.images.get(BASE)
    image.tag(f"{name}-candidate", tag)
    try:
        digest = push_image(engine, f"{name}-candidate", tag, auth=location.credentials(), listener=recorder)
        with location.client() as registry:
            manifest = read_back(registry, f"{repository}-candidate", digest, str(image.id))
            release(registry, manifest, source=f"{repository}-candidate", repository=repository, tags=["a", "b"])
            assert sorted(registry.tags(repository)) == ["a", "b"]
        assert pull_image(engine, name, digest, auth=location.credentials(), listener=recorder) == image.id
        wrong = RegistryAuth(username="00000000-0000-0000-0000-000000000000", password="no")
        with pytest.raises(ImageError, match=r"the push of .* failed: .*(unauthorized|authentication required)"):
            push_image(engine, f"{name}-candidate", tag, auth=wrong, listener=recorder)
    finally:
        forget(engine, name)
