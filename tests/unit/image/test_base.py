from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any, cast

import pytest
import requests

from aml_train.core.references import ImageRef
from aml_train.image.base import BaseImages, Registries, docker_login, docker_registries
from aml_train.image.inputs import BaseImage
from aml_train.image.registry.client import Registry
from tests.unit.image.registry.fake_registry import FakeRegistry


def _config(folder: Path, document: object) -> dict[str, str]:
    (folder / "config.json").write_text(json.dumps(document))
    return {"DOCKER_CONFIG": str(folder)}


AUTH = base64.b64encode(b"me:pass:word").decode()


@pytest.mark.parametrize(
    ("document", "registry", "expected"),
    [
        ({"auths": {"r.test": {"auth": AUTH}}}, "r.test", ("me", "pass:word", None)),
        ({"auths": {"https://r.test": {"auth": AUTH}}}, "r.test", ("me", "pass:word", None)),
        ({"auths": {"https://index.docker.io/v1/": {"auth": AUTH}}}, "docker.io", ("me", "pass:word", None)),
        ({"auths": {"r.test": {"auth": "", "identitytoken": "t"}}}, "r.test", ("", "", "t")),
        ({"auths": {"r.test": {"auth": AUTH}}}, "other.test", None),
        ({}, "r.test", None),
    ],
)
def test_login(tmp_path: Path, document: object, registry: str, expected: tuple[str, str, str | None] | None) -> None:
    found = docker_login(registry, _config(tmp_path, document))
    assert (None if found is None else (found.username, found.password, found.identity_token)) == expected


@pytest.mark.parametrize(
    ("registry", "url"),
    [
        ("docker.io", "https://registry-1.docker.io"),
        ("nvcr.io", "https://nvcr.io"),
        ("localhost:5000", "http://localhost:5000"),
        ("127.0.0.1:1", "http://127.0.0.1:1"),
    ],
)
def test_where_a_registry_is(tmp_path: Path, registry: str, url: str) -> None:
    with docker_registries({"HOME": str(tmp_path)})(registry) as client:
        assert client.url == url


NAME = ImageRef.parse("r.test/team/base:1")
OLD, IMAGE_ID = "sha256:" + "0" * 64, "sha256:" + "1" * 64
MANIFEST = b'{"schemaVersion": 2}'


class Engine:
    """An engine that has one image; *digests* are those that it pulled it by."""

    def __init__(self, *digests: str, repository: str = "r.test/team/base") -> None:
        self.images = self
        self.digests = [f"{repository}@{digest}" for digest in digests]

    def get(self, _name: str) -> Any:
        return type("Image", (), {"attrs": {
            "Os": "linux", "Architecture": "amd64", "Id": IMAGE_ID, "RepoDigests": self.digests,
        }})  # fmt: skip


def registry_of(transport: FakeRegistry) -> Registries:
    return lambda name, attempts=1: Registry(f"https://{name}", transport=transport, attempts=attempts)


@pytest.fixture
def registry() -> FakeRegistry:
    """A registry in which the tag points to :data:`MANIFEST`."""
    found = FakeRegistry()
    found.manifests["team/base", "1"] = (MANIFEST, "application/vnd.oci.image.index.v1+json")
    return found


def digest_of(content: bytes) -> str:
    from aml_train.image.registry.manifest import sha256_digest

    return sha256_digest(content)


def resolved(
    engine: Engine, registry: FakeRegistry, remarks: list[str] | None = None, *, name: ImageRef = NAME, **options: Any
) -> BaseImage:
    bases = BaseImages(
        engine=lambda: cast("Any", engine), registries=registry_of(registry),
        where="aml-train.yml:3", remark=(remarks if remarks is not None else []).append, **options,
    )  # fmt: skip
    return bases.resolve(name, "linux/amd64")


def test_a_moved_tag_is_built_from_the_registrys_digest(registry: FakeRegistry) -> None:
    remarks: list[str] = []
    base = resolved(Engine(OLD), registry, remarks)
    assert base == BaseImage(reference=NAME, digest=digest_of(MANIFEST))
    assert base.pinned == f"r.test/team/base@{digest_of(MANIFEST)}"
    (remark,) = remarks
    assert remark.startswith("aml-train.yml:3: r.test/team/base:1 has moved: the registry has sha256:")
    assert "the engine sha256:000000000000. The image is built from the registry's" in remark
    assert registry.log == ["HEAD /v2/team/base/manifests/1"]


def test_a_tag_that_has_not_moved_is_the_engines_and_says_nothing(registry: FakeRegistry) -> None:
    remarks: list[str] = []
    same = digest_of(MANIFEST)
    assert resolved(Engine(same), registry, remarks) == BaseImage(reference=NAME, digest=same, image_id=IMAGE_ID)
    # An index that was pushed again may list the very image that the engine has: it then knows both.
    assert resolved(Engine(OLD, same), registry, remarks) == BaseImage(reference=NAME, digest=same, image_id=IMAGE_ID)
    assert remarks == []


def test_offline_the_engines_is_used_and_that_is_said() -> None:
    remarks: list[str] = []
    registry = FakeRegistry(fail_first=[requests.ConnectionError("no route")])
    base = resolved(Engine(OLD), registry, remarks)
    assert base == BaseImage(reference=NAME, digest=OLD, image_id=IMAGE_ID)
    assert len(registry.log) == 1
    (remark,) = remarks
    assert "whether r.test/team/base:1 has moved is not known (the registry r.test cannot be reached" in remark
    assert remark.endswith("; the engine's sha256:000000000000 is used.")


def test_a_tag_that_the_registry_no_longer_has(registry: FakeRegistry) -> None:
    remarks: list[str] = []
    registry.manifests.clear()
    assert resolved(Engine(OLD), registry, remarks).digest == OLD
    assert "(r.test does not have it any more)" in remarks[0]
