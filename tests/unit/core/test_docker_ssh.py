"""The command of a connection to an engine by ssh."""

from __future__ import annotations

import pytest

from aml_train.core.docker_ssh import ssh_command
from aml_train.core.errors import ImageError


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("ssh://host", ["--", "host"]),
        ("ssh://build@host", ["-l", "build", "--", "host"]),
        ("ssh://build@host:2222", ["-l", "build", "-p", "2222", "--", "host"]),
        ("ssh://build@host:2222/", ["-l", "build", "-p", "2222", "--", "host"]),
    ],
)
def test_the_command_of_a_connection(address: str, words: list[str]) -> None:
    command = ssh_command(address)
    assert command[:4] == ["ssh", "-T", "-o", "ConnectTimeout=30"]
    assert command[4:] == [*words, "docker", "system", "dial-stdio"]


@pytest.mark.parametrize("address", ["ssh://u:pass-word@host:bad", "ssh://host:99999", "ssh://[host"])
def test_an_address_that_is_none_is_refused_without_its_password(address: str) -> None:
    with pytest.raises(ImageError, match="no address of ssh") as caught:
        ssh_command(address)
    assert "pass-word" not in str(caught.value)
