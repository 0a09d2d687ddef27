"""Connections to AzureML's hosts through the proxy, byte by byte: the service takes them over when the client speaks TLS."""

from __future__ import annotations

import re
import socket
import ssl
from typing import Self

import pytest

from tests.support.emulator_client import MANAGEMENT, SECONDS
from tests.support.emulator_process import Emulator

HOST = MANAGEMENT.removeprefix("https://")
CONNECT = f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode()
REQUEST = f"GET /subscriptions HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode()


class Tunnel:
    """A client whose TLS is in memory, so that what it sends together is up to the test."""

    def __init__(self, emulator: Emulator) -> None:
        self._socket = socket.create_connection(("127.0.0.1", emulator.port), timeout=SECONDS)
        self._received, self._sending = ssl.MemoryBIO(), ssl.MemoryBIO()
        context = ssl.create_default_context(cafile=emulator.environment()["REQUESTS_CA_BUNDLE"])
        self._tls = context.wrap_bio(self._received, self._sending, server_hostname=HOST)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.close()

    def send(self, data: bytes) -> None:
        self._socket.sendall(data)

    def ask(self) -> None:
        """Ask for the tunnel, and await it."""
        self.send(CONNECT)
        self.established()

    def established(self) -> None:
        answer = b""
        while not answer.endswith(b"\r\n\r\n"):
            answer += self._socket.recv(1)
        assert answer.startswith(b"HTTP/1.1 200 ")

    def hello(self) -> bytes:
        """Return the first message of TLS."""
        with pytest.raises(ssl.SSLWantReadError):
            self._tls.do_handshake()
        return self._sending.read()

    def finished(self) -> bytes:
        """Receive the service's part of the handshake, and return the end of the client's."""
        while True:
            try:
                self._tls.do_handshake()
            except ssl.SSLWantReadError:
                self._received.write(self._receive())
            else:
                return self._sending.read()

    def encrypted(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._sending.read()

    def answer(self) -> str:
        """Return the status line of an answer, whose body is read as well."""
        answer = b""
        while b"\r\n\r\n" not in answer:
            answer += self._decrypted()
        head, _, body = answer.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        while len(body) < int(length[1]):
            body += self._decrypted()
        return head.partition(b"\r\n")[0].decode()

    def ended(self) -> bool:
        """Return whether the other side ends the connection."""
        try:
            while self._socket.recv(65536):
                continue
        except ConnectionError:
            return True
        return True

    def _decrypted(self) -> bytes:
        while True:
            try:
                return self._tls.read(65536)
            except ssl.SSLWantReadError:
                self._received.write(self._receive())

    def _receive(self) -> bytes:
        data = self._socket.recv(65536)
        assert data, "the connection was ended"
        return data


def test_a_request_may_come_with_the_end_of_the_handshake(emulator: Emulator) -> None:
    with Tunnel(emulator) as tunnel:
        tunnel.ask()
        tunnel.send(tunnel.hello())
        tunnel.send(tunnel.finished() + tunnel.encrypted(REQUEST))
        assert tunnel.answer() == "HTTP/1.1 401 Unauthorized"
        tunnel.send(tunnel.encrypted(REQUEST))
        assert tunnel.answer() == "HTTP/1.1 401 Unauthorized"


@pytest.mark.parametrize("data", [b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x05hello", b""])
def test_what_is_not_tls_ends_the_connection_and_nothing_else(emulator: Emulator, data: bytes) -> None:
    with Tunnel(emulator) as tunnel:
        tunnel.ask()
        tunnel.send(data or tunnel.hello()[:20])
        if not data:
            tunnel._socket.shutdown(socket.SHUT_WR)
        assert tunnel.ended()
    assert emulator.admin("GET", "health").status_code == 200
    assert "Traceback" not in emulator.log.read_text()


def test_new_faults_end_an_open_connection(emulator: Emulator) -> None:
    with Tunnel(emulator) as tunnel:
        tunnel.ask()
        tunnel.send(tunnel.hello())
        tunnel.send(tunnel.finished() + tunnel.encrypted(REQUEST))
        assert tunnel.answer() == "HTTP/1.1 401 Unauthorized"
        try:
            assert emulator.admin("POST", "faults?kind=status&status=503&path=/none").status_code == 200
            assert tunnel.ended()
        finally:
            assert emulator.admin("DELETE", "faults").status_code == 200
