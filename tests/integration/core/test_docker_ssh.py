"""The way to an engine by ssh, with another program in the place of ssh."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from aml_train.core import docker_ssh
from aml_train.core.docker_ssh import SshTunnel


def connect(tunnel: SshTunnel) -> socket.socket:
    found = socket.socket(socket.AF_UNIX)
    found.settimeout(60)
    found.connect(tunnel.address.removeprefix("unix://"))
    return found


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    words: list[str] = []
    monkeypatch.setattr(docker_ssh, "ssh_command", lambda _address: words)
    return words


def test_each_connection_is_a_command(command: list[str]) -> None:
    command += ["sh", "-c", 'read -r line; echo "$VALUE $line"']
    tunnel = SshTunnel("ssh://host", {"VALUE": "got"})
    folder = Path(tunnel.address.removeprefix("unix://")).parent
    assert folder.stat().st_mode & 0o777 == 0o700
    for word in (b"one", b"two"):
        with connect(tunnel) as connection:
            connection.sendall(word + b"\n")
            assert connection.makefile("rb").read() == b"got " + word + b"\n"
    tunnel.close()
    assert not folder.exists()


def test_the_reason_is_what_the_command_wrote_last(command: list[str]) -> None:
    command += ["sh", "-c", "echo a banner >&2; echo Permission denied >&2"]
    tunnel = SshTunnel("ssh://host", {})
    assert tunnel.reason() == ""
    with connect(tunnel) as connection:
        assert connection.makefile("rb").read() == b""
    assert tunnel.reason() == "Permission denied"
    tunnel.close()
