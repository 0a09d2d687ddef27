"""Ports for servers of the tests."""

from __future__ import annotations

import os
import random
import socket
from pathlib import Path
from typing import Final

from tests.support.scheduling import FOLDER

#: Below what systems give to outgoing connections and to port 0 (32768 and up on Linux, 49152 on others), so that nobody gets it by chance.
_RANGE: Final = range(20_000, 32_000)
_given: Final[set[int]] = set()


def _reserved(port: int) -> bool:
    """Take *port* for the rest of the run; False where this or another worker has it. Between looking and listening nobody else gets it."""
    if port in _given:
        return False
    if folder := os.environ.get(FOLDER):
        try:
            Path(folder, f"port-{port}").touch(exist_ok=False)
        except FileExistsError:
            return False
    _given.add(port)
    return True


def free_port() -> int:
    """Return a TCP port that nothing listens on, for a server that cannot take port 0. No other test of the run gets it."""
    for port in random.sample(_RANGE, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
        if _reserved(port):
            return port
    raise AssertionError(f"none of 100 ports from {_RANGE.start} to {_RANGE.stop - 1} is free")
