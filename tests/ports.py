"""Ports for servers of the tests."""

from __future__ import annotations

import random
import socket
from typing import Final

#: Below what systems give to outgoing connections and to port 0 (32768 and up on Linux, 49152 on others), so that nobody gets it by chance.
_RANGE: Final = range(20_000, 32_000)


def free_port() -> int:
    """Return a TCP port that nothing listens on, for a server that cannot take port 0. No other test is likely to get it."""
    for port in random.sample(_RANGE, 100):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("", port))
            except OSError:
                continue
            return port
    raise AssertionError(f"none of 100 ports from {_RANGE.start} to {_RANGE.stop - 1} is free")
