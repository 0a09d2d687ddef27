"""A port that the emulator chooses for a child is the child's: nobody else is given it before that listens."""

from __future__ import annotations

import errno
import socket
import sys

import pytest

from aml_emulator.processes.host import listen, reserved_port


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a port cannot be held for a child")
def test_a_reserved_port_is_free_for_a_server_and_for_nobody_else() -> None:
    with reserved_port() as port:
        with socket.socket() as other, pytest.raises(OSError, match="in use") as caught:
            other.bind(("127.0.0.1", port))
        assert caught.value.errno == errno.EADDRINUSE
        with socket.socket() as client, pytest.raises(ConnectionRefusedError):
            client.connect(("127.0.0.1", port))
        for host in ("127.0.0.1", "0.0.0.0"):  # noqa: S104 - as in the container
            with listen(host, port), socket.create_connection(("127.0.0.1", port)):
                pass
