"""Which engine `image.builder` means, and with which environment Docker's clients reach it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from aml_train.config.sections.image_builder import BuilderConfig
from aml_train.core.errors import ImageError
from aml_train.image.builders import place as places
from aml_train.image.builders.engine import BuildxBuilder, EngineBuilder
from aml_train.image.builders.place import CERTIFICATES, BuildPlace, engine_environ
from aml_train.image.builders.service import ServiceBuilder

WHERE = "aml-train.yml:4"


def certificates(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).write_text("")
    return folder


def programs(folder: Path) -> str:
    ssh = folder / "ssh"
    ssh.write_text("")
    ssh.chmod(0o755)
    return str(folder)


def test_an_engine_by_ssh_is_reached_by_the_users_own_ssh(tmp_path: Path) -> None:
    path = programs(tmp_path)
    given = {
        "PATH": path,
        "DOCKER_CONTEXT": "other",
        "DOCKER_TLS_VERIFY": "1",
        "DOCKER_CERT_PATH": "/x",
        "HOME": "/h",
    }
    found = engine_environ(given, "ssh://build@host", where=WHERE)
    assert found == {"PATH": path, "HOME": "/h", "DOCKER_HOST": "ssh://build@host"}


def test_an_engine_by_ssh_needs_ssh() -> None:
    with pytest.raises(ImageError, match=rf"^{WHERE}: the engine at ssh://host needs the command ssh"):
        engine_environ({"PATH": ""}, "ssh://host", where=WHERE)


def test_an_engine_by_tcp_is_used_by_tls_alone(tmp_path: Path) -> None:
    folder = certificates(tmp_path / "tls", *CERTIFICATES)
    expected = {"DOCKER_HOST": "tcp://host:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(folder)}
    assert engine_environ({}, "tcp://host:2376", tls=folder, where=WHERE) == expected
    assert engine_environ({"DOCKER_CERT_PATH": str(folder)}, "tcp://host:2376", where=WHERE) == expected
    assert engine_environ({"DOCKER_CONFIG": str(folder)}, "tcp://host:2376", where=WHERE) == {
        **expected,
        "DOCKER_CONFIG": str(folder),
    }


def test_a_missing_certificate_is_named(tmp_path: Path) -> None:
    folder = certificates(tmp_path / "tls", "ca.pem")
    with pytest.raises(ImageError, match=r"has no cert\.pem, key\.pem") as caught:
        engine_environ({}, "tcp://host:2376", tls=folder, where=WHERE)
    assert caught.value.message.startswith(f"{WHERE}: ")
    assert "image.builder.tls" in str(caught.value.hint)


def place(environ: dict[str, str] | None = None, **config: Any) -> BuildPlace:
    return BuildPlace(
        config=BuilderConfig(**config), local=lambda: cast("Any", "this machine's"), environ=environ or {}
    )


def no_service(_config: BuilderConfig) -> Any:
    """Give a service that is never used."""


def test_places(monkeypatch: pytest.MonkeyPatch) -> None:
    connected: list[str] = []

    def connect(environ: dict[str, str]) -> Any:
        connected.append(environ["DOCKER_HOST"])
        return "another"

    monkeypatch.setattr(places, "connect_engine", connect)
    local: Any = place()
    assert (local.engine, local.resolving_engine()) == ("this machine's", "this machine's")
    assert isinstance(local.builder(no_service)(), EngineBuilder)
    remote: Any = place(kind="remote", engine="unix:///run/other.sock")
    assert (remote.engine, remote.resolving_engine()) == ("another", "another")
    assert isinstance(remote.builder(no_service)(), EngineBuilder)
    buildx: Any = place(kind="remote", buildx="big")
    assert (buildx.engine, buildx.resolving_engine()) == ("this machine's", None)
    assert isinstance(buildx.builder(no_service)(), BuildxBuilder)
    service: Any = place(kind="acr")
    assert (service.engine, service.resolving_engine(), service.platform()) == (None, None, "linux/amd64")
    assert isinstance(service.builder(no_service)(), ServiceBuilder)
    assert connected == ["unix:///run/other.sock"]


def test_an_engine_that_does_not_answer_is_named_with_its_key(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_environ: object) -> Any:
        raise ImageError("the Docker engine at unix:///x does not answer: gone", hint="Start Docker")

    monkeypatch.setattr(places, "connect_engine", connect)
    with pytest.raises(
        ImageError, match=rf"^{WHERE}: the Docker engine at unix:///x does not answer: gone"
    ) as caught:
        _ = place(kind="remote", engine="unix:///x", where=WHERE).engine
    assert "docker --host ADDRESS version" in str(caught.value.hint)
