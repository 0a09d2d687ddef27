from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from aml_train.core.text import LONGEST_LINE, LineBlocks, LineSplitter, Piece, is_plain, states


@pytest.mark.parametrize(
    ("pieces", "lines"),
    [
        ([b"a\nb\n"], ["a", "b"]),
        ([b"a", b"b\nc"], ["ab", "c"]),
        ([b"caf\xc3", b"\xa9\n"], ["café"]),
        ([b"\xff\xfe\n"], ["��"]),
        ([b"10%\r50%\r100%\r\n"], ["100%"]),
        ([b"kept\r::error::x\n"], ["kept", "::error::x"]),
        ([b"a\r", b"\nb"], ["a", "b"]),
        ([b"\n\n"], ["", ""]),
        ([b""], []),
    ],
)
def test_lines_come_out_whole(pieces: list[bytes], lines: list[str]) -> None:
    splitter = LineSplitter()
    found = [line for piece in pieces for line in splitter.feed(piece)] + splitter.feed(b"", final=True)
    assert found == [Piece(line) for line in lines]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("", [""]),
        ("\r\r", [""]),
        ("one", ["one"]),
        ("(Reading ... \r(Reading ... 50%\r(Reading ... 8577 files", ["(Reading ... 8577 files"]),
        ("epoch 1:  5/9 |#  |\repoch 1:  6/9 |## |\rdone", ["epoch 1:  6/9 |## |", "done"]),
        ("12345\rhello", ["12345", "hello"]),
        ("evil\r\rgood", ["evil", "good"]),
        ("10%\r20%", ["20%"]),
    ],
)
def test_only_a_progress_bar_rewrites_itself(text: str, kept: list[str]) -> None:
    assert states(text) == kept


@pytest.mark.parametrize("size", [10_000, 1_000_000])
def test_a_line_without_end_does_not_fill_the_memory(size: int) -> None:
    splitter = LineSplitter()
    lines = [line for _ in range(1_000_000 // size) for line in splitter.feed(b"x" * size)]
    lines += splitter.feed(b"\nnext\n")
    assert lines[-1] == Piece("next")
    assert "".join(line.text for line in lines[:-1]) == "x" * 1_000_000
    assert max(len(line.text) for line in lines) == LONGEST_LINE
    assert [line.more for line in lines] == [True] * (len(lines) - 2) + [False, False]


_WORDS = st.sampled_from(["a", "\n", "\r", "é", "10%", "x" * LONGEST_LINE, "y" * (LONGEST_LINE - 1), "\n\n"])


@given(st.lists(st.lists(_WORDS, max_size=6).map("".join), max_size=5))
def test_blocks_are_the_same_lines_many_at_a_time(parts: list[str]) -> None:
    lines, blocks = LineSplitter(), LineBlocks()
    one = [piece for part in parts for piece in lines.feed(part.encode())] + lines.feed(b"", final=True)
    found = [piece for part in parts for piece in blocks.feed(part.encode())] + blocks.feed(b"", final=True)
    apart: list[Piece] = []
    for block in found:
        *whole, last = block.text.split("\n")
        apart += [*map(Piece, whole), Piece(last, block.more)]
    assert apart == one


@given(st.text(st.characters(max_codepoint=0x300)))
def test_what_is_plain_needs_no_care(text: str) -> None:
    careful = [c for c in text if ord(c) > 0x7E or (ord(c) < 0x20 and c not in "\t\n")]
    assert is_plain(text) is (not careful)
