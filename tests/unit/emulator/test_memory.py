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


class Usage(ctypes.Structure):
    """What mallinfo2(3) returns."""

    _fields_ = (("fields", ctypes.c_size_t * 10),)

    @property
    def mapped(self) -> int:
        """How many blocks are in no arena: ``hblks``."""
        return int(self.fields[3])


@pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallinfo2"), reason="of glibc 2.33 and later")
def test_a_large_block_lies_in_no_arena_after_another_was_freed() -> None:
    library = ctypes.CDLL(None)
    library.mallinfo2.restype = Usage
    library.malloc.restype = ctypes.c_void_p
    memory.limit_arenas()
    for _ in range(2):
        before = library.mallinfo2().mapped
        block = ctypes.c_void_p(library.malloc(ctypes.c_size_t(8 * memory.MAPPED_BYTES)))
        after = library.mallinfo2().mapped
        library.free(block)
        assert after == before + 1


def test_another_c_library_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _name: SimpleNamespace())
    memory.limit_arenas()
    asyncio.run(memory.return_free_memory())
