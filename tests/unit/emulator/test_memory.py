"""Free memory goes back to the system, where there is a way."""

from __future__ import annotations

import asyncio
import ctypes
from types import SimpleNamespace

import pytest

from aml_emulator import memory


def test_free_memory_is_returned_again_and_again(monkeypatch: pytest.MonkeyPatch) -> None:
    trimmed: list[int] = []

    async def main() -> None:
        enough = asyncio.Event()

        def trim(kept: int) -> None:
            trimmed.append(kept)
            if len(trimmed) == 3:
                enough.set()

        monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace(malloc_trim=trim))
        monkeypatch.setattr(memory, "TRIM_SECONDS", 0)
        trimming = asyncio.create_task(memory.return_free_memory())
        await enough.wait()
        trimming.cancel()
        with pytest.raises(asyncio.CancelledError):
            await trimming

    asyncio.run(main())
    assert set(trimmed) == {0}


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    asyncio.run(memory.return_free_memory())
