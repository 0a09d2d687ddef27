"""Imports: copies of images from another registry, and what the service answers."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from requests.adapters import BaseAdapter

from aml_emulator.api.app import App
from aml_emulator.domain import RegistryImports
from aml_emulator.domain.errors import ConflictError, InvalidError, NotFoundError
from aml_emulator.registry import ImageCopier, ImportFailedError, ImportSource
from aml_train.image.registry.manifest import OCI_INDEX, OCI_MANIFEST, sha256_digest
from tests.unit.emulator.parts import Service
from tests.unit.image.registry.fake_registry import FakeRegistry

BLOBS = (b"configuration", b"layer one", b"layer two")
ID = "/subscriptions/s/resourceGroups/g/providers/Microsoft.ContainerRegistry/registries/other"


class Hosts(BaseAdapter):
    """The source and the own registry, by their hosts."""

    def __init__(self, source: FakeRegistry) -> None:
        super().__init__()
        self.source, self.own = source, FakeRegistry()
        self.hosts: set[str] = set()

    def send(self, request: requests.PreparedRequest, *args: Any, **options: Any) -> requests.Response:
        host = urlsplit(str(request.url)).netloc
        self.hosts.add(host)
        return (self.own if host == "127.0.0.1:1" else self.source).send(request, *args, **options)

    def close(self) -> None:
        """Nothing is open."""


def fill(registry: FakeRegistry, *, missing: bytes = b"") -> tuple[str, str]:
    """Put an index with one image into the source; return the digests of both."""
    listed = [{"digest": sha256_digest(one), "size": len(one)} for one in BLOBS]
    image = json.dumps({"config": listed[0], "layers": listed[1:]}).encode()
    index = json.dumps({"manifests": [{"digest": sha256_digest(image)}]}).encode()
    registry.blobs.update({("team/base", sha256_digest(one)): one for one in BLOBS if one != missing})
    for content, media_type in ((image, OCI_MANIFEST), (index, OCI_INDEX)):
        registry.manifests["team/base", sha256_digest(content)] = (content, media_type)
    registry.manifests["team/base", "1"] = (index, OCI_INDEX)
    return sha256_digest(index), sha256_digest(image)


def copier(hosts: Hosts) -> ImageCopier:
    return ImageCopier(1, login_server="own.azurecr.io", transport=hosts)


def source(**changes: str) -> ImportSource:
    return ImportSource(**{"registry": "r.test", "repository": "team/base", "reference": "1", **changes})


def test_an_index_is_copied_with_everything_that_it_lists() -> None:
    hosts = Hosts(FakeRegistry())
    index, image = fill(hosts.source)
    copier(hosts).copy(source(reference=index), [("bases/one", "dig-1"), ("bases/two", None)])
    assert set(hosts.own.manifests) == {
        ("bases/one", index),
        ("bases/one", "dig-1"),
        ("bases/one", image),
        ("bases/two", index),
        ("bases/two", image),
    }
    assert {blob for repository, blob in hosts.own.blobs if repository == "bases/one"} == set(
        map(sha256_digest, BLOBS)
    )
    assert copier(hosts).has_tag("bases/one", "dig-1")
    assert not copier(hosts).has_tag("bases/one", "dig-2")


def test_what_is_there_is_not_sent_again() -> None:
    hosts = Hosts(FakeRegistry())
    fill(hosts.source)
    copier(hosts).copy(source(), [("bases/one", "1")])
    hosts.own.log.clear()
    copier(hosts).copy(source(), [("bases/one", "1")])
    assert not [line for line in hosts.own.log if line.startswith("POST")]


@pytest.mark.parametrize("realm", ["https://r.test/token", None])
def test_credentials_are_used_where_the_source_asks(realm: str | None) -> None:
    basic = "Basic " + base64.b64encode(b"me:secret").decode()
    hosts = Hosts(FakeRegistry(basic=basic, realm=realm))
    fill(hosts.source)
    copier(hosts).copy(source(username="me", password="secret"), [("bases/one", "1")])
    assert ("bases/one", "1") in hosts.own.manifests
    with pytest.raises(ImportFailedError, match=r"credentials\.$"):
        copier(hosts).copy(source(username="me", password="wrong" if realm else ""), [("bases/two", "1")])
    assert "secret" not in repr(source(password="secret"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ("no image", "answered 404 to manifests/1"),
        ("no layer", "answered 404 to blobs/"),
        ("no manifest", "has a manifest that cannot be read"),
        ("no answer", "r.test does not answer"),
        ("endless", "without an end"),
    ],
)
def test_what_cannot_be_read_is_a_failure(wrong: str, message: str) -> None:
    hosts = Hosts(FakeRegistry())
    if wrong != "no image":
        fill(hosts.source, missing=BLOBS[1] if wrong == "no layer" else b"")
    if wrong == "no manifest":
        hosts.source.manifests["team/base", "1"] = (b"[", OCI_MANIFEST)
    if wrong == "no answer":
        hosts.source.fail_first = [requests.ConnectionError()]
    if wrong == "endless":
        content = json.dumps({"manifests": [{"digest": "1"}]}).encode()
        hosts.source.manifests["team/base", "1"] = (content, OCI_INDEX)
    with pytest.raises(ImportFailedError, match=message):
        copier(hosts).copy(source(), [("bases/one", "1")])
    assert ("bases/one", "1") not in hosts.own.manifests


def test_the_own_registry_and_docker_hub_have_other_addresses() -> None:
    hosts = Hosts(FakeRegistry())
    fill(hosts.source)
    copier(hosts).copy(source(registry="docker.io"), [("one", "1")])
    copier(hosts).copy(source(registry="localhost:5000"), [("two", "1")])
    assert hosts.hosts == {"127.0.0.1:1", "registry-1.docker.io", "localhost:5000"}
    copier(hosts).copy(source(registry="own.azurecr.io", repository="two"), [("three", "1")])
    assert ("three", "1") in hosts.own.manifests


class Held:
    """A copier that waits."""

    def __init__(self, error: Exception | None = None) -> None:
        self.may_end = threading.Event()
        self.copied: list[tuple[ImportSource, Sequence[tuple[str, str | None]]]] = []
        self.tags: set[tuple[str, str]] = set()
        self._error = error

    def has_tag(self, repository: str, tag: str) -> bool:
        return (repository, tag) in self.tags

    def copy(self, given: ImportSource, targets: Sequence[tuple[str, str | None]]) -> None:
        assert self.may_end.wait(10)
        if self._error is not None:
            raise self._error
        self.copied.append((given, targets))


def join() -> None:
    for thread in threading.enumerate():
        if thread.name == "registry-import":
            thread.join(10)


REQUEST = {
    "source": {"registryUri": "r.test", "sourceImage": "team/base:1", "credentials": {"password": "secret"}},
    "targetTags": ["bases/one:2"],
    "untaggedTargetRepositories": ["bases/two"],
}


def test_an_import_runs_until_it_has_ended() -> None:
    held = Held()
    imports = RegistryImports(held)
    number = imports.begin(REQUEST)
    assert not imports.ended(number)
    held.may_end.set()
    join()
    assert imports.ended(number)
    assert held.copied == [(source(password="secret"), [("bases/one", "2"), ("bases/two", None)])]
    with pytest.raises(NotFoundError):
        imports.ended("0")


@pytest.mark.parametrize(
    ("error", "message"),
    [(ImportFailedError("r.test answered 401."), "r.test answered 401."), (KeyError("x"), "the log of the local")],
)
def test_a_failure_is_the_answer(error: Exception, message: str) -> None:
    held = Held(error)
    held.may_end.set()
    imports = RegistryImports(held)
    number = imports.begin(REQUEST)
    join()
    with pytest.raises(InvalidError, match=message):
        imports.ended(number)


def test_a_tag_that_exists_needs_force() -> None:
    held = Held()
    held.may_end.set()
    held.tags.add(("bases/one", "2"))
    imports = RegistryImports(held)
    with pytest.raises(ConflictError, match="bases/one:2 already exists"):
        imports.begin(REQUEST)
    number = imports.begin({**REQUEST, "mode": "Force"})
    join()
    assert imports.ended(number)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"mode": "Other"}, "neither NoForce nor Force"),
        ({"source": {"sourceImage": "a"}}, "neither a resourceId"),
        ({"source": {"registryUri": "r", "sourceImage": "A B"}}, "source image 'A B' is not valid"),
        ({"source": {"registryUri": "r", "sourceImage": "../a"}}, "is not valid"),
        ({"targetTags": ["../a:1"]}, "target tag '../a:1' is not valid"),
        ({"untaggedTargetRepositories": ["a:1"]}, "target repository 'a:1' is not valid"),
    ],
)
def test_wrong_requests_are_refused(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidError, match=message):
        RegistryImports(Held()).begin({**REQUEST, **changes})


def test_a_registry_may_be_named_by_its_id() -> None:
    held = Held()
    held.may_end.set()
    RegistryImports(held).begin({"source": {"resourceId": ID, "sourceImage": "a@sha256:" + "0" * 64}})
    join()
    ((given, targets),) = held.copied
    assert (given.registry, given.reference) == ("other.azurecr.io", "sha256:" + "0" * 64)
    assert targets == [("a", "latest")]


def test_the_client_looks_at_the_location_until_the_end() -> None:
    service, held = Service(), Held()
    try:
        service.app = App(service.services, service.jobs, imports=RegistryImports(held))
        identity = service.services.identity
        name = identity.login_server.partition(".")[0]
        place = f"{identity.resource_group_id}/providers/Microsoft.ContainerRegistry/registries"
        begun = service.call("POST", f"{place}/{name}/importImage?api-version=2023-07-01", REQUEST)
        assert begun.status == 202
        location = urlsplit(begun.headers["Location"])
        assert location.netloc == "management.azure.com"
        again = f"{location.path}?{location.query}"
        assert service.call("GET", again).status == 202
        held.may_end.set()
        join()
        assert service.call("GET", again).status == 200
        assert service.call("POST", f"{place}/another/importImage?api-version=2023-07-01", REQUEST).status == 404
    finally:
        service.close()
