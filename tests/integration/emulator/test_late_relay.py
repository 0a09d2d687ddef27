"""The port that benchmarks are late by: a round trip takes longer, and chunks wait side by side."""

from __future__ import annotations

import socket
import threading
import time

from benchmarks.late_relay import late_port

SECONDS = 0.2


def echo(listener: socket.socket) -> None:
    connection, _ = listener.accept()
    with connection:
        while data := connection.recv(1000):
            connection.sendall(data)


def test_a_round_trip_takes_longer_and_data_in_flight_waits_side_by_side() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=echo, args=(listener,), daemon=True).start()
        with (
            late_port(listener.getsockname()[1], SECONDS) as port,
            socket.create_connection(("127.0.0.1", port)) as near,
        ):
            began = time.monotonic()
            for _ in range(5):
                near.sendall(b"x")
                time.sleep(0.01)
            near.shutdown(socket.SHUT_WR)
            received = b""
            while data := near.recv(1000):
                received += data
            took = time.monotonic() - began
    assert received == b"xxxxx"
    assert SECONDS <= took < 4 * SECONDS
