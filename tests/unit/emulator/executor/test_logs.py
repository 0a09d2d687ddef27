"""The pump of a job's log."""

from __future__ import annotations

import threading

import pytest

from aml_emulator.executor import logs
from aml_emulator.executor.logs import LogPump


def test_what_is_stored_already_is_skipped_but_part_of_the_tail() -> None:
    stored: list[bytes] = []
    pump = LogPump(stored.append, skip=5)
    for chunk in (b"ab", b"cdefg", b"h"):
        pump.feed(chunk)
    pump.close()
    assert b"".join(stored) == b"fgh"
    assert pump.tail() == "abcdefgh"


def test_memory_is_bounded_while_the_store_is_slow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logs, "BUFFER_BYTES", 100)
    go_on = threading.Event()
    sizes: list[int] = []

    def append(data: bytes) -> None:
        go_on.wait()
        sizes.append(len(data))

    pump = LogPump(append)
    feeder = threading.Thread(target=pump.feed, args=(b"x" * 1000,))
    feeder.start()
    feeder.join(0.05)
    assert feeder.is_alive()
    go_on.set()
    feeder.join()
    pump.close()
    assert sum(sizes) == 1000
    assert max(sizes) <= 100


def test_a_store_that_fails_blocks_nobody_and_is_told_at_the_end() -> None:
    def append(_: bytes) -> None:
        raise RuntimeError("the store is full")

    pump = LogPump(append)
    pump.feed(b"x" * (2 * logs.BUFFER_BYTES))
    pump.feed(b"last words")
    with pytest.raises(RuntimeError, match="the store is full"):
        pump.close()
    assert pump.tail().endswith("last words")
