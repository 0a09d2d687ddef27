from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from docker.errors import DockerException

from aml_train.core.docker import CliProbe, choose_cli, connect_engine, parse_version, read_docker_configuration
from aml_train.core.errors import ImageError


def _probe(path: str, version: tuple[int, int] | None, *, buildx: bool = False) -> CliProbe:
    return CliProbe(path=path, version=version, buildx=buildx)


@pytest.mark.parametrize(
    ("probes", "chosen"),
    [
        ([], None),
        ([_probe("a", (28, 2))], None),
        ([_probe("a", None)], None),
        ([_probe("a", (18, 6))], None),
        ([_probe("a", (20, 10))], "a"),
        ([_probe("a", (22, 9))], "a"),
        ([_probe("a", (23, 0))], None),
        ([_probe("a", (28, 2)), _probe("b", (20, 10))], "b"),
        ([_probe("a", (20, 10)), _probe("b", (28, 2), buildx=True)], "b"),
        ([_probe("a", None, buildx=True), _probe("b", (20, 10))], "a"),
    ],
)
def test_which_client_builds(probes: list[CliProbe], chosen: str | None) -> None:
    found = choose_cli(probes)
    assert (found.path if found else None) == chosen


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("Docker version 20.10.24+dfsg1, build 297e128", (20, 10)),
        ("Docker version 28.2.2, build e6534b4\n", (28, 2)),
        ("podman version 5.0.0", None),
        ("", None),
    ],
)
def test_version(text: str, version: tuple[int, int] | None) -> None:
    assert parse_version(text) == version


@pytest.mark.parametrize("host", ["tcp://[", "tcp://a:b:c", "tcp://x:99999999", "[", "foo://x", "http://", "fd://x"])
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
    with pytest.raises(
        ImageError, match="the Docker engine at ssh://build@host does not answer: Install par"
    ) as caught:
        connect_engine({"DOCKER_HOST": "ssh://build@host", "DOCKER_CONFIG": str(tmp_path)})
    assert asked["use_ssh_client"] is True
    assert "aml-train[ssh]" in str(caught.value.hint)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"{", "config.json is not JSON: "),
        (b"\xff", "config.json is not JSON: "),
        (b"[" * 100_000, "config.json is not JSON: "),
        (b"[]", "config.json is damaged: it is no JSON object"),
        (b"5", "it is no JSON object"),
        (b"null", "it is no JSON object"),
        (b'{"auths": 5}', "`auths` must be an object"),
        (b'{"auths": {"r.io": 5}}', "`r.io` of `auths` must be an object"),
        (b'{"auths": {"r.io": {"auth": "YQ=="}}}', "`auth` of `r.io` is not user and password in base64"),
        (b'{"auths": {"r.io": {"auth": "\xc3\xa4"}}}', "`auth` of `r.io` is not user and password in base64"),
        (b'{"auths": {"r.io": {"auth": 5}}}', "`auth` of `r.io` is not user and password in base64"),
        (b'{"credHelpers": {"r.io": 7}}', "`r.io` of `credHelpers` must be text"),
        (b'{"credsStore": 7}', "`credsStore` must be text"),
        (b'{"HttpHeaders": 5}', "`HttpHeaders` must be an object"),
        (b'{"proxies": {"default": 5}}', "`default` of `proxies` must be an object"),
    ],
)
def test_a_broken_configuration_of_docker(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_bytes(content)
    with pytest.raises(ImageError) as caught:
        connect_engine({"DOCKER_CONFIG": str(tmp_path)})
    assert message in caught.value.message
    assert str(tmp_path / "config.json") in caught.value.message
    assert "docker login" in str(caught.value.hint)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "\n",
        "{}",
        '{"auths": {"r.io": {}, "s.io": {"auth": "", "identitytoken": "t"}, "t.io": {"auth": "dTpw"}}, "psFormat": "x"}',
        '{"auths": null}',
    ],
)
def test_a_configuration_of_docker(content: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(content)
    assert read_docker_configuration({"DOCKER_CONFIG": str(tmp_path)}).keys() <= {"auths", "psFormat"}


def test_no_configuration_of_docker(tmp_path: Path) -> None:
    assert read_docker_configuration({"HOME": str(tmp_path)}) == {}
