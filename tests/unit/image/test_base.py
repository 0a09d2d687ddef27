from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from aml_train.image.base import docker_login, docker_registries


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


def test_home_without_a_configuration(tmp_path: Path) -> None:
    assert docker_login("r.test", {"HOME": str(tmp_path)}) is None


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
