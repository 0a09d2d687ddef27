"""Memory and files of many clients that keep their connections, as watchers of jobs do."""

from __future__ import annotations

import contextlib
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.soak.sampling import Process, read_process

from tests.support.emulator_process import Emulator, executing_by

HOST = "management.azure.com"
FIRST = 20
"""Connections that load code."""
CLIENTS = 150
#: TLS takes some 40 KiB, and each side of a stream has buffers.
MOST_BYTES = 200 * 1024
SECONDS = 30.0


def _process(emulator: Emulator) -> Process:
    assert emulator.process is not None
    found = read_process(emulator.process.pid, "service")
    assert found is not None
    return found


def _connect(emulator: Emulator, context: ssl.SSLContext) -> ssl.SSLSocket:
    """Return a connection over which one request was answered."""
    plain = socket.create_connection(("127.0.0.1", emulator.port))
    plain.sendall(f"CONNECT {HOST}:443 HTTP/1.1\r\nHost: {HOST}:443\r\n\r\n".encode())
    assert b" 200 " in plain.recv(1000)
    wrapped = context.wrap_socket(plain, server_hostname=HOST)
    wrapped.sendall(f"GET /subscriptions HTTP/1.1\r\nHost: {HOST}\r\n\r\n".encode())
    assert b" 401 " in wrapped.recv(4000)
    return wrapped


@contextlib.contextmanager
def _connected(emulator: Emulator, count: int) -> Iterator[None]:
    context = ssl.create_default_context(cafile=emulator.environment()["SSL_CERT_FILE"])
    with contextlib.ExitStack() as stack:
        for _ in range(count):
            stack.enter_context(_connect(emulator, context))
        yield


def _await_files(emulator: Emulator, most: int) -> None:
    """Return when the service has no more files open than *most*."""
    end = time.monotonic() + SECONDS
    while _process(emulator).files > most:
        assert time.monotonic() < end, _process(emulator)
        time.sleep(0.1)


def test_a_stop_in_the_middle_of_connections_is_no_fault(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with executing_by("tests.support.instant_emulator", tmp_path) as emulator:
            context = ssl.create_default_context(cafile=emulator.environment()["SSL_CERT_FILE"])
            assert emulator.registry_tls_port is not None
            for port in (emulator.registry_port, emulator.registry_tls_port):
                plain = stack.enter_context(socket.create_connection(("127.0.0.1", port)))
                if port == emulator.registry_tls_port:
                    stack.enter_context(context.wrap_socket(plain, server_hostname="amllocal.azurecr.io"))
                else:
                    plain.sendall(b"POST /v2/a/blobs/uploads/ HTTP/1.1\r\nHost: localhost\r\n\r\n")
                    assert b" 202 " in plain.recv(1000)
        log = emulator.log.read_text()
    assert "stopping" in log
    assert "Traceback" not in log, log


def test_a_connection_takes_little_memory_and_leaves_no_file(tmp_path: Path) -> None:
    with executing_by("tests.support.instant_emulator", tmp_path) as emulator:
        with _connected(emulator, FIRST):
            first = _process(emulator)
        # The service closes its side later: what is still open would be missing from the difference.
        _await_files(emulator, first.files - FIRST)
        before = _process(emulator)
        with _connected(emulator, CLIENTS):
            during = _process(emulator)
        # A second connection behind the proxy would take two more files for each.
        assert CLIENTS <= during.files - before.files < 1.5 * CLIENTS
        assert (during.memory - before.memory) / CLIENTS < MOST_BYTES
        _await_files(emulator, before.files)
