"""Another registry: a user with a password, as docker login keeps it, or as a credential helper gives it."""

from __future__ import annotations

import base64
import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from aml_train.core.errors import ImageError
from aml_train.image.base import docker_login
from aml_train.image.push import pull_image, push_image
from aml_train.image.registry.client import Registry
from tests.integration.conftest import BASE, Recorder
from tests.support.engine_images import forget
from tests.support.registry_process import serve_registry

if TYPE_CHECKING:
    from docker import DockerClient

USER, PASSWORD = "robot", "registry-word"
# bcrypt, which is what docker-registry takes: crypt.crypt(PASSWORD, "$2b$05$…")
HTPASSWD = f"{USER}:$2b$05$abcdefghijklmnopqrstuugAWRXAeCYOk1BKUl0T8NHW/xYdPXTEC\n"
HELPER = """#!/bin/sh
[ "$1" = get ] || exit 3
read server
echo "$server" >> "$0.log"
[ "$server" = "{host}" ] || {{ echo "credentials not found in native keychain"; exit 1; }}
echo '{{"ServerURL": "{host}", "Username": "{user}", "Secret": "{password}"}}'
"""


@pytest.fixture(scope="module")
def closed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Host and port of a registry that wants a password."""
    folder = tmp_path_factory.mktemp("closed")
    (folder / "htpasswd").write_text(HTPASSWD)
    settings = f"auth: {{htpasswd: {{realm: closed, path: {folder / 'htpasswd'}}}}}\n"
    with serve_registry(folder, settings=settings) as port:
        yield f"localhost:{port}"


@pytest.fixture(params=["auths", "credHelpers", "credsStore"])
def environment(
    request: pytest.FixtureRequest, closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, str]:
    """The environment of somebody who has signed in, in one of Docker's ways."""
    helper = tmp_path / "docker-credential-fake"
    helper.write_text(HELPER.format(host=closed, user=USER, password=PASSWORD))
    helper.chmod(0o755)
    login = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    config = {
        "auths": {"auths": {closed: {"auth": login}}},
        "credHelpers": {"credHelpers": {closed: "fake"}},
        "credsStore": {"credsStore": "fake", "auths": {closed: {}}},
    }[request.param]
    (tmp_path / "config.json").write_text(json.dumps(config))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    return {"DOCKER_CONFIG": str(tmp_path), "PATH": os.environ["PATH"]}


def test_what_docker_login_keeps(
    environment: dict[str, str], closed: str, engine: DockerClient, recorder: Recorder
) -> None:
    auth = docker_login(closed, environment)
    assert auth is not None
    assert (auth.username, auth.password) == (USER, PASSWORD)
    repository = f"other/{secrets.token_hex(4)}"
    engine.images.get(BASE).tag(f"{closed}/{repository}", "x")
    try:
        with Registry(f"http://{closed}", auth=auth) as registry:
            registry.check_push(repository)
            digest = push_image(engine, f"{closed}/{repository}", "x", auth=auth, listener=recorder)
            assert registry.head_manifest(repository, "x") == digest
        engine.images.remove(f"{closed}/{repository}:x", noprune=True)
        assert pull_image(engine, f"{closed}/{repository}", digest, auth=auth, listener=recorder)
    finally:
        forget(engine, f"{closed}/{repository}")


def test_a_helper_that_fails(closed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docker-credential-fake").write_text("#!/bin/sh\necho the keychain is locked\nexit 1\n")
    (tmp_path / "docker-credential-fake").chmod(0o755)
    (tmp_path / "config.json").write_text(json.dumps({"credHelpers": {closed: "fake"}}))
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with pytest.raises(
        ImageError, match=rf"the credentials for {closed} in Docker's configuration cannot be read"
    ) as e:
        docker_login(closed, {"DOCKER_CONFIG": str(tmp_path), "PATH": os.environ["PATH"]})
    assert "the keychain is locked" in str(e.value)
