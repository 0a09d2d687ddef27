from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from docker.errors import DockerException

from aml_train.core.docker import buildkit_cli, connect_engine, read_docker_configuration
from aml_train.core.errors import ImageError


@pytest.mark.parametrize(
    ("clients", "chosen"),
    [
        ({}, None),
        ({"a": "28.2"}, None),
        ({"a": ""}, None),
        ({"a": "18.06"}, None),
        ({"a": "20.10"}, "a"),
        ({"a": "23.0"}, None),
        ({"a": "28.2", "b": "20.10"}, "b"),
        ({"a": "20.10", "b": "28.2 with buildx"}, "b"),
    ],
)
def test_which_client_builds(
    clients: dict[str, str], chosen: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(argv: list[str], _environ: object) -> str | None:
        version = clients[Path(argv[0]).parent.name]
        if argv[1] == "buildx":
            return "github.com/docker/buildx" if "buildx" in version else None
        return f"Docker version {version}.24+dfsg1, build 297e128" if version else None

    for name in clients:
        (tmp_path / name).mkdir()
        (tmp_path / name / "docker").touch(mode=0o755)
    monkeypatch.setattr("aml_train.core.docker._run", answer)
    # No file can be there: the folder of another user is passed over in the same way.
    path = ":".join([f"{tmp_path}/{'x' * 300}", *(f"{tmp_path}/{name}" for name in clients)])
    if chosen is None:
        with pytest.raises(ImageError, match="no docker command can build with BuildKit"):
            buildkit_cli({"PATH": path})
    else:
        assert buildkit_cli({"PATH": path}).path == f"{tmp_path}/{chosen}/docker"


@pytest.mark.parametrize("host", ["tcp://[", "tcp://a:b:c", "tcp://x:99999999", "[", "foo://x", "fd://x"])
def test_an_address_that_is_none(host: str, tmp_path: Path) -> None:
    with pytest.raises(ImageError, match=r"the Docker engine at .* does not answer: .") as caught:
        connect_engine({"DOCKER_HOST": host, "DOCKER_CONFIG": str(tmp_path)})
    assert "DOCKER_HOST" in str(caught.value.hint)


def test_an_engine_by_ssh_is_reached_by_the_command_ssh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: dict[str, Any] = {}

    def refuse(**options: Any) -> None:
        asked.update(options)
        raise DockerException("Install paramiko package to enable ssh:// support")

    monkeypatch.setattr("docker.from_env", refuse)
    with pytest.raises(ImageError, match="ssh://build@host does not answer: Install par") as caught:
        connect_engine({"DOCKER_HOST": "ssh://build@host", "DOCKER_CONFIG": str(tmp_path)})
    assert asked["use_ssh_client"] is True
    assert "aml-train[ssh]" in str(caught.value.hint)


@pytest.mark.parametrize(
    "content",
    [
        b"{",
        b"\xff",
        b"[" * 100_000,
        b"[]",
        b"null",
        b'{"auths": 5}',
        b'{"auths": {"r.io": 5}}',
        b'{"auths": {"r.io": {"auth": "YQ=="}}}',
        b'{"auths": {"r.io": {"auth": 5}}}',
        b'{"credHelpers": {"r.io": 7}}',
        b'{"credsStore": 7}',
        b'{"proxies": {"default": 5}}',
    ],
)
def test_a_damaged_configuration_of_docker(content: bytes, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ImageError, match=rf"^{tmp_path}/config.json is damaged: ") as caught:
        connect_engine({"DOCKER_CONFIG": str(tmp_path)})
    assert "docker login" in str(caught.value.hint)


@pytest.mark.parametrize(
    "content",
    ["", "\n", '{"auths": {"r.io": {}, "s.io": {"auth": "", "identitytoken": "t"}, "t.io": {"auth": "dTpw"}}}'],
)
def test_a_configuration_of_docker(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    assert read_docker_configuration({"DOCKER_CONFIG": str(tmp_path)}).keys() <= {"auths"}
    assert read_docker_configuration({"HOME": str(tmp_path)}) == {}
